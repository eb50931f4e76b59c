"""Numbers that PostgreSQL and the cloud have trouble with: no sample is refused because of them, and what was acknowledged can be
sent. Findings 8 and 9 of the reading of the path from device to edge."""

from collections.abc import AsyncIterator
from typing import Final
from uuid import uuid4

import msgspec
import pytest
import pytest_asyncio

from farmiq.contracts.limits import BUS_MESSAGE_BYTES_MAX
from farmiq.edge.ingress_gateway.handlers import Outcome, ingest
from farmiq.edge.telemetry_timeseries.intake import PACK_BYTES_MAX, pack_spans
from farmiq.kit.mqtt import Message
from farmiq.kit.postgres import Pool
from support.gateway import assert_exactly_once, register
from support.telemetry import NOW, batch_message, batch_of, raw_message

SMALLEST: Final = 5e-324
LARGEST: Final = 1.7976931348623157e308
TINY: Final = 2.0**-1000
HUGE: Final = 2.0**723


@pytest_asyncio.fixture
async def pool(edge_pool: Pool) -> AsyncIterator[Pool]:
    await register(edge_pool)
    yield edge_pool


def with_values(message: Message, values: list[float]) -> Message:
    body = msgspec.json.decode(message.payload)
    body["payload"]["v"] = values
    return raw_message(message.topic, msgspec.json.encode(body))


async def stored(pool: Pool, message: Message) -> Outcome:
    (outcome,) = await ingest(pool, [message], NOW)
    assert outcome.refusals == []
    return outcome


@pytest.mark.parametrize(
    "odd",
    [SMALLEST, -SMALLEST, 1e-300, LARGEST, -LARGEST],
    ids=["smallest", "smallest below zero", "tiny", "largest", "lowest"],
)
async def test_one_odd_value_stops_no_batch_of_its_day(pool: Pool, odd: float) -> None:
    stream = uuid4()
    for first, values in ((1, [odd]), (2, [7.0, 8.0]), (4, [odd, odd]), (6, [-odd, 9.0])):
        outcome = await stored(pool, with_values(batch_message(stream, first, first + len(values) - 1), values))
        assert outcome.samples_stored == len(values)
    kept = await pool.fetch("SELECT metric_value FROM telemetry_raw ORDER BY seq")
    assert [row[0] for row in kept] == [odd, 7.0, 8.0, odd, odd, -odd, 9.0], "a sample is what the device said"
    assert await pool.fetchval("""SELECT sum(count) FROM telemetry_agg WHERE "window" = '1d'""") == 7


async def test_an_aggregate_that_0_1_0_left_too_small_to_halve_takes_more(pool: Pool) -> None:
    stream = uuid4()
    await stored(pool, batch_message(stream, 1, 1))
    await pool.execute("UPDATE telemetry_agg SET sum_value = $1, min_value = $1, max_value = $1", SMALLEST)
    assert (await stored(pool, batch_message(stream, 2, 3))).samples_stored == 2


@pytest.mark.parametrize(
    ("count", "value"), [(500, TINY), (1600, TINY), (5000, HUGE), (5000, 20.5)], ids=["tiny", "many", "huge", "usual"]
)
async def test_what_was_acknowledged_fits_the_cloud_however_long_its_numbers_are(
    pool: Pool, count: int, value: float
) -> None:
    stream = uuid4()
    outcome = await stored(pool, with_values(batch_message(stream, 1, count), [value] * count))
    assert [mark.acked_seq for mark in outcome.marks] == [count]
    sizes = [row[0] for row in await pool.fetch("SELECT octet_length(payload_json::text) FROM sync_outbox")]
    assert max(sizes) <= PACK_BYTES_MAX < BUS_MESSAGE_BYTES_MAX * 0.9
    assert len(sizes) <= 1 + sum(sizes) // (PACK_BYTES_MAX // 2), "not more of them than it takes"
    await assert_exactly_once(pool, stream, count)


def test_a_usual_batch_is_one_pack_and_the_parts_of_a_long_one_are_the_same_each_time() -> None:
    usual = batch_of(uuid4(), 11, 510)
    assert pack_spans(usual, (11, 511)) == [(11, 511)]
    long = msgspec.structs.replace(batch_of(uuid4(), 1, 3000), v=[1e-300] * 3000)
    spans = pack_spans(long, (5, 3001))
    assert spans[0][0] == 5
    assert spans[-1][1] == 3001
    assert [end for _, end in spans[:-1]] == [first for first, _ in spans[1:]]
    assert spans == pack_spans(long, (5, 3001))
