from farmiq.alerting import RULES
from farmiq.console.alarms.runbook import entries, sections


def test_every_alert_of_the_rules_has_its_entry_on_the_page() -> None:
    found = entries()
    assert [rule.name for rule in RULES if not found.get(rule.name, "").strip()] == []


def test_text_is_divided_at_its_second_level_headings() -> None:
    text = "# Title\nbefore\n## One\nfirst\n### deeper\nmore\n## `Two`\n\nsecond\n"
    assert sections(text) == {"One": "first\n### deeper\nmore", "Two": "second"}


def test_entries_are_markup_of_ours_with_no_way_out() -> None:
    for name, html in entries().items():
        assert "<a " not in html, name
        assert "<script" not in html, name
