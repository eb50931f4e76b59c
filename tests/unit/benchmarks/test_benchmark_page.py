"""The measured part of docs/benchmarks.md: made from the stored results and from nothing else."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from page.aims import AIMS, Aim
from page.measured import missing, run_of, runs_in
from page.plots import Scale, pictures
from page.writing import (
    BEGIN,
    END,
    PAGE,
    PICTURES,
    RESULTS,
    ROOT,
    MarksMissing,
    NothingMeasured,
    measured_part,
    page_with,
    write,
)

AS_STORED: dict[str, Any] = {
    "command": "benchmarks/bench_spool.py --quick",
    "measured_at": "2026-01-02 03:04",
    "seconds": 12.3,
    "commit": "abc",
    "machine": {
        "processor": "P", "cores": 2, "memory_mb": 8000, "system": "Linux", "python": "3.11", "file_system": "ext4",
        "fdatasync_ms": 0.5, "load_at_start": 0.4,
    },
}  # fmt: skip


def result(name: str, value: float, against: str, theirs: float, **more: Any) -> dict[str, Any]:
    ratio = value / theirs
    whole = {
        "name": name, "value": value, "unit": "samples/s", "against": against, "ratio": ratio, "against_value": theirs,
        "spread": [ratio, ratio], "rounds": 1, "is_better_below": False, "note": "",
    }  # fmt: skip
    return whole | more


CUT = {
    "store": "spool", "title": "spool", "promise": "`sync`", "ending": "power cut", "written": 30, "acknowledged": 20,
    "readable": 21, "acknowledged_and_readable": 15, "twice": 0, "wrong": 0, "lost": 5,
    "cuts": 2, "cuts_unreadable": 1, "cuts_that_end_it": 0,
}  # fmt: skip


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    spool = [
        result("spool_append", 90, "bare loop", 100, rounds=3, spread=[0.8, 1.1]),
        result("spool_append_vs_sqlite", 90, "SQLite", 30, note="stopped early"),
        result("forwarder_rss", 90, "aim", 80, unit="MB", is_better_below=True),
    ]
    cut = [result("power_cut_spool", 15, "acknowledged by spool", 20, unit="samples")]
    for name, stored in {"spool": {"results": spool}, "power_cut": {"results": cut, "power_cut": [CUT]}}.items():
        (folder / f"{name}.json").write_text(json.dumps(AS_STORED | stored), encoding="utf-8")
    return folder


def made(results: Path) -> str:
    return measured_part(runs_in(results), [])


def test_the_committed_page_is_what_the_committed_results_give(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    write(RESULTS, page, tmp_path / "bench")
    assert page.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8"), (
        "run .venv/bin/python benchmarks/report.py"
    )
    assert _texts(tmp_path / "bench") == _texts(PICTURES), "run .venv/bin/python benchmarks/report.py"


def _texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.svg")}


def test_a_ratio_stands_with_its_spread_its_aim_and_whether_that_is_met(results: Path) -> None:
    rows = made(results).splitlines()
    assert "| `spool_append` | bare loop | **0.9** (0.8 to 1.1) | 90 samples/s | 100 | at least 0.5 | met |  |" in rows
    assert "| `forwarder_rss` | aim | **1.12** | 90 MB | 80 | at most 80 MB | **not met** | less is better |" in rows


def test_peers_stand_in_a_table_of_their_own(results: Path) -> None:
    rows = made(results).splitlines()
    assert "| `spool_append` | SQLite | **3** | 90 samples/s | 30 | stopped early |" in rows


def test_a_power_cut_tells_what_was_lost_after_it_was_acknowledged(results: Path) -> None:
    assert "| spool | `sync` | 2 | 30 | 20 | 21 | **5** | 0 | 1 | 0 |" in made(results).splitlines()


def test_commit_machine_load_and_what_is_missing_are_told(results: Path) -> None:
    runs = runs_in(results)
    told = measured_part(runs, missing(runs, ROOT / "benchmarks"))
    assert "Commit abc. P, 2 cores, 8 GB, ext4, Python 3.11, Linux." in told
    assert "1 of 3 aims are met; not met: `forwarder_rss`, `power_cut_spool`." in told
    assert "**No result** in this run: ingest, outbox, cloud, latency, neighbour, media, relay." in told
    assert "Other work was running" not in told
    stored = json.loads((results / "spool.json").read_text(encoding="utf-8"))
    stored["machine"]["load_at_start"] = 9.0
    (results / "spool.json").write_text(json.dumps(stored), encoding="utf-8")
    assert "Other work was running" in made(results)


def test_only_what_stands_between_the_marks_is_replaced(results: Path, tmp_path: Path) -> None:
    page, pictured = tmp_path / "page.md", tmp_path / "bench"
    page.write_text(f"before\n\n{BEGIN}\nold\n{END}\n\nafter\n", encoding="utf-8")
    pictured.mkdir()
    (pictured / "gone.svg").touch()
    write(results, page, pictured)
    first = page.read_text(encoding="utf-8")
    assert first.startswith(f"before\n\n{BEGIN}\n\n## Last run\n")
    assert first.endswith(f"\n\n{END}\n\nafter\n")
    assert "old" not in first.splitlines()
    assert sorted(path.name for path in pictured.iterdir()) == ["aims.svg", "power_cut.svg", "spool.svg"]
    write(results, page, pictured)
    assert page.read_text(encoding="utf-8") == first


def test_no_results_at_all_make_no_page(tmp_path: Path) -> None:
    with pytest.raises(NothingMeasured):
        write(tmp_path, PAGE, tmp_path / "bench")
    assert not (tmp_path / "bench").exists()


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(MarksMissing):
        page_with(f"before\n{BEGIN}\nno end\n", "measured")


def test_pictures_are_well_formed_and_bring_both_grounds(results: Path) -> None:
    for text in pictures(runs_in(results)).values():
        assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"  # noqa: S314 - our own picture
        assert "prefers-color-scheme: dark" in text


def test_more_is_always_better_on_a_picture(results: Path) -> None:
    *_others, memory = run_of(results / "spool.json").outcomes
    assert memory.times_better(memory.ratio) == pytest.approx(80 / 90)
    assert AIMS["forwarder_rss"].reached(memory) == pytest.approx(80 / 90)
    assert Aim(0, "MB", is_limit=True).is_met(memory) is False


def test_a_scale_holds_one_and_everything_measured() -> None:
    scale = Scale.over([3.0, 2500.0])
    assert scale.at(0.5) < scale.at(1.0) < scale.at(3.0) < scale.at(2500.0)
    assert scale.at(0.0) == scale.at(10.0**scale.low)


def test_the_committed_results_have_one_for_every_aim() -> None:
    names = {outcome.name for run in runs_in(RESULTS) for outcome in run.outcomes}
    assert AIMS.keys() <= names
