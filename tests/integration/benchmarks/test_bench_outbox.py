"""The benchmark itself works: what it would say about speed is not asked here."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """One small run without the peers' environment; what it printed and what it wrote."""
    folder = tmp_path_factory.mktemp("bench")
    for path in (folder, *folder.parents):
        # PostgreSQL runs as another user when we are root, and has to get in.
        if path.stat().st_mode & 0o777 == 0o700:
            path.chmod(0o755)
    outcome = folder / "outcome.json"
    done = subprocess.run(
        [
            sys.executable, str(ROOT / "benchmarks" / "bench_outbox.py"), "--quick", "--events", "1200", "--long-events",
            "2000", "--packs", "30", "--rounds", "1", "--folder", str(folder / "disk"),
            "--peers-python", str(folder / "none"), "--json", str(outcome),
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert list((folder / "disk").iterdir()) == []
    return done.stdout, json.loads(outcome.read_text(encoding="utf-8"))


def test_every_result_has_a_ratio_against_something(run: tuple[str, dict[str, Any]]) -> None:
    _, outcome = run
    assert set(outcome) >= {"machine", "commit", "results"}
    for result in outcome["results"]:
        assert set(result) >= {"name", "value", "unit", "against", "ratio"}
        assert result["value"] > 0
        assert result["against"]
        assert result["ratio"] == pytest.approx(result["value"] / result["against_value"])


def test_the_names_that_stay_are_there_once(run: tuple[str, dict[str, Any]]) -> None:
    _, outcome = run
    against = {result["name"]: result["against"] for result in outcome["results"]}
    assert len(against) == len(outcome["results"])
    assert against["outbox_drain_1m"] == "our own with 10,000 pending"
    assert set(against) >= {"outbox_drain_1m", "outbox_drain_http", "outbox_packs", "outbox_packs_http"}


def test_peers_without_their_environment_are_said_to_be_missing(run: tuple[str, dict[str, Any]]) -> None:
    printed, outcome = run
    reason = "Not measured: pgqueuer and procrastinate, because their environment is missing."
    assert any(remark.startswith(reason) for remark in outcome["remarks"])
    assert reason in " ".join(printed.split())
    assert not any("pgqueuer" in result["against"] for result in outcome["results"])
