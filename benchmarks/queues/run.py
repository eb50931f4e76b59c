"""The moves of one queue, in a process of its own.

    DATABASE_URL=... python -m queues.run QUEUE --events N --limit-seconds S

Installs, fills, drains. Prints one line of JSON: how many events were done in how many seconds, the WAL that was written
meanwhile, and the row versions that died.
"""

import argparse
import json
import os
import time
from typing import Any

import asyncpg
import uvloop

from queues import Queue
from queues.catalogue import ENTRIES

_OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
_DIED = "SELECT coalesce(sum(n_tup_upd + n_tup_del), 0)::int8 FROM pg_stat_user_tables"


async def run(queue: Queue, events: int, limit_seconds: float) -> dict[str, Any]:
    await queue.install()
    await queue.fill(events)
    watcher = await asyncpg.connect(queue.url)
    await watcher.execute("VACUUM ANALYZE")
    await watcher.execute("CHECKPOINT")
    if await watcher.fetchval("SHOW synchronous_commit") != "on":
        raise AssertionError("what is done must be durable")
    wal_before, died_before = await watcher.fetchval("SELECT pg_current_wal_insert_lsn()"), await died(watcher)
    begun_at = time.perf_counter()
    done = await queue.drain(limit_seconds)
    seconds = time.perf_counter() - begun_at
    wal_bytes = await watcher.fetchval("SELECT pg_current_wal_insert_lsn() - $1::pg_lsn", wal_before)
    return {
        "events": done,
        "seconds": seconds,
        "wal_bytes": int(wal_bytes),
        "died": await died(watcher) - died_before,
    }


async def died(watcher: "asyncpg.Connection[asyncpg.Record]") -> int:
    """Versions of rows that somebody has to clean up. A session tells its numbers when it ends, so all the others are ended."""
    await watcher.execute(f"SELECT pg_terminate_backend(pid, 10000) {_OTHERS}")
    return int(await watcher.fetchval(_DIED))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("queue", choices=sorted(ENTRIES))
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--limit-seconds", type=float, default=600.0)
    given = parser.parse_args()
    queue = ENTRIES[given.queue].load()(os.environ["DATABASE_URL"])
    figures = uvloop.run(run(queue, given.events, given.limit_seconds))
    print(json.dumps(figures), flush=True)
    # Not one of them is asked to close what it has open.
    os._exit(0)


if __name__ == "__main__":
    main()
