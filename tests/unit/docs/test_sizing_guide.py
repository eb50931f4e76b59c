"""The output in docs/guides/sizing.md is what the command prints, and its figures are those that it computes with."""

import re
import shlex

from typer.testing import CliRunner

from farmiq.cli.app import app
from farmiq.sizing import measured
from support.documents import DOCS, block

PAGE = "guides/sizing.md"


def test_the_command_of_the_page_prints_what_the_page_shows() -> None:
    shown = block(PAGE, "console", "$ farmiq size")
    command, _, output = shown.partition("\n")
    answer = CliRunner().invoke(app, shlex.split(command)[2:])
    assert (answer.exit_code, answer.stdout) == (0, output)


def test_the_table_of_the_page_has_the_measured_figures() -> None:
    text = (DOCS / PAGE).read_text(encoding="utf-8")
    curves = {
        "MQTT message": measured.MQTT_BYTES,
        "`sync_outbox`, each batch, acknowledged": measured.OUTBOX_BYTES,
        "`ingress_dedupe`, each batch": measured.DEDUPE_BYTES,
        "request to the cloud, each of 100 batches": measured.REQUEST_BYTES,
        "request to the cloud, a single batch": measured.REQUEST_BYTES_OF_ONE,
    }
    for name, curve in curves.items():
        found = re.search(rf"^\| {re.escape(name)} \| (.*) \|$", text, re.MULTILINE)
        assert found is not None, name
        assert [int(cell.replace(",", "")) for cell in found[1].split(" | ")] == [
            round(size) for _, size in curve.points
        ]
    singles = {"695": measured.AGGREGATE_BYTES_PER_BUCKET, "412": measured.REQUEST_HEAD_BYTES}
    pictures = {"7,926": measured.PICTURE_ROWS_BYTES, "1,447": measured.PICTURE_STORE_BYTES}
    for figure, value in (singles | pictures).items():
        assert f"| {figure} |" in text
        assert int(figure.replace(",", "")) == round(value)
