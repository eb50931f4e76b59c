"""Which edge may send what of a device and of a weigh session, on real PostgreSQL and RabbitMQ."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import aiohttp
import msgspec
import pytest
import pytest_asyncio

from farmiq.cloud.ingestion import device_moves, edges
from farmiq.cloud.ingestion.edges import TenantNotGranted
from farmiq.cloud.ingestion.main import serve
from farmiq.contracts import bus, event_types
from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Pool
from support.bus_queue import take_all
from support.entrance import SERVICE, event, until_ready
from support.rabbitmq import NewVirtualHost
from support.service_process import running
from support.waiting import eventually

EDGES = ("edge-1", "edge-2", "edge-3")
TOKENS = {edge: secrets.token_urlsafe(24) for edge in EDGES}
STREAM = uuid4()


class Entrance:
    def __init__(self, url: str) -> None:
        self.url = url

    async def answer(self, edge: str, *events: dict[str, Any], understands: bool = True) -> list[dict[str, Any]]:
        body: dict[str, Any] = {"batch_id": "b-1", "edge_cluster_id": edge, "tenant_id": "demo", "events": list(events)}
        if understands:
            body["understands"] = ["held", "a-word-of-a-later-release"]
        headers = {"authorization": f"Bearer {TOKENS[edge]}"}
        async with (
            aiohttp.ClientSession(self.url, headers=headers) as session,
            session.post("/api/v1/edge/batch", data=msgspec.json.encode(body)) as answer,
        ):
            assert answer.status == 200, await answer.text()
            return list((await answer.json())["results"])

    async def statuses(self, edge: str, *events: dict[str, Any], understands: bool = True) -> list[str]:
        results = await self.answer(edge, *events, understands=understands)
        return [f"{result['status']} {result['code']}" if "code" in result else result["status"] for result in results]


@pytest.fixture
def amqp_url(new_vhost: NewVirtualHost) -> str:
    return new_vhost()


@pytest_asyncio.fixture
async def entrance(cloud_url: str, cloud_pool: Pool, amqp_url: str) -> AsyncIterator[Entrance]:
    async with cloud_pool.acquire() as connection:
        for edge, token in TOKENS.items():
            await edges.register(connection, edge_cluster_id=edge, tenant_ids=["demo"], token=token)
    async with running(serve, SERVICE, {"DATABASE_URL": cloud_url, "AMQP_URL": amqp_url}) as url:
        await until_ready(url)
        yield Entrance(url)


def pack(first: int, *, at: datetime | None = None, **changes: Any) -> dict[str, Any]:
    at = at or datetime.now(UTC)
    samples = {
        "stream_id": str(STREAM), "boot_id": str(STREAM), "lane": "live", "seq0": first, "time_quality": 2,
        "channels": [{"metric": "temperature", "unit": "C", "sensor": "t1"}],
        "t": [int(at.timestamp() * 1e6) + number for number in range(3)], "c": [0, 0, 0], "v": [1.0, 2.0, 3.0],
    }  # fmt: skip
    return event(event_type="telemetry.batch.ingested", occurred_at=at.isoformat(), payload=samples, **changes)


def cancelled(session_id: str, device_id: str | None, revision: int = 999_999) -> dict[str, Any]:
    payload = {"status": "cancelled", "reason": "by a stranger", "revision": revision}
    return event(event_type=event_types.SESSION_CANCELLED, session_id=session_id, device_id=device_id, payload=payload)


def finalized(session_id: str, at: datetime | None = None, device_id: str = "station-1") -> dict[str, Any]:
    payload = {"status": "finalized", "final_weight_kg": 87.09, "image_count": 1, "revision": 1}
    occurred_at = (at or datetime.now(UTC)).isoformat()
    return event(
        event_type=event_types.SESSION_FINALIZED, session_id=session_id, device_id=device_id, payload=payload,
        occurred_at=occurred_at,
    )  # fmt: skip


def registered(device_id: str) -> dict[str, Any]:
    return event(event_type=event_types.DEVICE_REGISTERED, device_id=device_id, payload={"kind": "node"})


async def move(pool: Pool, device_id: str, to_edge: str, **how: Any) -> device_moves.DeviceMove | None:
    async with pool.acquire() as connection:
        return await device_moves.move(
            connection, tenant_id="demo", device_id=device_id, to_edge=to_edge, moved_by="test", **how
        )


async def test_what_a_second_edge_forges_of_a_device_is_held_and_reaches_nobody(
    entrance: Entrance, amqp_url: str, cloud_pool: Pool
) -> None:
    own = pack(1)
    assert await entrance.statuses("edge-1", own) == ["accepted"]
    (answer,) = await entrance.answer("edge-2", pack(200))
    assert answer["status"] == "held"
    assert answer["code"] == "device_of_another_edge"
    assert all(word in answer["message"] for word in ("node-1", "edge-1", "farmiq device move node-1 --to edge-2"))
    assert await entrance.statuses("edge-2", pack(200), event(device_id="node-1"), event(device_id="node-2")) == [
        "held device_of_another_edge",
        "held device_of_another_edge",
        "accepted",
    ]
    assert await entrance.statuses("edge-1", pack(4), event(device_id="node-2")) == [
        "accepted",
        "held device_of_another_edge",
    ]
    assert [one.device_id for one in await take_all(amqp_url, bus.TELEMETRY_INGEST_QUEUE)] == [
        "node-1",
        "node-2",
        "node-1",
    ]
    async with cloud_pool.acquire() as connection:
        held = {
            (one.device_id, one.edge_cluster_id, one.owner_edge) for one in await device_moves.held(connection, limit=9)
        }
    assert held == {("node-1", "edge-2", "edge-1"), ("node-2", "edge-1", "edge-2")}


@pytest.mark.parametrize("device_id", ["nobody-knows", "station-1", "node-of-edge-2", None])
async def test_a_second_edge_cannot_end_a_weigh_session_under_any_device_id(
    entrance: Entrance, amqp_url: str, device_id: str | None
) -> None:
    session_id = str(new_id())
    assert await entrance.statuses("edge-1", finalized(session_id)) == ["accepted"]
    assert await entrance.statuses("edge-2", event(device_id="node-of-edge-2")) == ["accepted"]
    assert await entrance.statuses("edge-2", cancelled(session_id, device_id)) == ["held session_of_another_edge"]
    assert await entrance.statuses("edge-1", cancelled(session_id, "station-1", 2)) == ["accepted"]
    assert len(await take_all(amqp_url, bus.TELEMETRY_INGEST_QUEUE)) == 3


async def test_a_session_of_an_earlier_release_belongs_to_the_edge_of_its_device(
    entrance: Entrance, cloud_pool: Pool
) -> None:
    session_id = new_id()
    await cloud_pool.execute(
        "INSERT INTO weight_sessions (tenant_id, id, device_id, status, first_event_at)"
        " VALUES ('demo', $1, 'station-1', 'finalized', now())",
        session_id,
    )
    assert await entrance.statuses("edge-1", event(device_id="station-1")) == ["accepted"]
    assert await entrance.statuses("edge-2", cancelled(str(session_id), "nobody-knows")) == [
        "held session_of_another_edge"
    ]


async def test_an_edge_that_does_not_know_the_word_is_answered_rejected(entrance: Entrance) -> None:
    assert await entrance.statuses("edge-1", pack(1), understands=False) == ["accepted"]
    assert await entrance.statuses("edge-2", pack(9), understands=False) == ["rejected device_of_another_edge"]


async def test_who_registers_first_owns_the_device_and_nobody_takes_it_by_registering(
    entrance: Entrance, cloud_pool: Pool
) -> None:
    assert await entrance.statuses("edge-1", registered("node-7")) == ["accepted"]
    again = registered("node-7")
    assert await entrance.statuses("edge-2", again, event(device_id="node-7")) == ["held device_of_another_edge"] * 2
    assert await entrance.statuses("edge-1", event(device_id="node-7")) == ["accepted"]
    row = await cloud_pool.fetchrow("SELECT edge_cluster_id, came_by FROM device_owners WHERE device_id = 'node-7'")
    assert tuple(row or ()) == ("edge-1", "registration")
    assert await move(cloud_pool, "node-7", "edge-2") is not None
    assert await entrance.statuses("edge-2", again, event(device_id="node-7")) == ["accepted"] * 2


async def test_events_without_a_device_or_session_belong_to_nobody(entrance: Entrance) -> None:
    for edge in EDGES:
        assert await entrance.statuses(edge, event(device_id=None, event_type="farm.note")) == ["accepted"]


async def test_a_moved_device_is_taken_from_its_new_edge_and_what_its_former_edge_had_before_too(
    entrance: Entrance, cloud_pool: Pool
) -> None:
    """A node carried from edge 1 to edge 2, with a part of its samples waiting on each; and a session that edge 1 had begun."""
    session_id, earlier = str(new_id()), datetime.now(UTC) - timedelta(hours=1)
    begun = finalized(session_id, earlier, "node-1")
    second_half = [pack(first) for first in range(100, 130, 3)]
    assert await entrance.statuses("edge-1", pack(1, at=earlier), begun) == ["accepted", "accepted"]
    assert set(await entrance.statuses("edge-2", *second_half)) == {"held device_of_another_edge"}
    moved = await move(cloud_pool, "node-1", "edge-2")
    assert moved is not None
    assert (moved.from_edge, moved.to_edge) == ("edge-1", "edge-2")
    assert set(await entrance.statuses("edge-2", *second_half)) == {"accepted"}
    late = datetime.now(UTC) + timedelta(minutes=1)
    assert await entrance.statuses(
        "edge-1", pack(4, at=earlier), pack(500, at=late), finalized(session_id, late, "node-1"),
        finalized(str(new_id()), late, "node-1"),
    ) == ["accepted", "held device_moved", "accepted", "held device_moved"]  # fmt: skip
    assert await entrance.statuses("edge-2", cancelled(session_id, "node-1", 5)) == ["accepted"]
    assert await entrance.statuses("edge-3", pack(900)) == ["held device_of_another_edge"]
    assert await move(cloud_pool, "node-1", "edge-2") is None, "there already: no second record"
    assert await cloud_pool.fetchval("SELECT count(*) FROM device_moves") == 1


async def test_how_much_the_former_edge_may_still_deliver_is_for_a_person_to_say(
    entrance: Entrance, cloud_pool: Pool
) -> None:
    earlier, ahead = datetime.now(UTC) - timedelta(hours=1), datetime.now(UTC) + timedelta(hours=5)
    assert await entrance.statuses("edge-1", pack(1, at=earlier)) == ["accepted"]
    await move(cloud_pool, "node-1", "edge-2")
    wrong_clock = pack(4, at=ahead)
    assert await entrance.statuses("edge-1", wrong_clock) == ["held device_moved"]
    await move(cloud_pool, "node-1", "edge-2", backlog_before=ahead + timedelta(minutes=1))
    assert await entrance.statuses("edge-1", wrong_clock) == ["accepted"]
    await move(cloud_pool, "node-1", "edge-2", backlog_days=0)
    assert await entrance.statuses("edge-1", pack(7, at=earlier)) == ["held device_of_another_edge"]
    assert await entrance.statuses("edge-1", wrong_clock) == ["duplicate"], "it is in the cloud, whoever asks"
    assert await entrance.statuses("edge-2", pack(10)) == ["accepted"]


async def test_an_edge_whose_box_was_replaced_goes_on_under_its_name_with_a_new_token(
    entrance: Entrance, cloud_pool: Pool
) -> None:
    assert await entrance.statuses("edge-1", pack(1)) == ["accepted"]
    async with cloud_pool.acquire() as connection:
        issued = await edges.rotate(connection, "edge-1", grace_seconds=0)
    old, TOKENS["edge-1"] = TOKENS["edge-1"], issued.token
    try:
        assert await entrance.statuses("edge-1", pack(4)) == ["accepted"]
    finally:
        TOKENS["edge-1"] = old


async def test_a_device_is_moved_only_to_an_edge_that_may_deliver_for_its_tenant(
    entrance: Entrance, cloud_pool: Pool
) -> None:
    async with cloud_pool.acquire() as connection:
        await edges.add(connection, "edge-9", ["other"])
    with pytest.raises(edges.EdgeUnknown):
        await move(cloud_pool, "node-1", "edge-8")
    with pytest.raises(TenantNotGranted):
        await move(cloud_pool, "node-1", "edge-9")
    assert await cloud_pool.fetchval("SELECT count(*) FROM device_owners") == 0
    assert await move(cloud_pool, "node-1", "edge-2") is not None, "before anybody delivered anything"
    assert await entrance.statuses("edge-1", pack(1)) == ["held device_of_another_edge"]


async def test_of_edges_that_bring_a_new_device_at_once_one_has_it_whatever_the_order(
    entrance: Entrance, cloud_pool: Pool
) -> None:
    devices = [f"node-{number}" for number in range(30)]

    async def bring(edge: str, names: list[str]) -> list[str]:
        return await entrance.statuses(edge, *(event(device_id=name) for name in names))

    answers = await asyncio.gather(bring("edge-1", devices), bring("edge-2", devices[::-1]), bring("edge-3", devices))
    answers[1].reverse()
    for at_once in zip(*answers, strict=True):
        assert sorted(at_once) == ["accepted", "held device_of_another_edge", "held device_of_another_edge"]
    assert await cloud_pool.fetchval("SELECT count(*) FROM device_owners") == len(devices)


async def test_a_move_that_was_killed_before_its_commit_has_moved_nothing_and_is_done_by_the_same_command(
    entrance: Entrance, cloud_pool: Pool
) -> None:
    assert await entrance.statuses("edge-1", pack(1)) == ["accepted"]
    async with cloud_pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await device_moves.move(connection, tenant_id="demo", device_id="node-1", to_edge="edge-2", moved_by="test")
        # Its owner and its record are written, and its process dies.
        assert await entrance.statuses("edge-1", pack(4)) == ["accepted"]
        assert await entrance.statuses("edge-2", pack(100)) == ["held device_of_another_edge"]
        await transaction.rollback()
    assert await cloud_pool.fetchval("SELECT count(*) FROM device_moves") == 0
    assert await entrance.statuses("edge-1", pack(7)) == ["accepted"]
    assert await move(cloud_pool, "node-1", "edge-2") is not None
    assert await entrance.statuses("edge-2", pack(100)) == ["accepted"]


async def test_the_cloud_names_device_and_edges_in_its_metrics_until_the_device_is_moved(
    entrance: Entrance, cloud_pool: Pool
) -> None:
    await entrance.statuses("edge-1", pack(1))
    await entrance.statuses("edge-2", pack(100))

    async def is_named() -> bool:
        async with aiohttp.ClientSession(entrance.url) as session, session.get("/metrics") as answer:
            text = await answer.text()
        wanted = 'device="node-1",edge="edge-2",owner="edge-1",tenant="demo"'
        return f"farmiq_ingestion_held_devices{{{wanted}}} 1.0" in text

    await eventually(is_named, 40.0, what="the device to be named")
    await move(cloud_pool, "node-1", "edge-2")
    await eventually(lambda: _is_not(is_named), 40.0, what="the device to be no longer named")


async def _is_not(check: Any) -> bool:
    return not await check()


async def test_the_devices_of_a_replaced_edge_are_taken_from_the_new_one_at_once(
    entrance: Entrance, cloud_pool: Pool
) -> None:
    """Owners that this replica has in memory are forgotten; the former edge keeps its window, as after a move of one device."""
    devices = ["node-1", "node-2", "node-3"]
    assert await entrance.statuses("edge-1", *map(registered, devices)) == ["accepted"] * 3
    assert (
        await entrance.statuses("edge-2", *(event(device_id=name) for name in devices))
        == ["held device_of_another_edge"] * 3
    )
    async with cloud_pool.acquire() as connection:
        for moved in (2, 1, 0):
            assert moved == await device_moves.move_step(
                connection, from_edge="edge-1", to_edge="edge-2", moved_by="test", limit=2
            )
    assert await entrance.statuses("edge-2", *(event(device_id=name) for name in devices)) == ["accepted"] * 3
    hour = timedelta(hours=1)
    early, late = ((datetime.now(UTC) + offset).isoformat() for offset in (-hour, hour / 20))
    assert await entrance.statuses("edge-1", event(device_id="node-3", occurred_at=early)) == ["accepted"]
    assert await entrance.statuses("edge-1", event(device_id="node-3", occurred_at=late)) == ["held device_moved"]
