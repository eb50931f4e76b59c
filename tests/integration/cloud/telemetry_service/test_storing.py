import random
from uuid import uuid4

from farmiq.contracts import event_types
from farmiq.contracts.telemetry import TelemetryIngested, pack_of
from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Pool
from support.cloud_storing import delivery, store, store_all
from support.telemetry import ELSEWHERE, HERE, NEIGHBOUR, batch_of, bus_body, loss_of


async def tables(pool: Pool) -> tuple[object, ...]:
    """Everything that must not depend on order or repetition."""
    rows = await pool.fetch(
        "SELECT id, tenant_id, device_id, metric_type, metric_value, seq FROM telemetry_raw ORDER BY id"
    )
    aggregates = await pool.fetch(
        'SELECT device_id, metric_type, "window", bucket_start_at, count, sum_value, min_value, max_value FROM telemetry_agg'
        " ORDER BY 1, 2, 3, 4"
    )
    streams = await pool.fetch("SELECT stream_id, received, lost FROM streams ORDER BY 1")
    losses = await pool.fetch("SELECT event_id FROM stream_losses ORDER BY 1")
    return tuple(tuple(map(tuple, table)) for table in (rows, aggregates, streams, losses))


async def test_each_event_twice_and_in_any_order_gives_the_same_tables(cloud_pool: Pool) -> None:
    stream = uuid4()
    batch = batch_of(stream, 1, 60)
    reading = TelemetryIngested(metric_type="temperature", metric_value=26.0, unit="C")
    bodies = [
        *(
            bus_body(event_types.TELEMETRY_BATCH_INGESTED, pack_of(batch, first, first + 9))
            for first in (1, 11, 31, 41, 51)
        ),
        bus_body(event_types.TELEMETRY_LOSS, loss_of(stream, 21, 30)),
        bus_body(event_types.TELEMETRY_INGESTED, reading),
        bus_body(event_types.TELEMETRY_INGESTED, reading, ELSEWHERE),
    ]
    expected = None
    for seed in range(4):
        await cloud_pool.execute("TRUNCATE telemetry_raw, telemetry_agg, streams, stream_content, stream_losses")
        shuffled = random.Random(seed).sample(bodies * 2, len(bodies) * 2)
        for at in range(0, len(shuffled), 3):
            await store_all(cloud_pool, *(delivery(body) for body in shuffled[at : at + 3]))
        found = await tables(cloud_pool)
        expected = expected or found
        assert found == expected
    assert await cloud_pool.fetchval("SELECT count(*) FROM telemetry_raw") == 52


async def test_poison_is_told_apart_from_its_neighbours(cloud_pool: Pool) -> None:
    stream, taken = uuid4(), new_id()
    reading = TelemetryIngested(metric_type="temperature", metric_value=26.0, unit="C")
    other = TelemetryIngested(metric_type="temperature", metric_value=27.0, unit="C")
    good = [
        delivery(bus_body(event_types.TELEMETRY_BATCH_INGESTED, pack_of(batch_of(stream, 1, 5), 1, 5))),
        delivery(bus_body(event_types.TELEMETRY_INGESTED, reading, event_id=taken)),
    ]
    bad = {
        "not_json": delivery(b"{"),
        "schema": delivery(bus_body(event_types.TELEMETRY_INGESTED, reading).replace(b'"barn-1"', b"null")),
        "stream_of_another_device": delivery(
            bus_body(event_types.TELEMETRY_BATCH_INGESTED, pack_of(batch_of(stream, 6, 9), 6, 9), NEIGHBOUR)
        ),
        "event_id_reused": delivery(bus_body(event_types.TELEMETRY_INGESTED, other, event_id=taken)),
    }
    good += [delivery(bus_body(event_types.TELEMETRY_INGESTED, other, ELSEWHERE, event_id=taken))]
    failures = await store(cloud_pool, *good, *bad.values())
    assert {one.code: id(one.delivery) for one in failures} == {code: id(one) for code, one in bad.items()}
    assert not any(one.may_pass for one in failures)
    assert await cloud_pool.fetchval("SELECT count(*) FROM telemetry_raw WHERE tenant_id = $1", HERE.tenant_id) == 6
