from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import pytest_asyncio

from farmiq.contracts.status import DeviceStatus
from farmiq.edge.ingress_gateway import devices
from farmiq.edge.ingress_gateway.handlers import Outcome, ingest
from farmiq.kit.ids import new_id
from farmiq.kit.mqtt import Message
from farmiq.kit.postgres import Pool
from support.telemetry import (
    ELSEWHERE,
    HERE,
    NOW,
    batch_message,
    loss_message,
    raw_message,
    reading_message,
    status_message,
)


@pytest_asyncio.fixture
async def pool(edge_pool: Pool) -> AsyncIterator[Pool]:
    async with edge_pool.acquire() as connection:
        await devices.register(
            connection, tenant_id="demo", farm_id="farm-1", barn_id="barn-1", device_id="node-1", kind="node"
        )
    yield edge_pool


async def ingest_one(pool: Pool, *messages: Message) -> Outcome:
    outcomes = await ingest(pool, messages, NOW)
    assert len(outcomes) == 1
    return outcomes[0]


async def count(pool: Pool, table: str) -> int:
    return int(await pool.fetchval(f"SELECT count(*) FROM {table}"))  # noqa: S608 - a name from this file


async def test_rows_outbox_and_dedupe_are_committed_together_and_the_mark_follows(pool: Pool) -> None:
    stream = uuid4()
    outcome = await ingest_one(pool, batch_message(stream, 1, 10), batch_message(stream, 21, 30))
    assert [(mark.acked_seq, mark.above) for mark in outcome.marks] == [(10, [(21, 30)])]
    assert outcome.samples_stored == await count(pool, "telemetry_raw") == 20
    assert await count(pool, "ingress_dedupe") == 2
    packs = await pool.fetch(
        "SELECT event_type, tenant_id, device_id, payload_json->'seq0' AS seq0, trace_id FROM sync_outbox"
    )
    assert {(pack["event_type"], pack["tenant_id"], pack["device_id"], pack["trace_id"]) for pack in packs} == {
        ("telemetry.batch.ingested", "demo", "node-1", "trace-1")
    }
    assert sorted(bytes(pack["seq0"]) for pack in packs) == [b"1", b"21"]


async def test_whatever_is_repeated_is_stored_once_and_acknowledged_again(pool: Pool) -> None:
    stream, event_id, reading_id = uuid4(), new_id(), new_id()
    messages = [batch_message(stream, 1, 5, event_id=event_id), reading_message(26.4, event_id=reading_id)]
    await ingest_one(pool, *messages)
    again = await ingest_one(pool, *messages, *messages, batch_message(stream, 1, 5))
    assert (again.samples_stored, again.duplicates) == (0, 4)
    assert [mark.acked_seq for mark in again.marks] == [5]
    assert {(verdict.event_id, verdict.result) for verdict in again.verdicts} == {(reading_id, "duplicate")}
    assert (await count(pool, "telemetry_raw"), await count(pool, "sync_outbox")) == (6, 2)


async def test_a_single_reading_becomes_the_documented_row_and_event(pool: Pool) -> None:
    event_id = new_id()
    outcome = await ingest_one(pool, reading_message(26.4, event_id=event_id))
    row = await pool.fetchrow("SELECT id, metric_type, metric_value, unit, occurred_at FROM telemetry_raw")
    assert row is not None
    assert tuple(row) == (event_id, "temperature", 26.4, "C", NOW)
    event = await pool.fetchrow("SELECT id, event_type, status, payload_json FROM sync_outbox")
    assert event is not None
    assert (event["id"], event["event_type"], event["status"]) == (event_id, "telemetry.ingested", "pending")
    assert bytes(event["payload_json"]) == b'{"unit": "C", "metric_type": "temperature", "metric_value": 26.4}'
    assert [(verdict.event_id, verdict.result) for verdict in outcome.verdicts] == [(event_id, "stored")]


async def test_one_bad_message_in_a_micro_batch_costs_only_itself(pool: Pool) -> None:
    stream, foreign = uuid4(), reading_message(1.0, ELSEWHERE)
    bad = raw_message(reading_message(1.0).topic, b"{not json \xff\x00")
    outcome = await ingest_one(pool, batch_message(stream, 1, 3), bad, foreign, reading_message(2.0))
    assert outcome.samples_stored == 4
    assert sorted(refusal.code for refusal in outcome.refusals) == ["not_provisioned", "not_utf8"]
    kept = await pool.fetch("SELECT topic, reason, payload, payload_size_bytes FROM ingress_rejected ORDER BY reason")
    assert [(row["reason"], row["topic"]) for row in kept] == [
        ("not_provisioned", foreign.topic),
        ("not_utf8", bad.topic),
    ]
    assert (kept[1]["payload"], kept[1]["payload_size_bytes"]) == (bad.payload, len(bad.payload))


async def test_what_the_database_refuses_is_set_aside_and_its_neighbours_are_stored(pool: Pool) -> None:
    """Another tenant's event already has this id: only the database can know."""
    taken, stream = new_id(), uuid4()
    async with pool.acquire() as connection:
        await devices.register(
            connection, tenant_id="other", farm_id="farm-9", barn_id="barn-9", device_id="node-9", kind="node"
        )
    await ingest_one(pool, reading_message(1.0, ELSEWHERE, event_id=taken))
    outcomes = await ingest(pool, [batch_message(stream, 1, 3), reading_message(2.0, event_id=taken)], NOW)
    assert sum(outcome.samples_stored for outcome in outcomes) == 3
    assert [refusal.code for outcome in outcomes for refusal in outcome.refusals] == ["event_id_taken"]
    assert await pool.fetchval("SELECT count(*) FROM telemetry_raw WHERE tenant_id = 'other'") == 1
    again = await ingest_one(pool, batch_message(stream, 1, 3))
    assert [mark.acked_seq for mark in again.marks] == [3]


async def test_a_stream_that_belongs_to_another_device_is_rejected_each_time_it_comes(pool: Pool) -> None:
    stream = uuid4()
    async with pool.acquire() as connection:
        await devices.register(
            connection, tenant_id="other", farm_id="farm-9", barn_id="barn-9", device_id="node-9", kind="node"
        )
    await ingest_one(pool, batch_message(stream, 1, 3))
    stolen = batch_message(stream, 4, 6, ELSEWHERE)
    for _ in range(2):
        outcome = await ingest_one(pool, stolen)
        assert [refusal.code for refusal in outcome.refusals] == ["stream_of_another_device"]
        assert [(verdict.device_id, verdict.result) for verdict in outcome.verdicts] == [("node-9", "rejected")]
    assert await count(pool, "telemetry_raw") == 3


async def test_a_declared_loss_moves_the_mark_and_goes_to_the_cloud(pool: Pool) -> None:
    stream, event_id = uuid4(), new_id()
    await ingest_one(pool, batch_message(stream, 11, 15))
    outcome = await ingest_one(pool, loss_message(stream, 1, 10, event_id=event_id))
    assert [mark.acked_seq for mark in outcome.marks] == [15]
    assert [(verdict.event_id, verdict.result) for verdict in outcome.verdicts] == [(event_id, "stored")]
    assert await pool.fetchval("SELECT count(*) FROM sync_outbox WHERE event_type = 'telemetry.loss'") == 1
    assert await pool.fetchval("SELECT count(*) FROM stream_losses") == 1


async def liveness(pool: Pool) -> tuple[object, ...]:
    row = await pool.fetchrow(
        "SELECT last_rx_at, last_sample_ts, reported_state FROM device_liveness WHERE device_id = 'node-1'"
    )
    assert row is not None
    return tuple(row)


async def test_liveness_follows_receipt_and_never_goes_back(pool: Pool) -> None:
    stream = uuid4()
    await ingest_one(pool, batch_message(stream, 100, 110))
    first = await liveness(pool)
    await ingest_one(pool, batch_message(stream, 1, 10))
    assert await liveness(pool) == first, "old samples are no older sign of life, and no newer sample"
    await ingest_one(pool, status_message(DeviceStatus(state="offline")))
    assert await liveness(pool) == (first[0], first[1], "offline")


async def test_a_revoked_device_is_refused(pool: Pool) -> None:
    await pool.execute("UPDATE devices SET revoked_at = now() WHERE device_id = $1", HERE.device_id)
    outcome = await ingest_one(pool, reading_message(1.0))
    assert [refusal.code for refusal in outcome.refusals] == ["not_provisioned"]
    assert await count(pool, "telemetry_raw") == 0


async def test_acknowledgements_carry_the_epoch_of_the_database(pool: Pool) -> None:
    before = await ingest_one(pool, reading_message(1.0))
    await pool.execute("UPDATE edge_identity SET epoch = gen_random_uuid()")
    after = await ingest_one(pool, reading_message(1.0))
    assert isinstance(before.epoch, UUID)
    assert before.epoch != after.epoch
