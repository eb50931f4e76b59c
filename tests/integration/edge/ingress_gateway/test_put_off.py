"""What is refused because of the register, or of the database, stays with its device and flows once a person has mended it.
Findings 1 and 3 of the reading of the path from device to edge."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from farmiq.edge.ingress_gateway import devices
from farmiq.edge.ingress_gateway.acknowledgements import Pending
from farmiq.edge.ingress_gateway.handlers import Outcome, ingest
from farmiq.edge.ingress_gateway.jobs import jobs
from farmiq.edge.ingress_gateway.put_off import ASK_AGAIN_SECONDS
from farmiq.kit.ids import new_id
from farmiq.kit.mqtt import Message
from farmiq.kit.postgres import Pool
from farmiq.timeseries.stream import Origin
from support.gateway import register
from support.stored_months import run_now
from support.telemetry import batch_message, loss_message, reading_message

NEIGHBOUR = Origin("demo", "farm-1", "barn-1", "node-2")


async def ingest_one(pool: Pool, *messages: Message) -> Outcome:
    (outcome,) = await ingest(pool, messages, datetime.now(UTC))
    return outcome


async def alerts(pool: Pool) -> list[tuple[str, str, str]]:
    rows = await pool.fetch(
        "SELECT status, evidence ->> 'device_id' AS device, evidence ->> 'code' AS code FROM ops_alerts"
        " WHERE kind = 'device_put_off' ORDER BY opened_at, 2, 3"
    )
    return [tuple(row) for row in rows]


def everything(stream: UUID) -> Sequence[Message]:
    return batch_message(stream, 1, 3), loss_message(stream, 4, 9), reading_message(26.4, event_id=new_id())


async def test_an_unregistered_device_keeps_everything_and_all_of_it_is_taken_once_it_is_registered(
    edge_pool: Pool,
) -> None:
    stream = uuid4()
    messages = everything(stream)
    for _ in range(3):
        outcome = await ingest_one(edge_pool, *messages)
        assert {verdict.result for verdict in outcome.verdicts} == {"put_off"}
        assert {verdict.code for verdict in outcome.verdicts} == {"not_provisioned"}
        assert outcome.marks == []
        (throttled,) = outcome.put_off
        assert (throttled.sender, throttled.messages, throttled.reason) == (("demo", "node-1"), 3, "not_provisioned")
    assert await edge_pool.fetchval("SELECT count(*) FROM ingress_rejected") == 1, "what repeats itself fills no table"
    assert await edge_pool.fetchval("SELECT count(*) FROM ingress_dedupe") == 0, "and is not taken for known later"
    assert await alerts(edge_pool) == [("open", "node-1", "not_provisioned")]
    await register(edge_pool)
    outcome = await ingest_one(edge_pool, *messages)
    assert {verdict.result for verdict in outcome.verdicts} == {"stored"}
    assert ([mark.acked_seq for mark in outcome.marks], outcome.put_off) == ([9], [])
    assert await edge_pool.fetchval("SELECT count(*) FROM stream_losses") == 1
    await assert_stored(edge_pool, stream, 3)


async def test_a_device_that_was_revoked_by_mistake_loses_nothing(edge_pool: Pool) -> None:
    await register(edge_pool)
    stream = uuid4()
    await ingest_one(edge_pool, batch_message(stream, 1, 3))
    async with edge_pool.acquire() as connection:
        await devices.revoke(connection, "node-1")
    outcome = await ingest_one(edge_pool, batch_message(stream, 4, 6), loss_message(stream, 7, 8))
    assert {verdict.result for verdict in outcome.verdicts} == {"put_off"}
    await edge_pool.execute("UPDATE devices SET revoked_at = NULL")
    await ingest_one(edge_pool, batch_message(stream, 4, 6), loss_message(stream, 7, 8))
    await assert_stored(edge_pool, stream, 6)


async def test_the_loss_of_a_copied_spool_is_not_thrown_away(edge_pool: Pool) -> None:
    """Finding 3: the second device under one stream was told that its losses were refused, and forgot them."""
    await register(edge_pool, "node-1", "node-2")
    stream = uuid4()
    await ingest_one(edge_pool, batch_message(stream, 1, 3))
    for message in (batch_message(stream, 4, 6, NEIGHBOUR), loss_message(stream, 7, 9, NEIGHBOUR)):
        outcome = await ingest_one(edge_pool, message)
        (throttled,) = outcome.put_off
        assert (throttled.sender[1], throttled.reason) == ("node-2", "stream_of_another_device")
        assert [(one.device_id, one.result) for one in outcome.verdicts] == [("node-2", "put_off")]
    assert await alerts(edge_pool) == [("open", "node-2", "stream_of_another_device")]


async def test_what_the_database_refuses_holds_nothing_else_back(edge_pool: Pool) -> None:
    await register(edge_pool)
    await edge_pool.execute("ALTER TABLE telemetry_raw ADD CONSTRAINT odd CHECK (metric_value <> 13)")
    event_id = new_id()
    outcomes = await ingest(
        edge_pool, [reading_message(13.0, event_id=event_id), reading_message(14.0)], datetime.now(UTC)
    )
    told = [(one.result, one.code) for outcome in outcomes for one in outcome.verdicts]
    assert sorted(told, key=str) == [("put_off", "not_storable"), ("stored", None)]
    assert [one for outcome in outcomes for one in outcome.put_off] == [], "the device goes on sending"
    await edge_pool.execute("ALTER TABLE telemetry_raw DROP CONSTRAINT odd")
    outcome = await ingest_one(edge_pool, reading_message(13.0, event_id=event_id))
    assert [one.result for one in outcome.verdicts] == ["stored"]


async def test_strangers_fill_no_table_of_alerts_and_an_alert_ends_when_its_device_is_quiet(edge_pool: Pool) -> None:
    invented = [reading_message(1.0, Origin("demo", "farm-1", "barn-1", f"invented-{number}")) for number in range(150)]
    for message in invented:
        await ingest_one(edge_pool, message)
    assert len(await alerts(edge_pool)) == 100
    (job,) = [one for one in jobs({}) if one.name == "ingress-rejected-cleanup"]
    await run_now(edge_pool, job)
    assert {status for status, _, _ in await alerts(edge_pool)} == {"open"}
    await edge_pool.execute("UPDATE ops_alerts SET last_seen_at = last_seen_at - $1::interval", timedelta(hours=1))
    await ingest_one(edge_pool, invented[0])
    await run_now(edge_pool, job)
    assert [device for status, device, _ in await alerts(edge_pool) if status == "open"] == ["invented-0"]


async def test_the_acknowledgement_says_it_in_a_field_of_its_own(edge_pool: Pool) -> None:
    """A device of 0.1.0 discards an acknowledgement with a result that it does not know. It hears nothing, and repeats."""
    event_id = new_id()
    outcome = await ingest_one(edge_pool, reading_message(1.0, event_id=event_id))
    pending = Pending()
    pending.note(outcome.epoch, outcome.marks, outcome.verdicts)
    for one in outcome.put_off:
        pending.note_throttled(one.sender[1], one.retry_after_seconds)
    acks = pending.take(datetime.now(UTC))
    assert {device_id for device_id, _ in acks} == {"node-1"}
    assert [ack.events for _, ack in acks] == [[], []]
    assert [one.code for _, ack in acks for one in ack.put_off or ()] == ["not_provisioned"]
    assert [ack.retry_after_seconds for _, ack in acks if isinstance(ack.retry_after_seconds, float)] == [
        ASK_AGAIN_SECONDS
    ]


async def assert_stored(pool: Pool, stream: UUID, last: int) -> None:
    rows = await pool.fetch("SELECT seq FROM telemetry_raw WHERE stream_id = $1 ORDER BY seq", stream)
    assert [row["seq"] for row in rows] == list(range(1, last + 1))
