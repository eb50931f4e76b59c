"""Is anything missing, and when: hour by hour, at both tiers, and for a barn as a whole."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

from farmiq.cloud.telemetry_service.intake import Completeness, completeness_of_barn
from farmiq.contracts.telemetry import TelemetryLoss, pack_of
from farmiq.contracts.timestamps import from_us
from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Pool
from farmiq.timeseries import hours
from farmiq.timeseries.admission import admit_batches, admit_readings, declare_lost
from farmiq.timeseries.samples import SingleReading, StreamBatch
from farmiq.timeseries.stream import Origin
from support.cloud_queries import cloud_api
from support.query_api import query_api
from support.telemetry import ELSEWHERE, HERE, NOW, START_US, batch_of

HOUR_US = 3_600_000_000
FIRST_HOUR = from_us(START_US - START_US % HOUR_US)
UNTIL = FIRST_HOUR + timedelta(hours=6)
STREAM = uuid4()
BARN_2 = Origin("demo", "farm-1", "barn-2", "node-2")


def at(seq: int) -> Any:
    return from_us(START_US + seq * 1_000_000)


async def fill(pool: Pool) -> None:
    """Two hours at one sample a second: 1001..2000 are missing, 3001..4000 declared lost, and 3501..3600 turned up after all."""
    batch = batch_of(STREAM, 1, 5000)
    async with pool.acquire() as connection, connection.transaction():
        runs = [
            StreamBatch(HERE, pack_of(batch, first, last)) for first, last in ((1, 1000), (2001, 3000), (4001, 5000))
        ]
        await admit_batches(connection, runs, NOW)
        loss = TelemetryLoss(
            stream_id=STREAM, first_seq=3001, last_seq=4000, count=1000, reason="spool_cap", dropped_at=NOW,
            first_ts=at(3001), last_ts=at(4000),
        )  # fmt: skip
        await declare_lost(connection, HERE, new_id(), loss)
        await declare_lost(connection, HERE, new_id(), loss)
        await admit_batches(connection, [StreamBatch(HERE, pack_of(batch, 3501, 3600))], NOW)
        await admit_readings(connection, [SingleReading(BARN_2, new_id(), at(1), "co2", 1.0, "ppm")], NOW)
        await admit_batches(connection, [StreamBatch(ELSEWHERE, batch_of(uuid4(), 1, 9))], NOW)


async def told(pool: Pool, **question: Any) -> hours.Hours:
    async with pool.acquire() as connection:
        device_ids = await hours.devices(connection, tenant_id="demo", limit=10)
        assert device_ids == ["node-1", "node-2"]
        return await hours.hours(
            connection, tenant_id="demo", device_ids=device_ids, since=FIRST_HOUR, until=UNTIL, **question
        )


async def test_every_hour_adds_up_to_what_was_measured_in_it(any_pool: Pool) -> None:
    await fill(any_pool)
    found = await told(any_pool)
    node = [row for row in found.hours if row.device_id == "node-1"]
    assert sum(row.stored for row in node) == 3100
    assert sum(row.lost for row in node) == 900
    assert sum(row.missing for row in node) == 1000
    assert found.undated == []
    for row in node:
        measured = sum(row.hour_at <= at(seq) < row.hour_at + timedelta(hours=1) for seq in range(1, 5001))
        assert abs(row.stored + row.lost + row.missing - measured) <= 60, row
    assert [(row.stored, row.lost, row.missing) for row in found.hours if row.device_id == "node-2"] == [(1, 0, 0)]


async def test_what_has_no_neighbour_with_a_time_is_undated(any_pool: Pool) -> None:
    await fill(any_pool)
    await any_pool.execute("TRUNCATE telemetry_raw")
    found = await told(any_pool)
    assert [(one.device_id, one.missing) for one in found.undated] == [("node-1", 1000)]
    assert sum(row.missing for row in found.hours) == 0


async def test_a_barn_is_as_complete_as_its_devices(cloud_pool: Pool) -> None:
    await fill(cloud_pool)
    async with cloud_pool.acquire() as connection:
        one = await completeness_of_barn(connection, "demo", ("farm-1", "barn-1"), FIRST_HOUR, UNTIL)
        other = await completeness_of_barn(connection, "demo", ("farm-1", "barn-2"), FIRST_HOUR, UNTIL)
        nowhere = await completeness_of_barn(connection, "demo", ("farm-1", "barn-9"), FIRST_HOUR, UNTIL)
        namesake = await completeness_of_barn(connection, "demo", ("farm-2", "barn-1"), FIRST_HOUR, UNTIL)
        later = await completeness_of_barn(connection, "demo", ("farm-1", "barn-1"), UNTIL, UNTIL + timedelta(days=1))
    assert one == Completeness(3100, 900, 1000)
    assert one.ratio == 3100 / 5000
    assert (other, nowhere.ratio) == (Completeness(1, 0, 0), None)
    assert namesake.ratio is None
    assert later == Completeness(0, 0, 0)


async def test_the_route_goes_from_device_to_device(edge_url: str, edge_pool: Pool) -> None:
    await fill(edge_pool)
    query = {"tenant_id": "demo", "from": f"{FIRST_HOUR:%Y-%m-%dT%H:%M:%SZ}", "to": f"{UNTIL:%Y-%m-%dT%H:%M:%SZ}"}
    async with query_api(edge_url) as api:
        pages = await api.pages("/api/v1/coverage", **query, limit=1)
        one = await api.get("/api/v1/coverage", **query, device_id="node-2")
    assert [{row["device_id"] for row in page["hours"]} for page in pages] == [{"node-1"}, {"node-2"}, set()]
    assert one["hours"] == pages[1]["hours"]
    assert one["next"] is None


async def test_the_cloud_answers_in_the_same_words(cloud_url: str, cloud_pool: Pool) -> None:
    await fill(cloud_pool)
    query = {"tenant_id": "demo", "from": f"{FIRST_HOUR:%Y-%m-%dT%H:%M:%SZ}", "to": f"{UNTIL:%Y-%m-%dT%H:%M:%SZ}"}
    async with cloud_api(cloud_url) as api:
        found = await api.get("/api/v1/coverage", **query)
    assert sum(row["stored"] for row in found["hours"]) == 3101
    assert found["next"] is None
