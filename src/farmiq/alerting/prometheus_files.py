"""The rules and their examples as Prometheus and promtool read them. Scalars are written as JSON, which YAML understands."""

import json
from collections.abc import Iterator
from math import isinf
from typing import Final

from farmiq.alerting.examples import EXAMPLES, STEP_SECONDS, Example, Expected, Raised, Runs
from farmiq.alerting.expressions import duration
from farmiq.alerting.rules import RULES, Level, Rule, rule_named, runbook_url
from farmiq.contracts.services import SERVICES

RULES_FILE: Final = "farmiq-alerts.yml"
TESTS_FILE: Final = "farmiq-alerts.test.yml"
CONFIG_FILE: Final = "prometheus.yml"
GROUP: Final = "farmiq"

_TITLE: Final = "# Made by `python -m farmiq.alerting.export`. Change {place}, then make it again.\n"


def rules_file(runbook: str | None = None) -> str:
    """`runbook`: where its page is published."""
    lines = [f"  - name: {GROUP}", "    rules:", *(line for rule in RULES for line in _alerts_of(rule, runbook))]
    return _TITLE.format(place="src/farmiq/alerting/rules.py") + "\n".join(["groups:", *lines]) + "\n"


def tests_file(runbook: str | None) -> str:
    lines = [f"rule_files: [{RULES_FILE}]", f"evaluation_interval: {STEP_SECONDS}s", "tests:"]
    lines += [line for example in EXAMPLES for line in _test(example, runbook)]
    return _TITLE.format(place="src/farmiq/alerting/examples.py") + "\n".join(lines) + "\n"


def config_file() -> str:
    """The name of a job is the name of its service: the rules go by it."""
    lines = [f"global: {{scrape_interval: {STEP_SECONDS}s, evaluation_interval: {STEP_SECONDS}s}}"]
    lines += [f"rule_files: [{RULES_FILE}]", "scrape_configs:"]
    for service in SERVICES:
        if service.port is not None:
            lines += [f"  - job_name: {service.name}"]
            lines += [f'    static_configs: [{{targets: ["127.0.0.1:{service.port}"]}}]']
    title = _TITLE.format(place="src/farmiq/contracts/services.py")
    return (
        title
        + "# For services on this machine and their usual ports; give yours where they are.\n"
        + "\n".join(lines)
        + "\n"
    )


def condition(rule: Rule, level: Level) -> str:
    sign = ">" if rule.wrong_when == "above" else "<"
    return f"{rule.expression.promql()} {sign} {level.threshold:g}"


def annotations(rule: Rule, runbook: str | None = None) -> dict[str, str]:
    """A label in the summary becomes what Prometheus puts there."""
    labels = getattr(rule.expression, "by", ("job",))
    summary = rule.summary_for(tuple((label, f"{{{{ $labels.{label} }}}}") for label in labels))
    return {"summary": summary, "runbook_url": runbook_url(rule.name, runbook)}


def _alerts_of(rule: Rule, runbook: str | None) -> Iterator[str]:
    for level in rule.levels:
        yield f"      - alert: {rule.name}"
        yield f"        expr: {json.dumps(condition(rule, level))}"
        if level.for_seconds:
            yield f"        for: {duration(level.for_seconds)}"
        yield f"        labels: {{severity: {level.severity}}}"
        yield "        annotations:"
        yield from (f"          {name}: {json.dumps(text)}" for name, text in annotations(rule, runbook).items())


def _test(example: Example, runbook: str | None) -> Iterator[str]:
    yield f"  - name: {json.dumps(example.tells)}"
    yield f"    interval: {STEP_SECONDS}s"
    yield "    input_series:"
    for series, runs in example.series.items():
        yield f"      - series: {_quoted(series)}"
        yield f"        values: {json.dumps(' '.join(_values(runs)))}"
    yield "    alert_rule_test:"
    for expected in example.expected:
        yield from _expectation(expected, runbook)


def _values(runs: Runs) -> Iterator[str]:
    for value, times in runs:
        yield " ".join(["stale"] * times) if value is None else f"{_number(value)}+0x{times - 1}"


def _number(value: float) -> str:
    return "Inf" if isinf(value) else f"{value:.12g}"


def _expectation(expected: Expected, runbook: str | None) -> Iterator[str]:
    yield f"      - eval_time: {int(expected.minute * 60)}s"
    yield f"        alertname: {expected.rule}"
    if not expected.raised:
        yield "        exp_alerts: []"
        return
    yield "        exp_alerts:"
    for raised in expected.raised:
        yield from _alert(expected.rule, raised, runbook)


def _alert(name: str, raised: Raised, runbook: str | None) -> Iterator[str]:
    severity, labels = raised
    rule = rule_named(name)
    if rule is None:
        raise KeyError(f"an example expects {name}, and there is no such rule")
    told = {"summary": rule.summary_for(tuple(labels.items())), "runbook_url": runbook_url(name, runbook)}
    yield f"          - exp_labels: {json.dumps({'severity': severity} | labels)}"
    yield f"            exp_annotations: {json.dumps(told)}"


def _quoted(series: str) -> str:
    return "'" + series.replace("'", "''") + "'"
