from typing import get_args

from farmiq.alerting import RULES
from farmiq.console.alarms.runbook import entries, sections
from farmiq.edge.alerts import Kind


def test_every_alert_of_the_rules_has_its_entry_on_the_page() -> None:
    found = entries()
    names = [*(rule.name for rule in RULES), *get_args(Kind)]
    assert [name for name in names if not found.get(name, "").strip()] == []


def test_text_is_divided_at_its_second_level_headings() -> None:
    text = "# Title\nbefore\n## One\nfirst\n### deeper\nmore\n## `Two`\n\nsecond\n"
    assert sections(text) == {"One": "first\n### deeper\nmore", "Two": "second"}


def test_entries_are_markup_of_ours_with_no_way_out() -> None:
    for name, html in entries().items():
        assert "<a " not in html, name
        assert "<script" not in html, name
        assert "](" not in html, f"{name}: a link that was not understood"
