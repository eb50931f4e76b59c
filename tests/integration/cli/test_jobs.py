"""`farmiq jobs` as a CronJob and a person use it: the real command on a real database."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from farmiq.cli import exits
from support.waiting import run_apart, wait_for

FARMIQ = Path(sys.executable).parent / "farmiq"
CLEANUP = "ingress-dedupe-cleanup"
EDGE_JOBS = {
    "ingress-dedupe-cleanup",
    "ingress-rejected-cleanup",
    "telemetry-partitions",
    "telemetry-retention",
    "telemetry-agg-retention",
    "outbox-retention",
    "media-retention",
    "media-refused-cleanup",
    "media-integrity",
    "media-transfer-retention",
    "session-retention",
    "inference-retention",
}


@pytest.fixture
def environ(tmp_path: Path, edge_url: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DATABASE_URL")}
    return kept | {"FARMIQ_HOME": str(tmp_path / "home"), "DATABASE_URL": edge_url}


def farmiq(environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [FARMIQ, "jobs", *arguments], env=environ, capture_output=True, text=True, timeout=60, check=False
    )


FILL = """
    WITH added AS (
      INSERT INTO ingress_dedupe (tenant_id, event_id, first_seen_at)
      SELECT 'demo', gen_random_uuid(), now() - interval '4 days' FROM generate_series(1, $1::int) RETURNING 1)
    SELECT count(*) FROM added
"""
HOLD = f"""
import asyncio, asyncpg, os
async def hold():
    connection = await asyncpg.connect(os.environ["DATABASE_URL"])
    await connection.fetchval("SELECT pg_advisory_lock(hashtextextended('farmiq job {CLEANUP}', 0))")
    print("held", flush=True)
    await asyncio.Event().wait()
asyncio.run(hold())
"""


def ask(url: str, query: str, *arguments: object) -> int:
    async def fetch() -> int:
        connection = await asyncpg.connect(url)
        try:
            return int(await connection.fetchval(query, *arguments) or 0)
        finally:
            await connection.close()

    return run_apart(fetch)


def fill(url: str, rows: int) -> None:
    assert ask(url, FILL, rows) == rows


def left(url: str) -> int:
    return ask(url, "SELECT count(*) FROM ingress_dedupe")


def test_ls_shows_the_jobs_of_the_database_and_their_last_runs(environ: dict[str, str]) -> None:
    assert farmiq(environ, "run", CLEANUP).returncode == exits.OK
    told = {entry["job"]: entry for entry in json.loads(farmiq(environ, "ls", "--json").stdout)}
    assert told.keys() == EDGE_JOBS
    assert (told[CLEANUP]["service"], told[CLEANUP]["interval_seconds"]) == ("edge-ingress-gateway", 900)
    assert told[CLEANUP]["last_run"]["last_report"] == {"rows": 0}
    assert 0 < told[CLEANUP]["due_in_seconds"] <= 900
    assert (told["outbox-retention"]["last_run"], told["outbox-retention"]["due_in_seconds"]) == (None, 0)
    shown = farmiq(environ, "ls")
    assert shown.returncode == exits.OK
    (line,) = [line for line in shown.stdout.splitlines() if line.startswith(CLEANUP)]
    assert "✔ 0 rows" in line
    assert "ago" in line


def test_run_does_the_work_and_prints_the_report_and_a_dry_run_only_prints(environ: dict[str, str]) -> None:
    fill(environ["DATABASE_URL"], 12)
    dry = farmiq(environ, "run", CLEANUP, "--dry-run")
    assert dry.returncode == exits.OK, dry.stderr
    assert dry.stdout == f"running {CLEANUP} without changing anything\nIt would do this:\n  rows: 12\n"
    assert left(environ["DATABASE_URL"]) == 12
    done = farmiq(environ, "run", CLEANUP, "--json")
    assert json.loads(done.stdout) == {"job": CLEANUP, "dry_run": False, "report": {"rows": 12}}
    assert left(environ["DATABASE_URL"]) == 0


def test_a_job_that_a_replica_is_running_is_refused_politely(environ: dict[str, str]) -> None:
    held = subprocess.Popen([sys.executable, "-c", HOLD], env=environ, stdout=subprocess.PIPE)
    assert held.stdout is not None
    try:
        assert held.stdout.readline() == b"held\n"
        told = farmiq(environ, "run", CLEANUP)
    finally:
        held.kill()
        held.wait()
        held.stdout.close()
    assert told.returncode == exits.FAILED
    assert "is being run by another replica" in told.stderr
    assert "Traceback" not in told.stderr


def test_a_run_killed_between_two_steps_is_gone_on_with_by_the_next(environ: dict[str, str]) -> None:
    url, rows = environ["DATABASE_URL"], 60_000
    fill(url, rows)
    process = subprocess.Popen([FARMIQ, "jobs", "run", CLEANUP], env=environ, stdout=subprocess.DEVNULL)
    wait_for(lambda: left(url) < rows)
    process.send_signal(signal.SIGKILL)
    process.wait()
    between = left(url)
    assert 0 < between < rows
    assert between % 5000 == 0

    # The server may take a moment to see that the session is gone, and with it the lock.
    wait_for(lambda: farmiq(environ, "run", CLEANUP).returncode == exits.OK)
    assert left(url) == 0


def test_the_other_tiers_database_and_an_unknown_job_are_refused(environ: dict[str, str], cloud_url: str) -> None:
    wrong = farmiq(environ | {"DATABASE_URL": cloud_url}, "run", CLEANUP)
    assert wrong.returncode == exits.BAD_SETTINGS
    assert "a database of the cloud" in wrong.stderr
    unknown = farmiq(environ, "run", "sweep-the-floor")
    assert unknown.returncode == exits.USAGE
    assert CLEANUP in unknown.stderr


def test_a_wrong_setting_is_named_and_a_password_is_not(environ: dict[str, str]) -> None:
    wrong = farmiq(environ | {"INGRESS_DEDUPE_TTL_HOURS": "0"}, "run", CLEANUP)
    assert wrong.returncode == exits.BAD_SETTINGS
    assert "INGRESS_DEDUPE_TTL_HOURS" in wrong.stderr
    host = environ["DATABASE_URL"].rpartition("@")[2]
    refused = farmiq(environ | {"DATABASE_URL": f"postgresql://nobody:hunter2@{host}"}, "run", CLEANUP)
    assert refused.returncode == exits.BAD_SETTINGS
    assert "hunter2" not in refused.stderr + refused.stdout
    assert "Traceback" not in refused.stderr
