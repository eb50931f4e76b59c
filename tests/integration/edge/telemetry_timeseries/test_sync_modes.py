"""What the cloud is told in each mode, from the gateway's transaction to the rows of the outbox."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
import pytest_asyncio

from farmiq import outbox
from farmiq.contracts.envelope import BUS_PAYLOADS
from farmiq.contracts.telemetry import Channel, TelemetryAggregated, TelemetryBatch, pack_of
from farmiq.contracts.timestamps import to_us
from farmiq.edge.ingress_gateway import devices
from farmiq.edge.ingress_gateway.handlers import ingest
from farmiq.edge.telemetry_timeseries import intake
from farmiq.edge.telemetry_timeseries import store as unsent_store
from farmiq.edge.telemetry_timeseries.emission import PAGE_BUCKETS, emit_due, event_of
from farmiq.edge.telemetry_timeseries.sync_mode import SyncPlan
from farmiq.kit.ids import Naming, time_of
from farmiq.kit.micro_batch import until_stored
from farmiq.kit.postgres import Pool
from farmiq.timeseries.samples import StreamBatch
from support.gateway import forget_announcements
from support.telemetry import HERE, batch_message, loss_message, reading_message
from support.waiting import eventually

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
NAMES = Naming(b"secret", None)
AGGREGATED, BOTH = SyncPlan("aggregated", "1m", 30), SyncPlan("both", "1h", 30)
CHANNELS = [
    Channel(metric="temperature", unit="C", sensor="t1"),
    Channel(metric="temperature", unit="C", sensor="t2"),
    Channel(metric="humidity"),
]
BUCKETS = """
    SELECT device_id, metric_type, sensor, unit, "window", bucket_start_at, count, sum_value, min_value, max_value
      FROM telemetry_agg WHERE "window" = $1
"""


@pytest_asyncio.fixture
async def pool(edge_pool: Pool) -> AsyncIterator[Pool]:
    async with edge_pool.acquire() as connection:
        await devices.register(
            connection, tenant_id="demo", farm_id="farm-1", barn_id="barn-1", device_id="node-1", kind="node"
        )
        await forget_announcements(connection)
    yield edge_pool


def samples(first_at: datetime, count: int, every_seconds: float) -> TelemetryBatch:
    """A stream whose values are their sequence, each channel in turn."""
    return TelemetryBatch(
        stream_id=uuid4(),
        boot_id=uuid4(),
        lane="replay",
        seq0=1,
        time_quality=2,
        channels=CHANNELS,
        t=[to_us(first_at + timedelta(seconds=every_seconds * number)) for number in range(count)],
        c=[number % len(CHANNELS) for number in range(count)],
        v=[float(number + 1) for number in range(count)],
    )


async def store(pool: Pool, batches: list[TelemetryBatch], received_at: datetime, plan: SyncPlan) -> None:
    async with pool.acquire() as connection, connection.transaction():
        items = [(StreamBatch(HERE, batch), "trace-1") for batch in batches]
        await intake.store_batches(connection, items, received_at, plan)


async def emit_all(pool: Pool, now: datetime) -> int:
    taken = 0
    while page := await emit_due(pool, now):
        taken += page
    return taken


async def told(pool: Pool) -> list[dict[str, Any]]:
    """The aggregates in the outbox, oldest first."""
    rows = await pool.fetch(
        "SELECT id, device_id, occurred_at, priority, trace_id, payload_json FROM sync_outbox"
        " WHERE event_type = 'telemetry.aggregated' ORDER BY created_at, id"
    )
    return [dict(row) | {"payload": msgspec.json.decode(row["payload_json"])} for row in rows]


async def assert_last_word_is_true(pool: Pool, window: str) -> int:
    """For every bucket, the event with the largest count says what the bucket holds. Answers how many buckets there are."""
    last: dict[tuple[Any, ...], dict[str, Any]] = {}
    for event in await told(pool):
        payload = event["payload"]
        key = (payload["metric_type"], payload.get("sensor", ""), payload.get("unit", ""), event["occurred_at"])
        assert key not in last or last[key]["count"] != payload["count"], "the same thing was told twice"
        last[key] = max(last.get(key, payload), payload, key=lambda one: one["count"])
    rows = await pool.fetch(BUCKETS, window)
    assert {
        key: (one["count"], one["sum_value"], one["avg_value"], one["min_value"], one["max_value"])
        for key, one in last.items()
    } == {
        (row["metric_type"], row["sensor"], row["unit"], row["bucket_start_at"]): (
            row["count"], row["sum_value"], row["sum_value"] / row["count"], row["min_value"], row["max_value"],
        )
        for row in rows
    }  # fmt: skip
    return len(rows)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("raw", {"telemetry.batch.ingested", "telemetry.ingested", "telemetry.loss"}),
        ("aggregated", {"telemetry.aggregated", "telemetry.loss"}),
        ("both", {"telemetry.batch.ingested", "telemetry.ingested", "telemetry.aggregated", "telemetry.loss"}),
    ],
)
async def test_each_mode_tells_what_it_says_and_losses_always_travel(pool: Pool, mode: Any, expected: set[str]) -> None:
    stream = uuid4()
    messages = [batch_message(stream, 1, 10), reading_message(26.4), loss_message(stream, 11, 12)]
    await ingest(pool, messages, NOW, SyncPlan(mode))
    await emit_all(pool, LATER)
    rows = await pool.fetch("SELECT event_type FROM sync_outbox")
    assert {row["event_type"] for row in rows} == expected
    assert await pool.fetchval("SELECT count(*) FROM telemetry_agg_unsent") == 0
    assert await pool.fetchval("SELECT count(*) FROM telemetry_raw") == 11, "the edge keeps every sample in every mode"


async def test_an_event_carries_the_documented_fields_and_names_its_bucket(pool: Pool) -> None:
    await store(pool, [samples(NOW - timedelta(minutes=1), 12, 5)], NOW, AGGREGATED)
    await emit_all(pool, LATER)
    event = next(event for event in await told(pool) if event["payload"].get("sensor") == "t1")
    assert event["payload"] == {
        "metric_type": "temperature",
        "aggregation_window": "1m",
        "avg_value": 5.5,
        "min_value": 1.0,
        "max_value": 10.0,
        "unit": "C",
        "count": 4,
        "sum_value": 22.0,
        "bucket_start_at": "2026-11-16T11:59:00Z",
        "bucket_end_at": "2026-11-16T12:00:00Z",
        "sensor": "t1",
    }
    assert (event["device_id"], event["occurred_at"]) == ("node-1", NOW - timedelta(minutes=1))
    assert event["trace_id"]
    assert BUS_PAYLOADS["telemetry.aggregated"] is TelemetryAggregated
    msgspec.json.decode(event["payload_json"], type=TelemetryAggregated)


async def test_nothing_is_told_before_its_window_has_closed_and_settled(pool: Pool) -> None:
    await store(pool, [samples(NOW, 3, 1)], NOW + timedelta(seconds=10), AGGREGATED)
    for seconds, expected in ((10, 0), (60, 0), (89, 0), (90, 3), (200, 0)):
        assert await emit_all(pool, NOW + timedelta(seconds=seconds)) == expected


async def test_late_samples_are_told_as_a_correction_under_a_new_id_and_repetitions_are_not(pool: Pool) -> None:
    stream = samples(NOW - timedelta(minutes=10), 12, 1)
    await store(pool, [pack_of(stream, 1, 6)], NOW, AGGREGATED)
    await emit_all(pool, LATER)
    await store(pool, [pack_of(stream, 1, 6)], LATER, AGGREGATED)
    assert await emit_all(pool, LATER + timedelta(hours=1)) == 0
    await store(pool, [pack_of(stream, 4, 12)], LATER, AGGREGATED)
    assert await emit_all(pool, LATER + timedelta(seconds=29)) == 0
    assert await emit_all(pool, LATER + timedelta(seconds=30)) == 3
    events = await told(pool)
    assert sorted(event["payload"]["count"] for event in events) == [2, 2, 2, 4, 4, 4]
    assert len({event["id"] for event in events}) == 6
    assert await assert_last_word_is_true(pool, "1m") == 3


async def test_a_restored_database_tells_the_same_thing_under_the_same_id(pool: Pool) -> None:
    stream = samples(NOW - timedelta(minutes=10), 12, 1)
    await store(pool, [stream], NOW, AGGREGATED)
    await emit_all(pool, LATER)
    before = {event["id"] for event in await told(pool)}
    await pool.execute("TRUNCATE sync_outbox, telemetry_agg, telemetry_raw, streams, stream_content, stream_boots")
    for first in (7, 1):
        await store(pool, [pack_of(stream, first, first + 5)], LATER, AGGREGATED)
    await emit_all(pool, LATER + timedelta(hours=1))
    assert {event["id"] for event in await told(pool)} == before


async def test_a_replay_of_48_hours_tells_each_window_a_bounded_number_of_times(pool: Pool) -> None:
    """Sent in pieces, some of them twice, while the sender looks at the list all the time."""
    streams = [samples(NOW - timedelta(hours=hours), 12 * 360, 10) for hours in (48, 36, 24, 12)]
    pieces = [pack_of(stream, first, first + 239) for stream in streams for first in range(1, stream.count + 1, 240)]
    at, taken = NOW, 0
    for number, piece in enumerate(pieces):
        again = pieces[max(0, number - 3)]
        await store(pool, [piece, again], at, AGGREGATED)
        at += timedelta(seconds=2)
        taken += await emit_due(pool, at)
    taken += await emit_all(pool, at + timedelta(hours=1))
    windows = await assert_last_word_is_true(pool, "1m")
    assert windows == 48 * 60 * 3
    assert taken == len(await told(pool)) <= windows * 1.05, "a window is told again only where two pieces met late"
    assert await pool.fetchval("SELECT max(priority) FROM sync_outbox") == 0, "a replay goes behind what is live"


async def test_samples_of_a_wild_clock_are_told_too(pool: Pool) -> None:
    await store(pool, [samples(datetime(2099, 1, 1, tzinfo=UTC), 3, 1)], NOW, AGGREGATED)
    await store(pool, [samples(datetime(1970, 1, 1, tzinfo=UTC), 3, 1)], NOW, AGGREGATED)
    assert await emit_all(pool, NOW + timedelta(seconds=90)) == 6
    assert await assert_last_word_is_true(pool, "1m") == 6


async def test_samples_of_a_moment_of_one_hour_are_told_once_in_both_modes(pool: Pool) -> None:
    await store(pool, [samples(NOW - timedelta(hours=1), 120, 30)], NOW, BOTH)
    assert await emit_all(pool, LATER) == 3
    kinds = await pool.fetch("SELECT event_type, count(*) AS n FROM sync_outbox GROUP BY 1")
    assert {row["event_type"]: row["n"] for row in kinds} == {"telemetry.aggregated": 3, "telemetry.batch.ingested": 1}


async def test_writers_and_senders_side_by_side_leave_no_change_untold(pool: Pool) -> None:
    """Three gateways add to the same buckets while two senders take them: the last word about each is the truth."""
    rng = random.Random(5)
    streams = [samples(NOW - timedelta(minutes=3), 120, 1) for _ in range(3)]
    plan = SyncPlan("aggregated", "1m", 0)
    is_writing = True

    async def write(stream: TelemetryBatch) -> None:
        firsts = list(range(1, stream.count + 1, 4))
        rng.shuffle(firsts)
        for first in firsts:
            piece = pack_of(stream, first, first + 3)
            await until_stored(lambda piece=piece: store(pool, [piece], NOW, plan))  # type: ignore[misc]  # a default

    async def send() -> None:
        while is_writing:
            await emit_due(pool, LATER)

    senders = [asyncio.create_task(send()) for _ in range(2)]
    await asyncio.gather(*(write(stream) for stream in streams))
    is_writing = False
    await asyncio.gather(*senders)
    await emit_all(pool, LATER)
    assert await assert_last_word_is_true(pool, "1m") == 6
    counts = Counter(event["payload"]["bucket_start_at"] for event in await told(pool))
    assert max(counts.values()) > 3, "the senders were in between"


async def test_a_bucket_that_somebody_is_adding_to_is_left_until_the_commit(pool: Pool) -> None:
    stream = samples(NOW - timedelta(minutes=3), 6, 1)
    await store(pool, [pack_of(stream, 1, 3)], NOW, AGGREGATED)
    async with pool.acquire() as connection, connection.transaction():
        await intake.store_batches(connection, [(StreamBatch(HERE, stream), "trace-1")], NOW, AGGREGATED)
        assert await emit_due(pool, LATER) == 0
    assert await emit_due(pool, LATER) == 3
    assert {event["payload"]["count"] for event in await told(pool)} == {2}


async def test_samples_that_come_while_their_bucket_is_being_told_are_told_next(pool: Pool) -> None:
    stream = samples(NOW - timedelta(minutes=3), 6, 1)
    await store(pool, [pack_of(stream, 1, 3)], NOW, AGGREGATED)
    async with pool.acquire() as connection, connection.transaction():
        keys = await unsent_store.take_due(connection, LATER, 10)
        writer = asyncio.create_task(store(pool, [stream], NOW, AGGREGATED))

        async def is_waiting() -> bool:
            return bool(await pool.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"))

        await eventually(is_waiting, what="the writer to wait for the sender")
        rows = await unsent_store.buckets(connection, keys)
        assert {row["count"] for row in rows} == {1}, "what is not committed is not told"
        await outbox.append(connection, [event_of(dict(row), LATER, NAMES) for row in rows])
    await writer
    assert await emit_due(pool, LATER) == 3
    assert await assert_last_word_is_true(pool, "1m") == 3


async def test_a_page_is_taken_by_one_sender_only(pool: Pool) -> None:
    await store(pool, [samples(NOW - timedelta(hours=9), 3 * 400, 60)], NOW, AGGREGATED)
    taken = await asyncio.gather(*(emit_due(pool, LATER) for _ in range(6)))
    assert sum(taken) == await pool.fetchval("SELECT count(*) FROM sync_outbox") == 1200
    assert max(taken) <= PAGE_BUCKETS


def test_what_an_earlier_release_named_keeps_its_id_and_the_rest_is_keyed() -> None:
    row = {
        "tenant_id": "demo", "farm_id": "f", "barn_id": "b", "device_id": "node-1", "metric_type": "temperature",
        "sensor": "t1", "unit": "C", "window": "1m", "bucket_start_at": NOW, "bucket_end_at": NOW + timedelta(minutes=1),
        "count": 4, "sum_value": 22.0, "min_value": 1.0, "max_value": 10.0,
    }  # fmt: skip
    was = UUID("f0b81e21-f1d2-5f27-8444-05403762e1ff")
    assert event_of(row, NOW, Naming(b"k", NOW + timedelta(microseconds=1))).id == was
    keyed = [event_of(row, NOW, Naming(key, since)).id for key, since in ((b"k", None), (b"k", NOW), (b"other", None))]
    assert [(one.version, time_of(one)) for one in keyed] == [(7, NOW)] * 3
    assert keyed[0] == keyed[1] != keyed[2]
