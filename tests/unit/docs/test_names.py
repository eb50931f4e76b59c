"""Settings and metrics that the pages speak of exist. The generated pages have them all; another test holds those to the code."""

import re
from pathlib import Path

import pytest

from support.documents import DOCS, ROOT, pages

GENERATED = {"settings.md", "metrics.md", "cli.md", "http.md"}
NOT_SETTINGS = {
    # read by the command line, by `farmiq up`, or by every replica
    "AMQP_MANAGEMENT_URL", "CLOUD_DATABASE_URL", "DOCTOR_MQTT_URL", "EDGE_DATABASE_URL", "FARMIQ_HOME", "INSTANCE_ID", "NAME",
    # of the tests
    "BUS_CAMPAIGN_KILLS", "FARMIQ_OUTAGE_HOURS", "FARMIQ_SCREENSHOTS", "SYNC_CAMPAIGN_KILLS", "SYNC_CAMPAIGN_SEED",
    # codes and words of others
    "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "EDGE_CHECKSUM_MISMATCH", "EDGE_OBJECT_MISSING", "LC_ALL", "LEASE_EXPIRED",
    "NETWORK_ERROR", "NOT_THE_CLOUD",
}  # fmt: skip

SETTING = re.compile(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)(?:=[^`]*)?`")
METRIC = re.compile(r"`((?:farmiq_[a-z0-9_]+)|(?:[a-z][a-z0-9_]*_total))(?:\{[^`]*)?`")
HTTP_CODE = re.compile(r"HTTP_[0-9]{3}")

written_by_hand = pytest.mark.parametrize(
    "page", [page for page in pages() if page.name not in GENERATED], ids=lambda page: page.relative_to(ROOT).as_posix()
)


def first_column(page: str) -> set[str]:
    text = (DOCS / "reference" / page).read_text(encoding="utf-8")
    return set(re.findall(r"^\| `(\w+)`", text, re.MULTILINE))


def unknown_settings(text: str) -> set[str]:
    named = {name.removesuffix("_FILE") for name in SETTING.findall(text) if not HTTP_CODE.fullmatch(name)}
    return named - first_column("settings.md") - NOT_SETTINGS


def unknown_metrics(text: str) -> set[str]:
    known = first_column("metrics.md")
    return {name for name in METRIC.findall(text) if re.sub(r"_(bucket|sum|count|created)$", "", name) not in known}


@written_by_hand
def test_every_setting_that_is_named_exists(page: Path) -> None:
    assert unknown_settings(page.read_text(encoding="utf-8")) == set()


@written_by_hand
def test_every_metric_that_is_named_exists(page: Path) -> None:
    assert unknown_metrics(page.read_text(encoding="utf-8")) == set()


def test_names_that_do_not_exist_are_found() -> None:
    text = "`OUTBOX_BATCH_SIZE`, `OUTBOX_BATCH_SIZES=3`, `MQTT_URL_FILE`, `HTTP_503`"
    assert unknown_settings(text) == {"OUTBOX_BATCH_SIZES"}
    assert unknown_metrics("`farmiq_build_info`, `farmiq_gone_total{code=x}`") == {"farmiq_gone_total"}
