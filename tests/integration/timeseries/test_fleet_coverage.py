"""Coverage for a page of many devices: several at once, days instead of hours, and each device in one line."""

from datetime import timedelta
from uuid import UUID, uuid4

from farmiq.contracts.telemetry import pack_of
from farmiq.contracts.timestamps import from_us
from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Pool
from farmiq.timeseries.admission import admit_batches, declare_lost
from farmiq.timeseries.device_totals import DeviceTotals, device_totals
from farmiq.timeseries.samples import StreamBatch
from farmiq.timeseries.stream import Origin
from support.cloud_queries import cloud_api
from support.query_api import query_api
from support.telemetry import ELSEWHERE, HERE, NOW, START_US, batch_of, loss_of

FIRST = from_us(START_US)
THERE = {
    "tenant_id": "demo",
    "from": f"{FIRST:%Y-%m-%dT00:00:00Z}",
    "to": f"{FIRST + timedelta(days=3):%Y-%m-%dT00:00:00Z}",
}


def node(number: int) -> Origin:
    return Origin("demo", "farm-1", "barn-1", f"node-{number}")


async def fill(pool: Pool) -> None:
    """node-1 has two streams, the first of them with a gap; node-2 has lost its beginning; node-3 is complete."""
    streams: list[tuple[Origin, UUID, int, int]] = [
        (HERE, uuid4(), 1, 100), (HERE, uuid4(), 1, 50), (node(3), uuid4(), 1, 30), (ELSEWHERE, uuid4(), 1, 9),
    ]  # fmt: skip
    batches = [StreamBatch(origin, batch_of(stream, first, last)) for origin, stream, first, last in streams]
    batches.append(StreamBatch(HERE, pack_of(batch_of(streams[0][1], 1, 200), 151, 200)))
    second = uuid4()
    batches.append(StreamBatch(node(2), pack_of(batch_of(second, 1, 20), 11, 20)))
    async with pool.acquire() as connection, connection.transaction():
        await admit_batches(connection, batches, NOW)
        await declare_lost(connection, node(2), new_id(), loss_of(second, 1, 10))


async def test_each_device_is_one_line_over_all_of_its_streams(any_pool: Pool) -> None:
    await fill(any_pool)
    async with any_pool.acquire() as connection:
        found = await device_totals(connection, tenant_id="demo", limit=10)
        second = await device_totals(connection, tenant_id="demo", after="node-1", limit=1)
    assert found == [
        DeviceTotals("node-1", 200, 0, 50), DeviceTotals("node-2", 10, 10, 0), DeviceTotals("node-3", 30, 0, 0),
    ]  # fmt: skip
    assert second == found[1:2]


async def test_the_lines_come_page_by_page_at_both_tiers(
    edge_url: str, edge_pool: Pool, cloud_url: str, cloud_pool: Pool
) -> None:
    await fill(edge_pool)
    await fill(cloud_pool)
    async with query_api(edge_url) as edge, cloud_api(cloud_url) as cloud:
        for api in (edge, cloud):
            pages = await api.pages("/api/v1/coverage/devices", tenant_id="demo", limit=2)
            names = [row["device_id"] for page in pages for row in page["devices"]]
            assert names == ["node-1", "node-2", "node-3"]


async def test_several_devices_are_asked_for_at_once_and_no_others_answer(edge_url: str, edge_pool: Pool) -> None:
    await fill(edge_pool)
    async with query_api(edge_url) as api:
        some = {"device_ids": ["node-1", "node-3", "node-9"]}
        found = await api.get("/api/v1/coverage", **THERE, **some)
        streams = await api.get("/api/v1/streams", tenant_id="demo", **some)
        wrong = [
            await api.ask(path, **THERE, device_ids=names)
            for path in ("/api/v1/coverage", "/api/v1/streams")
            for names in (["a b"], [f"n{number}" for number in range(101)])
        ]
    assert {row["device_id"] for row in found["hours"]} == {"node-1", "node-3"}
    assert [row["device_id"] for row in streams["streams"]] == ["node-1", "node-1", "node-3"]
    assert (found["next"], streams["next"]) == (None, None)
    assert [status for status, _ in wrong] == [400] * 4


async def test_days_add_up_to_what_their_hours_do(edge_url: str, edge_pool: Pool) -> None:
    await fill(edge_pool)
    async with query_api(edge_url) as api:
        hours = await api.get("/api/v1/coverage", **THERE)
        days = await api.get("/api/v1/coverage", **THERE, window="1d")
        year = THERE | {"to": f"{FIRST + timedelta(days=360):%Y-%m-%dT00:00:00Z}"}
        assert (await api.ask("/api/v1/coverage", **year, window="1d"))[0] == 200
        assert (await api.ask("/api/v1/coverage", **year))[0] == 400
    for field in ("stored", "lost", "missing"):
        assert sum(row[field] for row in hours["hours"]) == sum(row[field] for row in days["hours"])
    assert len({(row["device_id"], row["hour_at"][:10]) for row in days["hours"]}) == len(days["hours"])
    assert all(row["hour_at"].endswith("T00:00:00Z") for row in days["hours"])
