"""All devices of a tenant as one: from their messages through the gateway's transaction to `GET /api/v1/fleet`."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest_asyncio

from farmiq.contracts.status import DeviceStatus
from farmiq.edge.ingress_gateway import devices
from farmiq.edge.ingress_gateway.handlers import ingest
from farmiq.kit.postgres import Pool
from farmiq.timeseries.stream import Origin
from support.query_api import QueryApi, query_api
from support.speaking_node import SetClock, SpeakingNode
from support.telemetry import ELSEWHERE, HERE

START = datetime(2026, 11, 16, 12, tzinfo=UTC)
NODE_2, NODE_3 = (Origin("demo", "farm-1", "barn-1", name) for name in ("node-2", "node-3"))


def holding(samples: int, *, oldest_seconds: float, runway_seconds: float) -> DeviceStatus:
    return DeviceStatus(
        state="online",
        unacked_count=samples,
        oldest_sample_age_seconds=oldest_seconds,
        runway_seconds=runway_seconds,
        spool_bytes=samples * 40,
    )


class Barn:
    def __init__(self, pool: Pool, api: QueryApi, clock: SetClock) -> None:
        self.clock = clock
        self._pool = pool
        self._api = api

    async def says(self, origin: Origin, status: DeviceStatus) -> None:
        outcomes = await ingest(self._pool, [SpeakingNode(origin).status(self.clock.at, status)], self.clock.at)
        assert [outcome.refusals for outcome in outcomes] == [[]]

    async def fleet(self, tenant_id: str = "demo") -> Any:
        return await self._api.get("/api/v1/fleet", tenant_id=tenant_id)

    async def revoke(self, device_id: str) -> None:
        async with self._pool.acquire() as connection:
            await devices.revoke(connection, device_id)


@pytest_asyncio.fixture
async def barn(edge_url: str, edge_pool: Pool) -> AsyncIterator[Barn]:
    async with edge_pool.acquire() as connection:
        for origin in (HERE, NODE_2, NODE_3, ELSEWHERE):
            await devices.register(
                connection,
                tenant_id=origin.tenant_id,
                farm_id=origin.farm_id,
                barn_id=origin.barn_id,
                device_id=origin.device_id,
                kind="node",
            )
    clock = SetClock(START)
    async with query_api(edge_url, {"ONLINE_TIMEOUT": "60"}, clock) as api:
        yield Barn(edge_pool, api, clock)


async def test_devices_are_online_or_quiet_or_were_never_heard(barn: Barn) -> None:
    assert (await barn.fleet())["never_heard"] == 3
    await barn.says(HERE, DeviceStatus(state="online"))
    barn.clock.at += timedelta(seconds=90)
    await barn.says(NODE_2, DeviceStatus(state="online"))
    await barn.says(ELSEWHERE, DeviceStatus(state="online"))
    found = await barn.fleet()
    assert (found["online"], found["quiet"], found["never_heard"]) == (1, 1, 1)
    other = await barn.fleet("other")
    assert (other["online"], other["quiet"], other["never_heard"]) == (1, 0, 0)


async def test_a_revoked_device_is_nobody_to_wait_for(barn: Barn) -> None:
    await barn.says(HERE, DeviceStatus(state="online"))
    barn.clock.at += timedelta(seconds=90)
    await barn.revoke("node-1")
    await barn.revoke("node-3")
    found = await barn.fleet()
    assert (found["online"], found["quiet"], found["never_heard"]) == (0, 0, 1)


async def test_room_is_that_of_the_device_that_would_be_full_first(barn: Barn) -> None:
    await barn.says(HERE, holding(3, oldest_seconds=0.2, runway_seconds=9000))
    await barn.says(NODE_2, holding(700, oldest_seconds=40, runway_seconds=5000))
    found = await barn.fleet()
    assert (found["unacked_samples"], found["spool_bytes"]) == (703, 703 * 40)
    assert (found["room_seconds"], found["room_device_id"]) == (5000, "node-2")
    assert found["runway_seconds"] is None, "both deliver"


async def test_a_quiet_device_is_taken_to_go_on_measuring(barn: Barn) -> None:
    await barn.says(HERE, holding(3, oldest_seconds=1, runway_seconds=9000))
    await barn.says(NODE_2, holding(5, oldest_seconds=2, runway_seconds=9500))
    barn.clock.at += timedelta(seconds=1000)
    await barn.says(NODE_2, holding(5, oldest_seconds=2, runway_seconds=9500))
    found = await barn.fleet()
    assert (found["runway_seconds"], found["room_seconds"], found["room_device_id"]) == (8000, 8000, "node-1")
    assert found["oldest_seconds"] == 1001


async def test_a_fleet_is_shown_to_those_with_the_token_only(edge_url: str, edge_pool: Pool) -> None:
    async with query_api(edge_url) as api:
        status, answer = await api.ask("/api/v1/fleet", token="somebody-else", tenant_id="demo")
        assert (status, answer["error"]["code"]) == (401, "unauthorized")
        nobody = await api.get("/api/v1/fleet", tenant_id="demo")
        assert (nobody["online"], nobody["room_seconds"], nobody["room_device_id"]) == (0, None, None)
