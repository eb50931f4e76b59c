"""Devices whose disk was set back, whose spool is gone, or that share an identity: only a repetition is taken for one.

Findings 2, 3 and 12 of the reading of the path from device to edge."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import msgspec
import pytest

from farmiq.contracts.ack import DeviceAck
from farmiq.contracts.status import DeviceStatus
from farmiq.contracts.telemetry import TelemetryBatch
from farmiq.edge.ingress_gateway.acknowledgements import Pending
from farmiq.edge.ingress_gateway.handlers import Outcome, ingest
from farmiq.kit.mqtt import Message
from farmiq.kit.postgres import Pool
from support.gateway import register
from support.telemetry import HERE, NEIGHBOUR, batch_message_of, batch_of, loss_message, status_message

BOOT, OTHER_BOOT = uuid4(), uuid4()
DAY_US = 86_400_000_000


@pytest.fixture
async def pool(edge_pool: Pool) -> Pool:
    await register(edge_pool)
    return edge_pool


def first_life(stream_id: UUID, first: int, last: int, boot_id: UUID = BOOT) -> Message:
    return batch_message_of(msgspec.structs.replace(batch_of(stream_id, first, last), boot_id=boot_id))


def second_life(stream_id: UUID, first: int, last: int, boot_id: UUID = OTHER_BOOT) -> Message:
    """Other samples under the same numbers, captured a day later."""
    batch = batch_of(stream_id, first, last)
    return batch_message_of(_later(batch, boot_id))


def _later(batch: TelemetryBatch, boot_id: UUID) -> TelemetryBatch:
    times, values = [at + DAY_US for at in batch.t], [5000.0 + value for value in batch.v]
    return msgspec.structs.replace(batch, boot_id=boot_id, t=times, v=values)


async def ingest_one(pool: Pool, *messages: Message) -> Outcome:
    (outcome,) = await ingest(pool, messages, datetime.now(UTC))
    return outcome


def acks_of(outcome: Outcome) -> list[tuple[str, DeviceAck]]:
    pending = Pending()
    pending.note(outcome.epoch, outcome.marks, outcome.verdicts, outcome.contradicted, outcome.reported)
    return pending.take(datetime.now(UTC))


def status_of(stream_id: UUID | None, captured_seq: int = 0, former: list[UUID] | None = None) -> Message:
    status = DeviceStatus(
        state="online", stream_id=stream_id, last_captured_seq=captured_seq, former_streams=former or []
    )
    return status_message(status)


async def test_other_samples_under_stored_numbers_are_no_repetitions(pool: Pool) -> None:
    """promise-device-edge 2: 60 of 80 samples were answered as duplicates, and in no loss record."""
    stream = uuid4()
    await ingest_one(pool, first_life(stream, 1, 100))
    outcome = await ingest_one(pool, second_life(stream, 41, 120))
    assert (outcome.samples_stored, outcome.marks) == (0, []), "nothing of it: its end would leave a hole in the stream"
    assert [(verdict.result, verdict.code) for verdict in outcome.verdicts] == [("put_off", "stream_contradicted")]
    assert await pool.fetchval("SELECT count(*) FROM telemetry_raw") == 100
    rows = await pool.fetch("SELECT kind, status, evidence ->> 'code' AS code, tenant_id FROM ops_alerts")
    assert [tuple(row) for row in rows] == [("device_put_off", "open", "stream_contradicted", "demo")]
    repeated = await ingest_one(pool, first_life(stream, 41, 100, uuid4()))
    assert [mark.acked_seq for mark in repeated.marks] == [100], (
        "the same samples are repetitions, whatever they call their boot"
    )


async def test_the_device_is_told_what_is_stored_and_an_old_one_gets_silence(pool: Pool) -> None:
    stream = uuid4()
    await ingest_one(pool, first_life(stream, 1, 100))
    outcome = await ingest_one(pool, second_life(stream, 41, 60))
    messages = acks_of(outcome)
    (held,) = [one for _, ack in messages for one in ack.contradicted or ()]
    assert (held.stream_id, held.acked_seq, held.boots[0].boot_id) == (stream, 100, BOOT)
    for _, ack in messages:
        assert (ack.stream_id, ack.acked_seq, ack.received, ack.events) == (None, 0, [], []), (
            "all that 0.1.0 knows of it"
        )


async def test_when_retention_has_taken_the_samples_their_boot_speaks_for_them(pool: Pool) -> None:
    stream = uuid4()
    await ingest_one(pool, first_life(stream, 1, 100))
    await pool.execute("DELETE FROM telemetry_raw")
    outcome = await ingest_one(pool, second_life(stream, 41, 60))
    assert [verdict.code for verdict in outcome.verdicts] == ["stream_contradicted"]
    assert [mark.acked_seq for mark in (await ingest_one(pool, first_life(stream, 41, 60))).marks] == [100]


async def test_two_devices_with_one_identity_in_one_transaction_are_told_apart(pool: Pool) -> None:
    stream = uuid4()
    outcome = await ingest_one(pool, first_life(stream, 1, 10), second_life(stream, 6, 15), first_life(stream, 8, 12))
    assert (outcome.samples_stored, [verdict.code for verdict in outcome.verdicts]) == (12, ["stream_contradicted"])
    assert await pool.fetchval("SELECT count(*) FROM telemetry_raw WHERE metric_value > 5000") == 0


async def test_another_device_with_a_copied_spool_learns_nothing_of_the_stream(pool: Pool) -> None:
    """promise-device-edge 3."""
    await register(pool, NEIGHBOUR.device_id)
    stream = uuid4()
    await ingest_one(pool, first_life(stream, 1, 10))
    theirs = batch_message_of(_later(batch_of(stream, 1, 10), OTHER_BOOT), NEIGHBOUR)
    outcome = await ingest_one(pool, theirs)
    assert [verdict.code for verdict in outcome.verdicts] == ["stream_of_another_device"]
    assert (outcome.marks, outcome.contradicted) == ([], [])


async def test_an_acknowledgement_says_which_boots_are_stored(pool: Pool) -> None:
    stream, batch = uuid4(), batch_of(uuid4(), 1, 40)
    await ingest_one(pool, first_life(stream, 31, 40), first_life(stream, 1, 20))
    outcome = await ingest_one(pool, second_life(stream, 41, 50))
    (mark,) = outcome.marks
    assert [(one.boot_id, one.first_seq, one.last_seq) for one in mark.boots] == [(BOOT, 1, 40), (OTHER_BOOT, 41, 50)]
    assert mark.boots[0].last_t == batch.t[39]


# A status is answered


async def test_a_status_is_answered_with_the_epoch_and_how_far_each_stream_is(pool: Pool) -> None:
    """A node that sends nothing learns at once that its edge has lost what it had."""
    stream, former, other = uuid4(), uuid4(), uuid4()
    await register(pool, NEIGHBOUR.device_id)
    await ingest_one(pool, first_life(former, 1, 7), batch_message_of(batch_of(other, 1, 5), NEIGHBOUR))
    outcome = await ingest_one(pool, status_of(stream, 3, [former, other]))
    assert {(mark.stream_id, mark.acked_seq) for mark in outcome.marks} == {(stream, 0), (former, 7)}
    assert await pool.fetchval("SELECT count(*) FROM streams WHERE stream_id = $1", stream) == 0, "and opens no stream"


async def test_a_status_without_a_stream_is_answered_with_the_epoch_alone(pool: Pool) -> None:
    outcome = await ingest_one(pool, status_of(None))
    ((device_id, ack),) = acks_of(outcome)
    assert (device_id, ack.epoch, ack.stream_id, ack.events) == (HERE.device_id, outcome.epoch, None, [])
    retained = msgspec.structs.replace(status_of(None), is_retained=True)
    assert acks_of(await ingest_one(pool, retained)) == [], "what the broker kept was not sent now"


# A spool that is gone


async def gone(pool: Pool) -> list[tuple[UUID, int, int, str]]:
    rows = await pool.fetch("SELECT stream_id, first_seq, last_seq, reason FROM stream_losses ORDER BY first_seq")
    return [tuple(row) for row in rows]


async def test_what_a_spool_held_that_was_deleted_is_declared_once(pool: Pool) -> None:
    """promise-device-edge 12: nobody had a record of the unacknowledged samples of a deleted folder."""
    old, new = uuid4(), uuid4()
    await ingest_one(
        pool, status_of(old, 100), first_life(old, 1, 60), first_life(old, 71, 80), loss_message(old, 91, 95)
    )
    reported = await gone(pool)
    for _ in range(3):
        await ingest_one(pool, status_of(new, 4))
    assert [row for row in await gone(pool) if row not in reported] == [
        (old, 61, 70, "spool_gone"), (old, 81, 90, "spool_gone"), (old, 96, 100, "spool_gone"),
    ]  # fmt: skip
    assert await pool.fetchval("SELECT count(*) FROM sync_outbox WHERE event_type = 'telemetry.loss'") == 4
    outcome = await ingest_one(pool, first_life(old, 61, 70))
    assert outcome.samples_stored == 10, "what comes all the same is here"
    lost = await pool.fetchval("SELECT lost::text FROM streams WHERE stream_id = $1", old)
    assert lost == "{[81,101)}", "the samples that came are not lost any more"


async def test_a_stream_that_goes_on_beside_the_new_one_is_not_declared(pool: Pool) -> None:
    old, new = uuid4(), uuid4()
    await ingest_one(pool, status_of(old, 100), first_life(old, 1, 60))
    await ingest_one(pool, status_of(new, 4, [old]))
    assert await gone(pool) == []
    outcome = await ingest_one(pool, first_life(old, 61, 100))
    assert [mark.acked_seq for mark in outcome.marks] == [100]


async def test_a_status_that_was_late_declares_nothing_of_the_spool_that_is_there(pool: Pool) -> None:
    old, new = uuid4(), uuid4()
    await ingest_one(pool, status_of(old, 10), first_life(old, 1, 10))
    await ingest_one(pool, status_of(new, 0))
    await ingest_one(pool, status_of(new, 50), first_life(new, 1, 20))
    await ingest_one(pool, status_of(old, 10))
    assert await gone(pool) == []
    (outcome,) = await ingest(pool, [status_of(new, 50)], datetime.now(UTC) + timedelta(minutes=1))
    assert [mark.acked_seq for mark in outcome.marks] == [20]
    assert await gone(pool) == []
