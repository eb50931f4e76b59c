"""The bus is told of closed windows, again when late samples changed them, and never of less than what is stored."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest

from farmiq.cloud import bus_users
from farmiq.cloud.telemetry_service import emission, unsent
from farmiq.cloud.telemetry_service.emission import message_of, tell_due
from farmiq.cloud.telemetry_service.topology import publishing
from farmiq.cloud.telemetry_service.unsent import Plan
from farmiq.contracts import bus, event_types
from farmiq.contracts.envelope import BusEnvelope
from farmiq.contracts.telemetry import TelemetryAggregated, pack_of
from farmiq.contracts.timestamps import from_us
from farmiq.kit.amqp import BusAway, Publisher
from farmiq.kit.amqp_inspection import connected
from farmiq.kit.ids import Naming
from farmiq.kit.postgres import Pool
from support.bus_queue import bind, take_all
from support.cloud_storing import delivery, store_all
from support.rabbitmq import NewVirtualHost
from support.telemetry import NOW, START_US, batch_of, bus_body

QUEUE = "test.told.queue"
GRACE = timedelta(seconds=60)
LATER = NOW + GRACE
NAMES = Naming(b"secret", None)


class Told(msgspec.Struct, frozen=True):
    event_id: UUID
    window: str
    metric: str
    start_at: datetime
    count: int
    revision: int
    envelope: BusEnvelope


@asynccontextmanager
async def bus_of(new_vhost: NewVirtualHost) -> AsyncIterator[tuple[Publisher, str]]:
    url = new_vhost()
    publisher = Publisher(url, name="test", topology=publishing())
    await publisher.start()
    await publisher.wait_connected()
    await bind(url, QUEUE, bus.TELEMETRY_EXCHANGE, event_types.TELEMETRY_AGGREGATED)
    try:
        yield publisher, url
    finally:
        await publisher.stop()


async def told(url: str) -> list[Told]:
    return [_told(envelope) for envelope in await take_all(url, QUEUE)]


def _told(envelope: BusEnvelope) -> Told:
    payload = msgspec.json.decode(envelope.payload, type=TelemetryAggregated)
    assert payload.bucket_start_at is not None
    assert payload.count is not None
    assert payload.revision is not None
    return Told(
        envelope.event_id,
        payload.aggregation_window,
        payload.metric_type,
        payload.bucket_start_at,
        payload.count,
        payload.revision,
        envelope,
    )


async def take(pool: Pool, stream: UUID, first: int, last: int, plan: Plan | None = None) -> None:
    body = bus_body(event_types.TELEMETRY_BATCH_INGESTED, pack_of(batch_of(stream, 1, 4000), first, last))
    await store_all(pool, delivery(body), plan=plan)


async def shown(pool: Pool, *windows: str) -> dict[tuple[str, str, datetime], int]:
    rows = await pool.fetch('SELECT * FROM telemetry_agg WHERE "window" = ANY ($1)', list(windows))
    return {(row["window"], row["metric_type"], row["bucket_start_at"]): row["count"] for row in rows}


def as_shown(found: list[Told]) -> dict[tuple[str, str, datetime], int]:
    return {(one.window, one.metric, one.start_at): one.count for one in found}


async def test_users_of_the_bus_get_the_aggregates_of_their_tenant(cloud_pool: Pool, new_vhost: NewVirtualHost) -> None:
    await take(cloud_pool, uuid4(), 1, 3000)
    async with bus_of(new_vhost) as (publisher, url), connected(url, "test") as connection:
        async with cloud_pool.acquire() as database:
            users = [await bus_users.add(database, name, name) for name in ("demo", "other")]
        for user in users:
            await bus_users.make_queue(connection, user)
        assert await tell_due(cloud_pool, publisher, LATER) > 0
        assert await take_all(url, users[0].queue) == [one.envelope for one in await told(url)]
        assert await take_all(url, users[1].queue) == []


async def test_closed_windows_are_told_once_and_reopened_ones_again_with_a_higher_revision(
    cloud_pool: Pool, new_vhost: NewVirtualHost
) -> None:
    stream = uuid4()
    await take(cloud_pool, stream, 1, 3000)
    async with bus_of(new_vhost) as (publisher, url):
        assert await tell_due(cloud_pool, publisher, LATER - timedelta(seconds=1)) == 0
        assert await tell_due(cloud_pool, publisher, LATER) == len(await shown(cloud_pool, "1h", "1d"))
        first = await told(url)
        assert as_shown(first) == await shown(cloud_pool, "1h", "1d")
        assert await tell_due(cloud_pool, publisher, LATER) == 0
        await take(cloud_pool, stream, 3001, 3001)
        assert await tell_due(cloud_pool, publisher, LATER) == 2
        corrected = await told(url)
        assert {one.window for one in corrected} == {"1h", "1d"}
        before = {(one.window, one.metric, one.start_at): one for one in first}
        for one in corrected:
            old = before[one.window, one.metric, one.start_at]
            assert (one.count, one.event_id != old.event_id) == (old.count + 1, True)
            assert one.revision > old.revision
        assert await tell_due(cloud_pool, publisher, LATER) == 0
        assert await told(url) == []


async def test_an_event_says_all_that_the_document_has_and_names_its_bucket(
    cloud_pool: Pool, new_vhost: NewVirtualHost
) -> None:
    await take(cloud_pool, uuid4(), 1, 10)
    async with bus_of(new_vhost) as (publisher, url):
        await tell_due(cloud_pool, publisher, LATER)
        (envelope,) = [one.envelope for one in await told(url) if (one.window, one.metric) == ("1h", "temperature")]
    hour = from_us(START_US - START_US % 3_600_000_000)
    assert (envelope.tenant_id, envelope.farm_id, envelope.barn_id, envelope.device_id) == (
        "demo",
        "farm-1",
        "barn-1",
        "node-1",
    )
    assert (envelope.event_type, envelope.occurred_at, envelope.session_id) == (
        "telemetry.aggregated",
        hour,
        None,
    )
    payload = msgspec.json.decode(envelope.payload)
    assert payload == {
        "metric_type": "temperature",
        "aggregation_window": "1h",
        "avg_value": 6.0,
        "min_value": 2.0,
        "max_value": 10.0,
        "unit": "C",
        "count": 5,
        "sum_value": 30.0,
        "bucket_start_at": f"{hour:%Y-%m-%dT%H:%M:%SZ}",
        "bucket_end_at": f"{hour + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}",
        "sensor": "t1",
        "revision": 11,
    }


async def test_only_the_windows_that_were_asked_for_are_told(cloud_pool: Pool, new_vhost: NewVirtualHost) -> None:
    plan = Plan(("1m",), settle_seconds=0)
    await take(cloud_pool, uuid4(), 1, 200, plan)
    async with bus_of(new_vhost) as (publisher, url):
        await tell_due(cloud_pool, publisher, NOW)
        assert as_shown(await told(url)) == await shown(cloud_pool, "1m")


async def test_an_edges_aggregate_is_told_and_what_samples_give_in_its_place_is_a_later_revision(
    cloud_pool: Pool, new_vhost: NewVirtualHost
) -> None:
    hour = from_us(START_US - START_US % 3_600_000_000)
    word = TelemetryAggregated(
        metric_type="temperature", aggregation_window="1h", avg_value=9.0, min_value=9.0, max_value=9.0, unit="C",
        count=5, sum_value=45.0, bucket_start_at=hour, sensor="t1",
    )  # fmt: skip
    await store_all(cloud_pool, delivery(bus_body(event_types.TELEMETRY_AGGREGATED, word)))
    async with bus_of(new_vhost) as (publisher, url):
        await tell_due(cloud_pool, publisher, LATER)
        edges = {one.window: one for one in await told(url)}
        assert {window: one.count for window, one in edges.items()} == {"1h": 5, "1d": 5}
        await take(cloud_pool, uuid4(), 1, 10)
        await tell_due(cloud_pool, publisher, LATER)
        own = {one.window: one for one in await told(url) if one.metric == "temperature"}
    assert {window: one.count for window, one in own.items()} == {"1h": 5, "1d": 5}
    assert all(own[window].revision > edges[window].revision for window in own)


async def test_what_changes_while_it_is_being_told_is_told_again(
    cloud_pool: Pool, new_vhost: NewVirtualHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = uuid4()
    await take(cloud_pool, stream, 1, 10)
    original = unsent.told

    async def late(connection: Any, taken: Any) -> None:
        if await cloud_pool.fetchval("SELECT count(*) FROM telemetry_raw") == 10:
            await take(cloud_pool, stream, 11, 12)
        await original(connection, taken)

    monkeypatch.setattr(unsent, "told", late)
    async with bus_of(new_vhost) as (publisher, url):
        await tell_due(cloud_pool, publisher, LATER)
        assert sum(as_shown(await told(url)).values()) == 20
        held = timedelta(seconds=emission.HOLD_SECONDS)
        assert await tell_due(cloud_pool, publisher, LATER) == 0
        await tell_due(cloud_pool, publisher, LATER + held)
        assert as_shown(await told(url)) == await shown(cloud_pool, "1h", "1d")
    assert await cloud_pool.fetchval("SELECT count(*) FROM telemetry_agg_unsent") == 0


async def test_with_the_bus_away_nothing_is_taken_off_the_list(cloud_pool: Pool) -> None:
    await take(cloud_pool, uuid4(), 1, 10)
    waiting = await cloud_pool.fetchval("SELECT count(*) FROM telemetry_agg_unsent")
    nowhere = Publisher("amqp://guest:guest@127.0.0.1:1/", name="test")
    with pytest.raises(BusAway):
        await tell_due(cloud_pool, nowhere, LATER)
    assert await cloud_pool.fetchval("SELECT count(*) FROM telemetry_agg_unsent") == waiting > 0


async def test_what_is_due_is_found_without_looking_at_what_is_not(cloud_pool: Pool) -> None:
    await cloud_pool.execute(
        """
        INSERT INTO telemetry_agg_unsent (tenant_id, device_id, metric_type, sensor, unit, "window", bucket_start_at, due_at)
        SELECT 'demo', 'node-' || n % 50, 'temperature', '', '', '1h', $1::timestamptz + n * interval '1 hour', $1
          FROM generate_series(1, 20000) AS n
        """,
        NOW + timedelta(days=1),
    )
    await cloud_pool.execute("ANALYZE telemetry_agg_unsent")
    plan = await cloud_pool.fetchval(
        f"EXPLAIN (FORMAT JSON) {unsent._TAKE}",
        NOW,
        500,
        LATER,
    )
    assert (
        b"telemetry_agg_unsent_due" in bytes(plan)
        if isinstance(plan, msgspec.Raw)
        else "telemetry_agg_unsent_due" in plan
    )


def test_the_same_bucket_is_the_same_message_byte_for_byte() -> None:
    row = {
        "tenant_id": "demo", "farm_id": "f", "barn_id": "b", "device_id": "d", "metric_type": "m", "sensor": "", "unit": "C",
        "window": "1h", "bucket_start_at": NOW, "bucket_end_at": NOW + timedelta(hours=1), "count": 3, "sum_value": 6.0,
        "min_value": 1.0, "max_value": 3.0, "is_from_edge": False,
    }  # fmt: skip
    assert message_of(row, NAMES) == message_of(dict(row), NAMES)
    changed = [row | {"count": 4}, row | {"is_from_edge": True}, row | {"device_id": "e"}, row | {"window": "1d"}]
    assert len({message_of(one, NAMES).message_id for one in (row, *changed)}) == 5
