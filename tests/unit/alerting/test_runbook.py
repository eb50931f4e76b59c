"""Every alert has its entry in the runbook, and every entry its alert."""

import re
from pathlib import Path

import pytest
from typer.main import get_command

from farmiq.alerting.rules import RULES, RUNBOOK, Rule, runbook_anchor
from farmiq.cli.app import app

ROOT = Path(__file__).resolve().parents[3]
PARTS = ("Means.", "Is anything lost?", "Look here.", "Do this.", "It is over")


def entries() -> dict[str, str]:
    text = (ROOT / RUNBOOK).read_text(encoding="utf-8")
    found = re.split(r"^## (Farmiq\w+)\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(found[::2], found[1::2], strict=True))


def test_every_alert_has_its_entry_and_every_entry_its_alert_in_the_order_of_the_rules() -> None:
    assert list(entries()) == [rule.name for rule in RULES]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_an_entry_says_what_it_means_what_is_lost_where_to_look_what_to_do_and_when_it_is_over(rule: Rule) -> None:
    bold = re.findall(r"^\*\*(.+?)\*\*", entries()[rule.name], re.MULTILINE)
    assert bold == list(PARTS)


def test_an_anchor_is_what_markdown_makes_of_the_heading() -> None:
    assert {runbook_anchor(name) for name in entries()} == {name.lower() for name in entries()}


def test_every_alert_that_an_entry_names_exists() -> None:
    named = set(re.findall(r"\bFarmiq[A-Z]\w+", (ROOT / RUNBOOK).read_text(encoding="utf-8")))
    assert named - {rule.name for rule in RULES} == set()


def test_every_command_that_the_runbook_gives_exists() -> None:
    text = (ROOT / RUNBOOK).read_text(encoding="utf-8")
    known = get_command(app)
    unknown = []
    given = re.findall(r"(?:^|[`(])farmiq((?: [a-z]+)+)", text, re.MULTILINE)
    assert len(given) > 20
    for words in given:
        group = known
        for word in words.split():
            commands = getattr(group, "commands", None)
            if commands is None:
                break
            if word not in commands:
                unknown.append(f"farmiq{words}")
                break
            group = commands[word]
    assert unknown == []
