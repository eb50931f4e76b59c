"""`ingest_dedupe`: one key over all partitions, and partitions that can be dropped."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime
from uuid import UUID

import asyncpg

from farmiq.kit.ids import new_id
from farmiq.kit.migrations import migrate
from support.postgres import NewDatabase

Connect = Callable[[str], Awaitable[asyncpg.Connection]]

SEE = "INSERT INTO ingest_dedupe (tenant_id, event_id) VALUES ($1, $2) ON CONFLICT DO NOTHING"
PARTITION_OF = "SELECT tableoid::regclass::text FROM ingest_dedupe WHERE event_id = $1"
RANDOM_ID = UUID("9f1c2b34-5d6e-4f70-8a91-b2c3d4e5f607")


def id_made_at(moment: datetime, tail: int = 1) -> UUID:
    return UUID(int=int(moment.timestamp() * 1000) << 80 | 7 << 76 | 2 << 62 | tail)


async def test_an_event_is_new_once_for_each_tenant(cloud: asyncpg.Connection) -> None:
    event = new_id()
    assert await cloud.execute(SEE, "t1", event) == "INSERT 0 1"
    assert await cloud.execute(SEE, "t1", event) == "INSERT 0 0"
    assert await cloud.execute(SEE, "t2", event) == "INSERT 0 1"


async def test_ids_of_this_month_are_in_its_partition_and_others_in_the_default_one(cloud: asyncpg.Connection) -> None:
    event = new_id()
    await cloud.executemany(SEE, [("t", event), ("t", RANDOM_ID)])
    assert await cloud.fetchval(PARTITION_OF, event) == datetime.now(UTC).strftime("ingest_dedupe_%Y_%m")
    assert await cloud.fetchval(PARTITION_OF, RANDOM_ID) == "ingest_dedupe_default"


async def test_a_months_partition_holds_the_ids_made_in_it_from_first_to_last(cloud: asyncpg.Connection) -> None:
    await cloud.execute("SELECT ensure_month_partition('ingest_dedupe', $1)", date(2031, 3, 9))
    first = id_made_at(datetime(2031, 3, 1, tzinfo=UTC), tail=0)
    last = id_made_at(datetime(2031, 3, 31, 23, 59, 59, 999000, tzinfo=UTC), tail=(1 << 62) - 1)
    before = id_made_at(datetime(2031, 2, 28, 23, 59, 59, 999000, tzinfo=UTC), tail=(1 << 62) - 1)
    after = id_made_at(datetime(2031, 4, 1, tzinfo=UTC), tail=0)
    await cloud.executemany(SEE, [("t", event) for event in (first, last, before, after)])
    used = [await cloud.fetchval(PARTITION_OF, event) for event in (first, last, before, after)]
    assert used == ["ingest_dedupe_2031_03"] * 2 + ["ingest_dedupe_default"] * 2


async def test_a_lookup_touches_one_partition(cloud: asyncpg.Connection) -> None:
    event = new_id()
    plan = await cloud.fetch(f"EXPLAIN SELECT FROM ingest_dedupe WHERE tenant_id = 't' AND event_id = '{event}'")
    text = "\n".join(row[0] for row in plan)
    assert text.count("ingest_dedupe_") - text.count("_pkey") == 1
    assert "Index" in text


async def test_an_event_stays_known_when_its_month_is_dropped_and_made_again(cloud: asyncpg.Connection) -> None:
    month, event = date(2031, 3, 1), id_made_at(datetime(2031, 3, 4, tzinfo=UTC))
    await cloud.execute("SELECT ensure_month_partition('ingest_dedupe', $1)", month)
    await cloud.execute("DROP TABLE ingest_dedupe_2031_03")
    assert await cloud.execute(SEE, "t", event) == "INSERT 0 1"
    assert await cloud.execute(SEE, "t", event) == "INSERT 0 0"
    await cloud.execute("SELECT ensure_month_partition('ingest_dedupe', $1)", month)
    assert await cloud.fetchval(PARTITION_OF, event) == "ingest_dedupe_2031_03"
    assert await cloud.execute(SEE, "t", event) == "INSERT 0 0"


async def test_two_replicas_that_get_one_event_at_once_store_it_once(
    new_database: NewDatabase, connect: Connect
) -> None:
    url = new_database()
    await migrate(url, "farmiq.cloud.migrations")
    replicas = [await connect(url) for _ in range(2)]
    events = [new_id() for _ in range(50)]
    for event in events:
        tags = await asyncio.gather(*(replica.execute(SEE, "t", event) for replica in replicas))
        assert sorted(tags) == ["INSERT 0 0", "INSERT 0 1"]
