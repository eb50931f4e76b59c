"""All benchmarks in one go: each is measured, one that fails is named and leaves no number behind."""

import json
from pathlib import Path

import pytest

from run_all import adopt, benchmarks, measure_all

GOOD = """
import json, sys
sys.stderr.write("one of one")
path = sys.argv[sys.argv.index("--json") + 1]
open(path, "w").write(json.dumps({"machine": {}, "commit": "abc", "results": [], "quick": "--quick" in sys.argv}))
"""


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    folder = tmp_path / "scripts"
    folder.mkdir()
    for name, text in {
        "spool": GOOD,
        "relay": "raise SystemExit(3)",
        "media": "",
        "harness": "not a benchmark",
    }.items():
        prefix = "" if name == "harness" else "bench_"
        (folder / f"{prefix}{name}.py").write_text(text, encoding="utf-8")
    return folder


def test_one_that_fails_does_not_stop_the_others_and_is_named(
    scripts: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results"
    done = measure_all(scripts, benchmarks(scripts), results, ["--quick"])
    assert [(each.benchmark, each.problem) for each in done] == [
        ("spool", None),
        ("media", "FAILED: it wrote no results"),
        ("relay", "FAILED with exit code 3"),
    ]
    printed = capfd.readouterr()
    assert "== 1 of 3: benchmarks/bench_spool.py --quick" in printed.out
    assert "one of one" in printed.err
    assert [path.name for path in results.iterdir()] == ["spool.json"]


def test_results_say_how_they_came_to_be(scripts: Path, tmp_path: Path) -> None:
    measure_all(scripts, ["spool"], tmp_path / "results", ["--quick", "--folder", str(tmp_path)])
    stored = json.loads((tmp_path / "results" / "spool.json").read_text(encoding="utf-8"))
    assert stored["command"] == "benchmarks/bench_spool.py --quick"
    assert stored["quick"] is True
    assert stored.keys() >= {"measured_at", "seconds", "load_at_end", "machine", "commit", "results"}


def test_what_failed_now_has_no_number_any_more_and_what_was_left_out_keeps_its_own(
    scripts: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    for name in ("spool", "relay", "cloud"):
        (kept / f"{name}.json").write_text("old", encoding="utf-8")
    adopt(measure_all(scripts, ["spool", "relay"], tmp_path / "results", []), tmp_path / "results", kept)
    assert (kept / "spool.json").read_text(encoding="utf-8") != "old"
    assert not (kept / "relay.json").exists()
    assert (kept / "cloud.json").read_text(encoding="utf-8") == "old"
