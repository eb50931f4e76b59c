import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from uuid import UUID, uuid4, uuid5

import asyncpg
import msgspec
import pytest_asyncio

from farmiq.contracts.ack import EVENT_ID_REUSED
from farmiq.contracts.status import DeviceStatus
from farmiq.edge.ingress_gateway import devices
from farmiq.edge.ingress_gateway.handlers import Outcome, ingest
from farmiq.kit.ids import new_id, time_of
from farmiq.kit.micro_batch import until_stored
from farmiq.kit.mqtt import Message
from farmiq.kit.postgres import Pool
from farmiq.timeseries.stream import Origin
from support.gateway import assert_all_agree, assert_exactly_once, register
from support.telemetry import (
    ELSEWHERE,
    HERE,
    NEIGHBOUR,
    NOW,
    batch_message,
    loss_message,
    raw_message,
    reading_message,
    status_message,
)
from support.waiting import eventually


@pytest_asyncio.fixture
async def pool(edge_pool: Pool) -> AsyncIterator[Pool]:
    await register(edge_pool)
    yield edge_pool


async def ingest_one(pool: Pool, *messages: Message) -> Outcome:
    outcomes = await ingest(pool, messages, NOW)
    assert len(outcomes) == 1
    return outcomes[0]


def said_at(message: Message, ts: str) -> Message:
    return raw_message(message.topic, msgspec.json.encode(msgspec.json.decode(message.payload) | {"ts": ts}))


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


async def test_an_event_id_that_another_tenant_used_is_no_obstacle(pool: Pool) -> None:
    taken, stream = new_id(), uuid4()
    async with pool.acquire() as connection:
        await devices.register(
            connection, tenant_id="other", farm_id="farm-9", barn_id="barn-9", device_id="node-9", kind="node"
        )
    await ingest_one(pool, reading_message(1.0, ELSEWHERE, event_id=taken))
    outcomes = await ingest(pool, [batch_message(stream, 1, 3), reading_message(2.0, event_id=taken)], NOW)
    assert sum(outcome.samples_stored for outcome in outcomes) == 4
    assert [refusal.code for outcome in outcomes for refusal in outcome.refusals] == []
    values = await pool.fetch("SELECT tenant_id, metric_value FROM telemetry_raw WHERE id = $1", taken)
    assert {tuple(row) for row in values} == {("other", 1.0), ("demo", 2.0)}
    told = await pool.fetch("SELECT tenant_id FROM sync_outbox WHERE id = $1", taken)
    assert {row["tenant_id"] for row in told} == {"other", "demo"}


async def test_what_the_database_refuses_is_set_aside_and_its_neighbours_are_stored(pool: Pool) -> None:
    """The gateway has forgotten the id: only the outbox knows that it stood for something else."""
    used, stream = new_id(), uuid4()
    first = reading_message(1.0, event_id=used)
    await ingest_one(pool, first)
    await pool.execute("DELETE FROM ingress_dedupe")
    late = await ingest_one(pool, first)
    assert [(verdict.event_id, verdict.result) for verdict in late.verdicts] == [(used, "stored")]
    await pool.execute("DELETE FROM ingress_dedupe")
    later = said_at(reading_message(2.0, event_id=used), "2026-01-05T00:00:00Z")
    outcomes = await ingest(pool, [batch_message(stream, 1, 3), later], NOW)
    assert sum(outcome.samples_stored for outcome in outcomes) == 3
    assert [refusal.code for outcome in outcomes for refusal in outcome.refusals] == ["event_id_reused"]
    assert await pool.fetchval("SELECT reason FROM ingress_rejected WHERE event_id = $1", used) == "event_id_reused"
    assert await pool.fetchval("SELECT count(*) FROM sync_outbox WHERE id = $1", used) == 1
    again = await ingest_one(pool, batch_message(stream, 1, 3))
    assert [mark.acked_seq for mark in again.marks] == [3]


async def test_an_occupied_id_costs_a_neighbours_next_pack_nothing(pool: Pool) -> None:
    """Packs of what was measured before the upgrade have the ids of 0.1.0, which anybody can foresee."""
    await register(pool, "node-2")
    stream = uuid4()
    await pool.execute("UPDATE edge_identity SET ids_keyed_since = now() + interval '9 years'")
    foreseen = uuid5(stream, "1-3")
    await ingest_one(pool, reading_message(666.0, NEIGHBOUR, event_id=foreseen))
    outcome = await ingest_one(pool, batch_message(stream, 1, 3), batch_message(stream, 4, 6))
    assert [mark.acked_seq for mark in outcome.marks] == [6]
    packs = await pool.fetch(
        "SELECT id, payload_json->'seq0' AS seq0 FROM sync_outbox WHERE event_type = 'telemetry.batch.ingested'"
    )
    ids = {bytes(row["seq0"]): row["id"] for row in packs}
    assert ids.keys() == {b"1", b"4"}
    assert ids[b"4"] == uuid5(stream, "4-6")
    assert ids[b"1"].version == 7
    ((alert,),) = await pool.fetch("SELECT evidence FROM ops_alerts WHERE kind = 'event_id_occupied'")
    evidence = msgspec.json.decode(alert)
    assert (evidence["device_id"], evidence["known_device_id"]) == ("node-1", "node-2")
    assert (evidence["event_id"], evidence["stored_as"]) == (str(foreseen), str(ids[b"1"]))


async def test_a_pack_has_the_same_id_after_a_restore_and_another_at_another_edge(pool: Pool) -> None:
    stream, ids = uuid4(), []
    for secret in (b"own", b"own", b"another"):
        await pool.execute(
            "TRUNCATE sync_outbox, telemetry_raw, telemetry_agg, streams, stream_content, stream_boots, ingress_dedupe"
        )
        await pool.execute("UPDATE edge_identity SET id_secret = sha256($1)", secret)
        await ingest_one(pool, batch_message(stream, 1, 3))
        ids.append(await pool.fetchval("SELECT id FROM sync_outbox"))
    assert ids[0] == ids[1] != ids[2]
    first_at = await pool.fetchval("SELECT min(occurred_at) FROM telemetry_raw")
    assert [one.version for one in ids] == [7, 7, 7]
    assert abs(time_of(ids[0]) - first_at) < timedelta(milliseconds=1)


async def test_a_stream_that_belongs_to_another_device_is_put_off_each_time_it_comes(pool: Pool) -> None:
    stream = uuid4()
    await register(pool, "node-2")
    await ingest_one(pool, batch_message(stream, 1, 3))
    stolen = batch_message(stream, 4, 6, NEIGHBOUR)
    for _ in range(2):
        outcome = await ingest_one(pool, stolen)
        assert [refusal.code for refusal in outcome.refusals] == ["stream_of_another_device"]
        assert [(verdict.device_id, verdict.result) for verdict in outcome.verdicts] == [("node-2", "put_off")]
    assert await count(pool, "telemetry_raw") == 3


async def test_an_id_that_stood_for_something_else_is_refused_and_not_taken_for_a_repetition(pool: Pool) -> None:
    await register(pool, "node-2")
    event_id, stream = new_id(), uuid4()
    neighbour = Origin("demo", "farm-1", "barn-1", "node-2")
    first = reading_message(26.4, event_id=event_id)
    await ingest_one(pool, first)
    for other in (
        reading_message(26.5, event_id=event_id),
        reading_message(26.4, neighbour, event_id=event_id),
        loss_message(stream, 1, 5, event_id=event_id),
    ):
        outcome = await ingest_one(pool, other, first)
        assert [refusal.code for refusal in outcome.refusals] == [EVENT_ID_REUSED]
        assert {(verdict.result, verdict.device_id) for verdict in outcome.verdicts} >= {("duplicate", "node-1")}
        assert (outcome.samples_stored, outcome.duplicates) == (0, 1)
    assert await pool.fetchval("SELECT metric_value FROM telemetry_raw") == 26.4
    assert await count(pool, "ingress_rejected") == 3
    assert await count(pool, "stream_losses") == 0
    assert (await ingest_one(pool, first)).duplicates == 1, "the first one is still known by its id"


async def test_of_two_messages_with_one_id_in_one_micro_batch_the_first_is_stored_and_the_other_refused(
    pool: Pool,
) -> None:
    event_id = new_id()
    outcome = await ingest_one(pool, *(reading_message(float(value), event_id=event_id) for value in (1, 2, 1)))
    assert await pool.fetchval("SELECT metric_value FROM telemetry_raw") == 1.0
    assert (outcome.samples_stored, outcome.duplicates) == (1, 1)
    assert [refusal.code for refusal in outcome.refusals] == [EVENT_ID_REUSED]


async def test_samples_under_an_id_that_was_used_before_are_stored_all_the_same(pool: Pool) -> None:
    """Which samples are new is for the stream to say. Refused, they would never come again under another id."""
    event_id, stream = new_id(), uuid4()
    await ingest_one(pool, batch_message(stream, 1, 5, event_id=event_id))
    outcome = await ingest_one(pool, batch_message(stream, 4, 9, event_id=event_id))
    assert ([mark.acked_seq for mark in outcome.marks], outcome.samples_stored) == ([9], 4)
    await assert_exactly_once(pool, stream, 9)


async def test_a_row_of_an_earlier_release_without_a_hash_is_taken_for_the_same_message(pool: Pool) -> None:
    event_id = new_id()
    await ingest_one(pool, reading_message(1.0, event_id=event_id))
    await pool.execute("UPDATE ingress_dedupe SET content_hash = NULL, device_id = NULL")
    assert (await ingest_one(pool, reading_message(2.0, event_id=event_id))).duplicates == 1


async def until_blocked(pool: Pool, count: int) -> None:
    async def are_waiting() -> bool:
        waiting = await pool.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        return bool(waiting >= count)

    await eventually(are_waiting, what=f"{count} transactions to wait for a lock")


async def test_batches_and_losses_that_cross_between_two_replicas_do_not_wait_for_each_other(pool: Pool) -> None:
    low, high = sorted([uuid4(), uuid4()])
    await ingest_one(pool, batch_message(low, 1, 5), batch_message(high, 1, 5))
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT FROM streams WHERE stream_id = $1 FOR UPDATE", low)
        one = asyncio.create_task(ingest(pool, [batch_message(low, 6, 9), loss_message(high, 10, 12)], NOW))
        await until_blocked(pool, 1)
        other = asyncio.create_task(ingest(pool, [batch_message(high, 6, 9), loss_message(low, 10, 12)], NOW))
        await until_blocked(pool, 2)
    # Were each to hold one stream and want the other's, PostgreSQL would end one of them here.
    outcomes = [*await one, *await other]
    assert sorted(mark.acked_seq for mark in outcomes[-1].marks) == [12, 12]
    await assert_all_agree(pool)


async def attempts_through_a_deadlock(pool: Pool, stream: UUID, first: int) -> int:
    attempts = 0

    async def attempt() -> list[Outcome]:
        nonlocal attempts
        attempts += 1
        return await ingest(pool, [batch_message(stream, first, first + 4)], NOW)

    async with pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("SELECT FROM telemetry_agg FOR UPDATE")
        storing = asyncio.create_task(until_stored(attempt))
        await until_blocked(pool, 1)
        # Each now wants what the other holds. Whoever has waited longer is ended: the gateway, unless this test was slow.
        with suppress(asyncpg.DeadlockDetectedError):
            await connection.execute("SELECT FROM streams FOR UPDATE")
        await transaction.rollback()
    (outcome,) = await storing
    assert [mark.acked_seq for mark in outcome.marks] == [first + 4]
    return attempts


async def test_a_transaction_that_postgresql_ends_in_a_deadlock_is_done_again(pool: Pool) -> None:
    stream, last = uuid4(), 5
    await ingest_one(pool, batch_message(stream, 1, last))
    while await attempts_through_a_deadlock(pool, stream, last + 1) == 1:
        last += 5
        assert last < 30, "the gateway's transaction was never the one that PostgreSQL ended"
    await assert_exactly_once(pool, stream, last + 5)


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
