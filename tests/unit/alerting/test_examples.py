"""The table that promtool checks, checked on the evaluator: on the same series both raise the same alerts."""

import pytest

from farmiq.alerting.examples import EXAMPLES, Example
from farmiq.alerting.expressions import Increase
from farmiq.alerting.rules import RULES, Rule
from support.alert_player import play, raised


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.tells)
def test_the_evaluator_raises_what_prometheus_raises(example: Example) -> None:
    seen = dict(play(example))
    wrong = {
        (expected.minute, expected.rule): found
        for expected in example.expected
        if (found := raised(seen[expected.minute * 60], expected.rule, expected.minute * 60))
        != {(severity, tuple(sorted(labels.items()))) for severity, labels in expected.raised}
    }
    assert wrong == {}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_level_of_every_rule_is_seen_to_be_raised_and_not_raised(rule: Rule) -> None:
    expected = [one for example in EXAMPLES for one in example.expected if one.rule == rule.name]
    severities = {severity for one in expected for severity, _ in one.raised}
    assert severities == {level.severity for level in rule.levels}
    assert any(not one.raised for one in expected)


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if isinstance(rule.expression, Increase)], ids=lambda rule: rule.name
)
def test_of_an_increase_only_whether_there_is_one_is_asked(rule: Rule) -> None:
    """Prometheus extrapolates and we do not: any other threshold would mean two things."""
    assert {level.threshold for level in rule.levels} == {0}


def test_the_thresholds_of_the_outbox_are_the_documented_ones() -> None:
    levels = {rule.name: [(level.severity, level.threshold) for level in rule.levels] for rule in RULES}
    assert levels["FarmiqSyncBacklog"] == [("warning", 1000), ("critical", 10_000)]
    assert levels["FarmiqDataDelayed"] == [("warning", 3600), ("critical", 86_400)]
    assert levels["FarmiqOutboxDeadLetters"] == [("critical", 0)]
