"""A device whose clock is not right is responded with the edge's time, and nobody else is."""

from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import uuid4

import msgspec
import pytest_asyncio
from msgspec import UNSET

from farmiq.contracts.ack import DeviceAck
from farmiq.contracts.status import DeviceStatus
from farmiq.contracts.telemetry import TimeSegment
from farmiq.edge.ingress_gateway.acknowledgements import Pending
from farmiq.edge.ingress_gateway.handlers import ingest
from farmiq.kit.mqtt import Message
from farmiq.kit.postgres import Pool
from support.gateway import register
from support.telemetry import HERE, NEIGHBOUR, NOW, START_US, batch_message_of, batch_of, status_message

LATER = NOW + timedelta(milliseconds=90)


@pytest_asyncio.fixture
async def pool(edge_pool: Pool) -> AsyncIterator[Pool]:
    await register(edge_pool)
    yield edge_pool


async def responses(pool: Pool, *messages: Message, quality: int = 2) -> list[tuple[str, DeviceAck]]:
    pending = Pending()
    for outcome in await ingest(pool, messages, NOW):
        pending.note(outcome.epoch, outcome.marks, outcome.verdicts)
        pending.note_time_requests(outcome.time_requests)
    return pending.take(LATER, quality)


async def test_a_status_that_asks_for_the_time_is_responded_with_both_moments_and_the_clocks_quality(
    pool: Pool,
) -> None:
    event_id = uuid4()
    asking = status_message(DeviceStatus(state="online", time_request=True), HERE, event_id)
    ((device_id, ack),) = await responses(pool, asking, quality=1)
    assert device_id == HERE.device_id
    assert ack.time is not UNSET
    assert (ack.time.event_id, ack.time.received_at, ack.ts, ack.time.quality) == (event_id, NOW, LATER, 1)
    # The same one again was not sent just now.
    assert await responses(pool, asking) == []


async def test_a_corrected_batch_that_comes_again_is_a_repetition_whatever_its_correction(pool: Pool) -> None:
    """Rows hold the corrected time as well: what is compared with them is the time on the device's clock."""
    stream_id = uuid4()
    boot_id = uuid4()
    for last, segments in (
        (10, [TimeSegment(1, 0, START_US, 100)]),
        (15, [TimeSegment(1, 0, START_US + 9, 0)]),
        (20, UNSET),
    ):
        batch = msgspec.structs.replace(batch_of(stream_id, 1, last), boot_id=boot_id, time_quality=0)
        unset = msgspec.structs.replace(batch, t=[at - START_US for at in batch.t], time_correction=segments)
        (outcome,) = await ingest(pool, [batch_message_of(unset)], NOW)
        assert [(mark.acked_seq, mark.above) for mark in outcome.marks] == [(last, [])]
        assert outcome.refusals == []
    corrected = await pool.fetchval("SELECT count(*) FROM telemetry_raw WHERE device_occurred_at IS NOT NULL")
    assert corrected == 15


async def test_who_does_not_ask_gets_no_response(pool: Pool) -> None:
    assert await responses(pool, status_message(DeviceStatus(state="online"))) == []


async def test_a_device_that_is_not_registered_gets_no_time(pool: Pool) -> None:
    asking = status_message(DeviceStatus(state="online", time_request=True), NEIGHBOUR)
    assert [ack.time for _, ack in await responses(pool, asking)] in ([], [UNSET])


async def test_a_status_that_the_broker_kept_gets_no_response(pool: Pool) -> None:
    message = status_message(DeviceStatus(state="online", time_request=True))
    assert await responses(pool, msgspec.structs.replace(message, is_retained=True)) == []
