"""What a tier says it has, and whether its rows bear it out, on both tiers' real tables."""

from datetime import timedelta
from uuid import UUID, uuid4

from farmiq.contracts.timestamps import from_us
from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Pool
from farmiq.timeseries.accounts import Accounts, Depth, accounts, tenants
from farmiq.timeseries.admission import admit_batches, admit_readings, declare_lost
from farmiq.timeseries.samples import SingleReading, StreamBatch
from farmiq.timeseries.stored_rows import StoredRows
from support.cloud_queries import cloud_api
from support.query_api import query_api
from support.stored_months import partition_of
from support.telemetry import ELSEWHERE, HERE, NOW, START_US, batch_of, loss_of

FIRST = from_us(START_US)
COUNTED = Depth(rows_max=1000)
EXACT = Depth(rows_max=1000, is_exact=True)


async def fill(pool: Pool) -> UUID:
    """A stream of a hundred with ten of them lost, three single readings, and another tenant's device."""
    stream = uuid4()
    batches = [StreamBatch(HERE, batch_of(stream, 1, 90)), StreamBatch(ELSEWHERE, batch_of(uuid4(), 1, 7))]
    single = [
        SingleReading(HERE, new_id(), FIRST + timedelta(seconds=number), "pressure", 1.0, "bar") for number in range(3)
    ]
    async with pool.acquire() as connection, connection.transaction():
        await admit_batches(connection, batches, NOW)
        await admit_readings(connection, single, NOW)
        await declare_lost(connection, HERE, new_id(), loss_of(stream, 91, 100))
    return stream


async def asked(pool: Pool, depth: Depth = COUNTED) -> Accounts:
    async with pool.acquire() as connection:
        return await accounts(
            connection,
            tenant_id="demo",
            device_ids=["node-1"],
            since=FIRST - timedelta(hours=1),
            until=FIRST + timedelta(days=1),
            depth=depth,
        )


async def rows_of(pool: Pool, depth: Depth = COUNTED) -> StoredRows:
    (device,) = (await asked(pool, depth)).devices
    (stream,) = device.streams
    assert stream.rows is not None
    return stream.rows


async def test_coverage_aggregates_rows_and_hours_of_a_device_agree(any_pool: Pool) -> None:
    stream = await fill(any_pool)
    (device,) = (await asked(any_pool)).devices
    assert (device.samples, device.samples_in_months, device.single_rows) == (93, 93, 3)
    (one,) = device.streams
    assert (one.stream_id, one.received, one.lost) == (stream, [(1, 91)], [(91, 101)])
    assert one.rows == StoredRows(90, [], [], 0)
    assert sum(hour.stored for hour in device.hours) == 93


async def test_rows_are_counted_only_as_far_as_was_asked_for(any_pool: Pool) -> None:
    await fill(any_pool)
    (device,) = (await asked(any_pool, Depth(rows_max=92))).devices
    assert device.single_rows is None
    assert device.streams[0].rows is None
    assert device.samples == 93


async def test_a_row_deleted_behind_the_back_is_named(any_pool: Pool) -> None:
    await fill(any_pool)
    await any_pool.execute("DELETE FROM telemetry_raw WHERE seq BETWEEN 11 AND 13")
    assert await rows_of(any_pool) == StoredRows(87, [(11, 14)], [], 0)


async def test_a_row_inserted_a_second_time_is_counted(any_pool: Pool) -> None:
    await fill(any_pool)
    await any_pool.execute(
        """INSERT INTO telemetry_raw (id, tenant_id, farm_id, barn_id, device_id, occurred_at, metric_type, metric_value,
                                      stream_id, seq)
           SELECT gen_random_uuid(), tenant_id, farm_id, barn_id, device_id, occurred_at, metric_type, metric_value,
                  stream_id, seq
             FROM telemetry_raw WHERE tenant_id = 'demo' AND seq = 20"""
    )
    assert await rows_of(any_pool) == StoredRows(91, [], [], 1)


async def test_a_row_that_is_not_covered_is_named(any_pool: Pool) -> None:
    await fill(any_pool)
    await any_pool.execute("UPDATE telemetry_raw SET seq = 500 WHERE tenant_id = 'demo' AND seq = 20")
    assert await rows_of(any_pool) == StoredRows(90, [(20, 21)], [(500, 501)], 0)


async def test_changes_that_cancel_out_are_found_when_every_sequence_is_looked_at(any_pool: Pool) -> None:
    """20 and 40 have become two more of 30: count and sum are as before."""
    await fill(any_pool)
    await any_pool.execute("UPDATE telemetry_raw SET seq = 30 WHERE tenant_id = 'demo' AND seq IN (20, 40)")
    assert await rows_of(any_pool) == StoredRows(90, [], [], 0)
    assert await rows_of(any_pool, EXACT) == StoredRows(90, [(20, 21), (40, 41)], [], 2)


async def test_a_stream_that_has_lost_all_of_its_rows_is_found(any_pool: Pool) -> None:
    await fill(any_pool)
    await any_pool.execute("DELETE FROM telemetry_raw WHERE stream_id IS NOT NULL")
    assert await rows_of(any_pool) == StoredRows(0, [(1, 91)], [], 0)


async def test_samples_of_months_that_were_dropped_are_told_apart(edge_pool: Pool) -> None:
    await fill(edge_pool)
    month = FIRST.date().replace(day=1)
    await edge_pool.execute(f"DROP TABLE {partition_of(month)}")
    (device,) = (await asked(edge_pool)).devices
    assert (device.samples, device.samples_in_months, device.single_rows) == (93, 0, 0)
    assert device.streams[0].rows == StoredRows(0, [(1, 91)], [], 0)


async def test_both_tiers_answer_page_by_page_and_only_for_the_tenant(
    edge_url: str, edge_pool: Pool, cloud_url: str, cloud_pool: Pool
) -> None:
    await fill(edge_pool)
    await fill(cloud_pool)
    window = {
        "from": f"{FIRST - timedelta(hours=1):%Y-%m-%dT%H:00:00Z}",
        "to": f"{FIRST + timedelta(days=1):%Y-%m-%dT%H:00:00Z}",
    }
    async with query_api(edge_url) as edge, cloud_api(cloud_url) as cloud:
        for api in (edge, cloud):
            pages = await api.pages("/api/v1/accounts", tenant_id="demo", rows_max=1000, limit=1, **window)
            devices = [device for page in pages for device in page["devices"]]
            assert [device["device_id"] for device in devices] == ["node-1"]
            assert devices[0]["streams"][0]["received"] == [[1, 91]]
            assert devices[0]["streams"][0]["rows"] == {"rows": 90, "absent": [], "surplus": [], "repeated": 0}
            assert devices[0]["single_since"] == 0
            for since, late in ((FIRST + timedelta(seconds=1), 2), (FIRST + timedelta(days=2), 0)):
                asked_at = window | {"singles_since": since.isoformat()}
                (known,) = (await api.get("/api/v1/accounts", tenant_id="demo", **asked_at))["devices"]
                assert known["single_since"] == late
            nowhere = window | {"singles_since": "2026-11-01T00:00:00"}
            assert (await api.ask("/api/v1/accounts", tenant_id="demo", **nowhere))[0] == 400
            assert (await api.get("/api/v1/tenants")) == {"tenants": ["demo", "other"]}
            named = await api.get("/api/v1/accounts", tenant_id="other", device_ids=["node-1"], **window)
            assert [(device["device_id"], device["samples"]) for device in named["devices"]] == [("node-1", 0)]
            assert (await api.ask("/api/v1/accounts", tenant_id="demo", **{"from": "2026-01-01T00:00:00Z"}))[0] == 400
            assert (await api.ask("/api/v1/tenants", token="wrong"))[0] == 401


async def test_every_tenant_is_found_also_one_with_single_readings_only(any_pool: Pool) -> None:
    async with any_pool.acquire() as connection, connection.transaction():
        assert await tenants(connection) == []
        await admit_readings(connection, [SingleReading(ELSEWHERE, new_id(), FIRST, "pressure", 1.0, "bar")], NOW)
        assert await tenants(connection) == ["other"]
