"""Nothing that a device stores stands in the way of another one's samples: ids, keys and streams of measurements."""

from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from farmiq.contracts.timestamps import from_us
from farmiq.kit.errors import EventIdReused
from farmiq.kit.ids import sample_id
from farmiq.kit.postgres import Pool
from farmiq.timeseries.admission import Admission, admit_batches, admit_readings
from farmiq.timeseries.samples import SingleReading, StreamBatch
from farmiq.timeseries.stream import Origin
from support.telemetry import NEIGHBOUR, batch_of

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HERE = Origin("demo", "farm-1", "barn-1", "node-1")
STRANGER = Origin("tenant-1", "farm-1", "barn-1", "mal-b")
LOW_64 = (1 << 64) - 1
NEIGHBOURS = 3347
# As docs/decisions/0015 has it.
ID = """
    SELECT (substr(hash, 1, 12) || '8' || substr(hash, 14, 3) || '8' || substr(hash, 18, 11) ||
            lpad(to_hex($3::bigint & 65535), 4, '0'))::uuid
      FROM (SELECT encode(sha256(convert_to($1::text || '/' || $2::uuid || '/' || ($3::bigint >> 16), 'UTF8')), 'hex') AS hash)
           AS hashed
"""


async def admit(pool: Pool, *batches: StreamBatch) -> list[Admission]:
    async with pool.acquire() as connection, connection.transaction():
        return await admit_batches(connection, batches, NOW)


async def read_in(pool: Pool, *readings: SingleReading) -> int:
    async with pool.acquire() as connection, connection.transaction():
        return len(await admit_readings(connection, readings, NOW))


@pytest.mark.parametrize("seq", [1, 65535, 65536, 2**40 + 7])
async def test_sql_computes_the_id_of_a_sample(any_pool: Pool, seq: int) -> None:
    stream = uuid4()
    assert await any_pool.fetchval(ID, "demo", stream, seq) == sample_id("demo", stream, seq)


@pytest.mark.parametrize("origin", [STRANGER, NEIGHBOUR])
async def test_thousands_of_tiny_batches_on_neighbouring_streams_do_not_hold_up_a_batch(
    any_pool: Pool, origin: Origin
) -> None:
    """Row ids of 0.1.0 were sums of stream and sequence, so that these had the id of the sample that was to come."""
    stream, seq = uuid4(), NEIGHBOURS + 10
    tiny = []
    for distance in range(1, NEIGHBOURS + 1):
        low = (stream.int + distance) & LOW_64
        near = UUID(int=stream.int & ~LOW_64 | low)
        one = batch_of(near, seq - distance, seq - distance)
        one.t[0] = batch_of(stream, seq, seq).t[0]
        tiny.append(StreamBatch(origin, one))
    await admit(any_pool, *tiny)
    assert await admit(any_pool, StreamBatch(HERE, batch_of(stream, seq, seq))) == [Admission([(seq, seq + 1)])]


async def test_single_readings_with_the_ids_of_coming_samples_do_not_hold_them_up(any_pool: Pool) -> None:
    stream = uuid4()
    forged = [
        SingleReading(
            NEIGHBOUR,
            sample_id("demo", stream, seq),
            from_us(batch_of(stream, seq, seq).t[0]),
            "temperature",
            -273.0,
            "C",
        )
        for seq in range(1, 51)
    ]
    assert await read_in(any_pool, *forged) == 50
    assert await read_in(any_pool, *forged) == 0, "recognised when they come again"
    assert await admit(any_pool, StreamBatch(HERE, batch_of(stream, 1, 50))) == [Admission([(1, 51)])]
    assert await any_pool.fetchval("SELECT count(*) FROM telemetry_raw") == 100


async def test_a_stream_id_that_another_tenant_took_first_is_free_for_its_owner(any_pool: Pool) -> None:
    stream = uuid4()
    batches = [StreamBatch(STRANGER, batch_of(stream, 1, 9)), StreamBatch(HERE, batch_of(stream, 1, 5))]
    assert await admit(any_pool, *batches) == [Admission([(1, 10)]), Admission([(1, 6)])]
    rows = await any_pool.fetch("SELECT tenant_id, received::text FROM streams ORDER BY tenant_id")
    assert [tuple(row) for row in rows] == [("demo", "{[1,6)}"), ("tenant-1", "{[1,10)}")]


async def test_tenants_may_use_the_same_event_id(any_pool: Pool) -> None:
    event_id = uuid4()
    readings = [SingleReading(origin, event_id, NOW, "co2", 1.0, "ppm") for origin in (HERE, STRANGER)]
    assert await read_in(any_pool, *readings) == 2


@pytest.mark.parametrize(
    ("origin", "metric", "value", "unit"),
    [
        (NEIGHBOUR, "co2", 1.0, "ppm"),
        (HERE, "nh3", 1.0, "ppm"),
        (HERE, "co2", 1.5, "ppm"),
        (HERE, "co2", 1.0, ""),
    ],
)
async def test_an_event_id_with_other_content_is_refused_and_never_dropped(
    any_pool: Pool, origin: Origin, metric: str, value: float, unit: str
) -> None:
    first = SingleReading(HERE, uuid4(), NOW, "co2", 1.0, "ppm")
    assert await read_in(any_pool, first, first) == 1
    assert await read_in(any_pool, first) == 0
    with pytest.raises(EventIdReused, match=str(first.event_id)):
        await read_in(any_pool, SingleReading(origin, first.event_id, NOW, metric, value, unit))
