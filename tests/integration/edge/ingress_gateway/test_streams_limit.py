"""A device that opens streams without end: those beyond the limit wait on the device, and nothing of them is kept."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID, uuid4

import pytest_asyncio

from farmiq.edge.ingress_gateway.handlers import Outcome, ingest
from farmiq.edge.telemetry_timeseries.intake import RAW
from farmiq.kit.ids import new_id
from farmiq.kit.mqtt import Message
from farmiq.kit.postgres import Pool
from farmiq.timeseries.stream import StreamLimit
from support.gateway import assert_all_agree, register
from support.telemetry import HERE, NEIGHBOUR, NOW, batch_message, loss_message

THREE_EACH = StreamLimit(of_device=3, of_tenant=5, window=timedelta(days=30))


@pytest_asyncio.fixture
async def pool(edge_pool: Pool) -> AsyncIterator[Pool]:
    await register(edge_pool, HERE.device_id, NEIGHBOUR.device_id)
    yield edge_pool


async def ingest_within(pool: Pool, *messages: Message, limit: StreamLimit = THREE_EACH) -> Outcome:
    (outcome,) = await ingest(pool, messages, NOW, RAW, limit)
    return outcome


async def opened(pool: Pool, device_id: str = "node-1") -> int:
    return int(await pool.fetchval("SELECT count(*) FROM streams WHERE device_id = $1", device_id))


async def test_streams_beyond_the_limit_are_put_off_and_the_others_are_stored(pool: Pool) -> None:
    messages = {stream: batch_message(stream, 1, 5) for stream in (uuid4() for _ in range(5))}
    neighbour = uuid4()
    outcome = await ingest_within(pool, *messages.values(), batch_message(neighbour, 1, 5, NEIGHBOUR))
    assert (await opened(pool), await opened(pool, "node-2")) == (3, 1)
    (put_off,) = outcome.put_off
    assert (put_off.sender, put_off.messages, put_off.reason) == (("demo", "node-1"), 2, "streams")
    assert put_off.retry_after_seconds > 0
    assert (len(outcome.marks), outcome.samples_stored, outcome.refusals) == (4, 20, [])
    assert await pool.fetchval("SELECT count(*) FROM ingress_rejected") == 0
    await assert_all_agree(pool)
    # Known streams go on, beside one that has no room.
    known = outcome.marks[0].stream_id
    device = {mark.stream_id: mark.device_id for mark in outcome.marks}[known]
    origin = HERE if device == "node-1" else NEIGHBOUR
    outcome = await ingest_within(pool, batch_message(known, 6, 9, origin), batch_message(uuid4(), 1, 5))
    assert [(mark.stream_id, mark.acked_seq) for mark in outcome.marks] == [(known, 9)]


async def test_what_was_put_off_is_stored_when_there_is_room_again(pool: Pool) -> None:
    await ingest_within(pool, *(batch_message(uuid4(), 1, 2) for _ in range(3)))
    late, event_id = uuid4(), new_id()
    message = batch_message(late, 1, 5, event_id=event_id)
    assert (await ingest_within(pool, message)).samples_stored == 0
    assert await pool.fetchval("SELECT count(*) FROM ingress_dedupe WHERE event_id = $1", event_id) == 0
    await pool.execute("UPDATE streams SET first_seen_at = now() - interval '31 days'")
    outcome = await ingest_within(pool, message)
    assert [(mark.stream_id, mark.acked_seq) for mark in outcome.marks] == [(late, 5)]
    await assert_all_agree(pool)


async def test_losses_of_a_stream_that_has_no_room_wait_with_it(pool: Pool) -> None:
    await ingest_within(pool, *(batch_message(uuid4(), 1, 2) for _ in range(3)))
    outcome = await ingest_within(pool, loss_message(uuid4(), 1, 5))
    assert (outcome.verdicts, [one.messages for one in outcome.put_off]) == ([], [1])
    assert await pool.fetchval("SELECT count(*) FROM stream_losses") == 0


async def test_a_tenants_devices_share_a_limit(pool: Pool) -> None:
    await ingest_within(pool, *(batch_message(uuid4(), 1, 2) for _ in range(3)))
    outcome = await ingest_within(pool, *(batch_message(uuid4(), 1, 2, NEIGHBOUR) for _ in range(3)))
    assert await opened(pool, "node-2") == 2
    assert [one.sender for one in outcome.put_off] == [("demo", "node-2")]


async def test_two_replicas_at_once_open_no_more_than_one_would(pool: Pool) -> None:
    async def open_one(_: int) -> Outcome:
        return await ingest_within(pool, batch_message(uuid4(), 1, 2))

    outcomes = await asyncio.gather(*map(open_one, range(8)))
    assert await opened(pool) == 3
    stored: list[UUID] = [mark.stream_id for outcome in outcomes for mark in outcome.marks]
    assert len(stored) == 3
    await assert_all_agree(pool)
