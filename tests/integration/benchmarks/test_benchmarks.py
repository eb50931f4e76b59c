"""The benchmarks themselves work: what they would say about speed is not asked here."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]

SMALL = {
    "bench_cloud": ["--samples", "5000", "--events", "300", "--plain-events", "50"],
    "bench_spool": ["--samples", "2000", "--rounds", "1"],
    "bench_ingest": ["--samples", "10000"],
    "bench_outbox": ["--events", "1200", "--long-events", "2000", "--packs", "30", "--rounds", "1"],
    "bench_latency": ["--seconds", "2"],
    "bench_neighbour": ["--seconds", "2", "--rounds", "1", "--rate", "10"],
    "bench_relay": ["--megabytes", "5", "--questions", "100", "--rounds", "1"],
    "bench_media": ["--pictures", "8", "--seconds", "2", "--rate", "2"],
}
AGAINST = {
    "bench_cloud": {
        "cloud_packs": "bare COPY of the same rows",
        "cloud_singles": "a plain aio-pika consumer",
    },
    "bench_spool": {"spool_append": "bare loop"},
    "bench_ingest": {"ingest_drain": "bare COPY of the same rows"},
    "bench_outbox": {"outbox_drain_1m": "our own with 10,000 pending"},
    "bench_latency": {"sensor_to_cloud_p50": "a look every 60 s"},
    "bench_neighbour": {"neighbour_ack_p99": "the same device alone"},
    "bench_relay": {"relay_stream": "a direct connection"},
    "bench_media": {"media_upload": "bare PUT of the same bytes"},
}
THERE_TOO = {
    "bench_cloud": {"cloud_singles_drain"},
    "bench_spool": {
        "spool_append_group", "spool_recover", "spool_read", "spool_append_vs_sqlite_full", "spool_reopen_vs_sqlite_full",
        "socket_to_durable", "forwarder_rss", "forwarder_rss_replay",
    },
    "bench_ingest": {"ingest_drain_large_table", "live_during_drain_p99", "ingest_steady_100"},
    "bench_outbox": {"outbox_drain_http", "outbox_packs", "outbox_packs_http"},
    "bench_latency": {"sensor_to_cloud_p99"},
    "bench_neighbour": {"neighbour_ack_p50"},
    "bench_relay": {"relay_question"},
    "bench_media": {"media_through", "upload_to_result_p95"},
}  # fmt: skip
PEERS = {"bench_spool": "persist-queue and thingsboard-gateway", "bench_outbox": "pgqueuer and procrastinate"}


@pytest.mark.parametrize("name", SMALL)
def test_a_small_run_without_peers_gives_every_result_with_a_ratio(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("b")  # a short name: the path of a Unix socket has room for 107 bytes
    for path in (folder, *folder.parents):
        # PostgreSQL runs as another user when we are root, and has to get in.
        if path.stat().st_mode & 0o777 == 0o700:
            path.chmod(0o755)
    printed, outcome = run(name, folder)
    assert set(outcome) >= {"machine", "commit", "results"}
    for result in outcome["results"]:
        assert set(result) >= {"name", "value", "unit", "against", "ratio"}
        assert result["value"] > 0
        assert result["ratio"] == pytest.approx(result["value"] / result["against_value"])
    against = {result["name"]: result["against"] for result in outcome["results"]}
    assert len(against) == len(outcome["results"])
    assert against.keys() >= THERE_TOO[name]
    assert against.items() >= AGAINST[name].items()
    if name in PEERS:
        reason = f"Not measured: {PEERS[name]}, because their environment is missing."
        assert any(remark.startswith(reason) for remark in outcome["remarks"])
        assert reason in " ".join(printed.split())


def run(name: str, folder: Path) -> tuple[str, dict[str, Any]]:
    """What it printed and what it wrote."""
    outcome = folder / "outcome.json"
    script = str(ROOT / "benchmarks" / f"{name}.py")
    places = ["--folder", str(folder / "disk"), "--peers-python", str(folder / "none"), "--json", str(outcome)]
    done = subprocess.run(
        [sys.executable, script, "--quick", *SMALL[name], *places], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert list((folder / "disk").iterdir()) == []
    return done.stdout, json.loads(outcome.read_text(encoding="utf-8"))
