"""Every device of a tenant is listed, heard or not: found by a part of its name, by its state, and by its name."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest_asyncio

from farmiq.contracts.status import DeviceStatus
from farmiq.edge.ingress_gateway import devices, register
from farmiq.edge.ingress_gateway.handlers import ingest
from farmiq.kit.postgres import Pool
from farmiq.timeseries.stream import Origin
from support.query_api import QueryApi, query_api
from support.speaking_node import SetClock, SpeakingNode

START = datetime(2026, 11, 16, 12, tzinfo=UTC)
NAMES = ("Barn-Node", "node-1", "node-2", "pump-7", "pump-70")


class Edge:
    def __init__(self, pool: Pool, api: QueryApi, clock: SetClock) -> None:
        self.pool = pool
        self.api = api
        self.clock = clock

    async def names(self, **question: Any) -> list[str]:
        answer = await self.api.get("/api/v1/devices", tenant_id="demo", **question)
        return [device["device_id"] for device in answer["devices"]]

    async def hear(self, device_id: str) -> SpeakingNode:
        node = SpeakingNode(Origin("demo", "farm-1", "barn-1", device_id))
        figures = DeviceStatus(state="online", stream_id=node.stream, last_captured_seq=1)
        await ingest(self.pool, [node.sample(self.clock.at), node.status(self.clock.at, figures)], self.clock.at)
        return node


@pytest_asyncio.fixture
async def edge(edge_url: str, edge_pool: Pool) -> AsyncIterator[Edge]:
    async with edge_pool.acquire() as connection:
        places = [("demo", name) for name in NAMES] + [("other", "pump-8")]
        for tenant_id, device_id in places:
            await devices.register(
                connection, tenant_id=tenant_id, farm_id="farm-1", barn_id="barn-1", device_id=device_id, kind="node"
            )
    clock = SetClock(START)
    async with query_api(edge_url, {"ONLINE_TIMEOUT": "60"}, clock) as api:
        yield Edge(edge_pool, api, clock)


async def test_devices_that_were_never_heard_are_listed_with_what_is_known_of_them(edge: Edge) -> None:
    await edge.hear("node-1")
    answer = await edge.api.get("/api/v1/devices", tenant_id="demo")
    found = {device["device_id"]: device for device in answer["devices"]}
    assert sorted(found) == sorted(NAMES)
    silent = found["pump-7"]
    assert (silent["state"], silent["kind"], silent["last_rx_at"], silent["marks"]) == (
        "never_heard",
        "node",
        None,
        None,
    )
    assert (silent["farm_id"], silent["online"], silent["fresh"], silent["sensors"]) == ("farm-1", False, False, [])
    heard = found["node-1"]
    assert (heard["state"], heard["time_quality"], heard["marks"]["captured_seq"]) == ("online", 2, 1)
    one = await edge.api.get("/api/v1/devices/pump-7", tenant_id="demo")
    assert one == silent


async def test_a_part_of_the_name_finds_a_device_whatever_its_capitals(edge: Edge) -> None:
    assert await edge.names(q="pump") == ["pump-7", "pump-70"]
    assert sorted(await edge.names(q="NODE")) == ["Barn-Node", "node-1", "node-2"]
    assert await edge.names(q="7", limit=1) == ["pump-7"]
    assert await edge.names(q="7", after="pump-7") == ["pump-70"]
    assert await edge.names(q="_") == [], "no sign of the search means anything else than itself"
    assert await edge.names(q="pump-8") == [], "it is another tenant's"
    for wrong in ("", "a b", "%", "x" * 65):
        status, _ = await edge.api.ask("/api/v1/devices", tenant_id="demo", q=wrong)
        assert status == 400, wrong


async def test_states_are_counted_and_each_can_be_asked_for(edge: Edge) -> None:
    await edge.hear("node-1")
    edge.clock.at += timedelta(seconds=90)
    await edge.hear("node-2")
    async with edge.pool.acquire() as connection:
        await devices.revoke(connection, "pump-70")
    assert await edge.names(status="online") == ["node-2"]
    assert await edge.names(status="quiet") == ["node-1"]
    assert await edge.names(status="revoked") == ["pump-70"]
    assert sorted(await edge.names(status="never_heard")) == ["Barn-Node", "pump-7"]
    assert await edge.names(status="never_heard", q="pump") == ["pump-7"]
    counts = await edge.api.get("/api/v1/device-counts", tenant_id="demo")
    assert counts == {"registered": 4, "online": 1, "quiet": 1, "never_heard": 2, "revoked": 1, "idle": 0}
    nobody = await edge.api.get("/api/v1/device-counts", tenant_id="nobody")
    assert set(nobody.values()) == {0}
    assert (await edge.api.ask("/api/v1/devices", tenant_id="demo", status="gone"))[0] == 400


async def test_some_are_asked_for_by_name_and_those_of_others_do_not_answer(edge: Edge) -> None:
    assert await edge.names(device_ids=["pump-7", "node-1", "pump-8", "nobody"]) == ["node-1", "pump-7"]
    too_many = [f"n{number}" for number in range(101)]
    for wrong in (["a b"], too_many):
        assert (await edge.api.ask("/api/v1/devices", tenant_id="demo", device_ids=wrong))[0] == 400


async def test_ten_thousand_devices_are_searched_in_the_index(edge: Edge) -> None:
    await edge.pool.execute(
        "INSERT INTO devices (device_id, tenant_id, farm_id, barn_id) SELECT 'd-' || number, 'demo', 'f', 'b'"
        " FROM generate_series(1, 10000) AS number"
    )
    await edge.pool.execute("VACUUM ANALYZE devices")
    async with edge.pool.acquire() as connection:
        told = await connection.fetchval(f"EXPLAIN (FORMAT JSON) {register._PAGE}", "demo", "d-5", "-77", 50)
    plan = str(msgspec.json.decode(told))
    assert "Seq Scan" not in plan
    assert "Sort" not in plan, "read in the order of an index, up to the end of the page"
    names, after = list[str](), ""
    while True:
        page = await edge.api.get(
            "/api/v1/devices", tenant_id="demo", limit=1000, **({"after": after} if after else {})
        )
        names += [device["device_id"] for device in page["devices"]]
        after = page["next"]
        if after is None:
            break
    assert len(names) == len(set(names)) == 10_000 + len(NAMES)
    assert (await edge.api.get("/api/v1/device-counts", tenant_id="demo"))["never_heard"] == 10_000 + len(NAMES)
