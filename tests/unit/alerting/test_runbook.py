"""Every alert has its entry in the runbook, and every entry its alert."""

import re
from pathlib import Path
from typing import get_args

import pytest
from typer.main import get_command

from farmiq.alerting.rules import RULES, RUNBOOK, runbook_anchor, runbook_url
from farmiq.cli.app import app
from farmiq.edge.alerts import Kind

ROOT = Path(__file__).resolve().parents[3]
PARTS = ("Means.", "Is anything lost?", "Look here.", "Do this.", "It is over")


def entries() -> dict[str, str]:
    text = (ROOT / RUNBOOK).read_text(encoding="utf-8")
    found = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)[1:]
    sections = dict(zip(found[::2], found[1::2], strict=True))
    return {name: body for name, body in sections.items() if " " not in name}


NAMES = (*(rule.name for rule in RULES), *get_args(Kind))


def test_every_alert_has_its_entry_and_every_entry_its_alert_in_the_order_of_the_rules() -> None:
    names = list(entries())
    assert names[: len(RULES)] == [rule.name for rule in RULES]
    assert set(names[len(RULES) :]) == set(get_args(Kind)), "what services of the edge raise about one thing each"


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_says_what_it_means_what_is_lost_where_to_look_what_to_do_and_when_it_is_over(name: str) -> None:
    bold = re.findall(r"^\*\*(.+?)\*\*", entries()[name], re.MULTILINE)
    assert bold == list(PARTS)


def test_an_anchor_is_what_markdown_makes_of_the_heading() -> None:
    assert {runbook_anchor(name) for name in entries()} == {name.lower() for name in entries()}


def test_every_alert_that_an_entry_names_exists() -> None:
    named = set(re.findall(r"\bFarmiq[A-Z]\w+", (ROOT / RUNBOOK).read_text(encoding="utf-8")))
    assert named - {rule.name for rule in RULES} == set()


def test_every_kind_that_the_code_raises_is_one_that_has_an_entry() -> None:
    """mypy refuses a kind that is not in `Kind`; a word in another place would be missed."""
    calls = [
        call
        for path in (ROOT / "src" / "farmiq" / "edge").rglob("*.py")
        for call in re.findall(r"raise_alert\(\s*[\w.]+,\s*([^,]+),", path.read_text(encoding="utf-8"))
    ]
    literal = {call.strip('"') for call in calls if call.startswith('"')}
    assert len(literal) >= 6
    assert literal <= set(get_args(Kind))


def test_a_published_runbook_is_linked_to_and_else_its_path() -> None:
    assert runbook_url("FarmiqDataLost") == "docs/operations/runbook.md#farmiqdatalost"
    assert (
        runbook_url("FarmiqDataLost", "https://docs.example/runbook/") == "https://docs.example/runbook/#farmiqdatalost"
    )


TEXTS = [
    ROOT / RUNBOOK,
    *(path for part in ("console", "alerting") for path in (ROOT / "src" / "farmiq" / part).rglob("*.py")),
    *(ROOT / "src" / "farmiq" / "console" / "templates").rglob("*.html"),
]


def test_every_command_that_a_text_names_exists() -> None:
    """On the pages, in the advice of the first page, in alerts and in the runbook."""
    given = {
        words
        for path in TEXTS
        for words in re.findall(
            r"(?:^|[`(\"'>]|: )farmiq((?: [a-z][a-z-]*)+)", path.read_text(encoding="utf-8"), re.MULTILINE
        )
    }
    assert len(given) > 25
    assert [f"farmiq{words}" for words in sorted(given) if not _exists(words.split())] == []


def _exists(words: list[str]) -> bool:
    """What follows a command is its arguments."""
    known = get_command(app)
    for word in words:
        commands = getattr(known, "commands", None)
        if commands is None:
            return True
        if word not in commands:
            return False
        known = commands[word]
    return True
