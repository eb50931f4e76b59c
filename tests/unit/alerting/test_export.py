"""The files in `deploy/`: made from the rules, current, and such that Prometheus takes them."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from farmiq.alerting.dashboards import DASHBOARDS
from farmiq.alerting.export import files, main, stale
from farmiq.alerting.rules import RULES

ROOT = Path(__file__).resolve().parents[3]
DEPLOY = ROOT / "deploy"


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=60, check=False)


def names_in(promql: str) -> set[str]:
    """Metrics: words that are followed by a selector, a window or nothing, and are no function or label."""
    bare = re.sub(r'"[^"]*"', '""', promql)
    bare = re.sub(r"\b(by|on|without|ignoring)\s*\([^)]*\)", " ", bare)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", " ", bare)
    words = re.findall(r"[a-zA-Z_:][\w:]*(?!\w)(?!\s*\()", bare)
    return set(words) - {"unless", "and", "or"}


def queries() -> dict[str, str]:
    rules = {f"{rule.name} in the rules": rule.expression.promql() for rule in RULES}
    panels = {
        f"{panel.title} on {dashboard.uid}, {number}": query.promql
        for dashboard in DASHBOARDS
        for panel in dashboard.panels
        for number, query in enumerate(panel.queries)
    }
    return rules | panels


def documented() -> set[str]:
    """Every metric that a service shows, as the reference page has it, which is made from running services."""
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", page, re.MULTILINE)
    return {name for name, _ in rows} | {f"{name}_bucket" for name, kind in rows if kind == "histogram"}


def test_the_files_in_deploy_are_current() -> None:
    assert stale(DEPLOY) == [], "run: python -m farmiq.alerting.export"


def test_what_is_not_current_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 0
    assert main([str(tmp_path), "--check"]) == 0
    (tmp_path / "prometheus" / "farmiq-alerts.yml").write_text("groups: []\n")
    assert main([str(tmp_path), "--check"]) == 1
    assert "farmiq-alerts.yml is not current" in capsys.readouterr().err


def test_names_are_found_in_a_query() -> None:
    query = 'histogram_quantile(0.9, sum by (le, queue) (rate(a_bucket{lane=~"x|y"}[$__rate_interval]))) unless on (job) b > 1'
    assert names_in(query) == {"a_bucket", "b"}


def test_every_metric_that_is_asked_for_is_shown_by_a_service() -> None:
    known = documented() | {"up"}
    unknown = {place: names_in(query) - known for place, query in queries().items() if names_in(query) - known}
    assert unknown == {}
    assert all(names_in(query) for query in queries().values())


def test_no_series_of_a_whole_farm_has_a_label_for_the_device() -> None:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    assert "`device_id`" not in page
    assert "`job`" not in page, "Prometheus has its own label of that name"


def test_a_metric_is_named_as_documented_or_begins_with_farmiq() -> None:
    named_by_the_requirements = {
        "outbox_pending_total", "outbox_claimed_total", "outbox_dlq_total", "sync_send_success_total",
        "sync_send_failure_total", "sync_batch_latency_ms", "oldest_pending_age_seconds",
    }  # fmt: skip
    ours = {name for name in documented() if not name.endswith("_bucket")}
    assert named_by_the_requirements <= ours
    assert {name for name in ours if not name.startswith("farmiq_")} == named_by_the_requirements


def test_dashboards_are_json_whose_panels_do_not_overlap() -> None:
    for name, text in files().items():
        if not name.endswith(".json"):
            continue
        panels = json.loads(text)["panels"]
        cells = [
            (x, y)
            for panel in panels
            for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
            for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
        ]
        assert len(cells) == len(set(cells)), name
        assert max(x for x, _ in cells) < 24, name
        assert all(panel["targets"] for panel in panels), name


def test_prometheus_raises_what_the_examples_say() -> None:
    told = promtool("test", "rules", DEPLOY / "prometheus" / "farmiq-alerts.test.yml")
    assert told.returncode == 0, told.stdout + told.stderr


def test_prometheus_takes_the_configuration_and_the_rules() -> None:
    told = promtool("check", "config", DEPLOY / "prometheus" / "prometheus.yml")
    assert told.returncode == 0, told.stdout + told.stderr
    assert "31 rules found" in told.stdout


def test_prometheus_understands_every_query_of_the_dashboards(tmp_path: Path) -> None:
    records = "".join(
        f"      - {{record: a:{number}, expr: {json.dumps(query.replace('$__rate_interval', '1m'))}}}\n"
        for number, query in enumerate(queries().values())
    )
    path = tmp_path / "queries.yml"
    path.write_text(f"groups:\n  - name: queries\n    rules:\n{records}")
    told = promtool("check", "rules", path)
    assert told.returncode == 0, told.stdout + told.stderr
