"""A weigh station's messages through a real broker, with its own credential: stored once, whoever is killed."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from farmiq.edge.weighvision_session.events import StoredPicture
from farmiq.edge.weighvision_session.main import serve
from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Pool
from farmiq.stack.mosquitto_users import gateway_rights
from farmiq.timeseries.stream import Origin
from support.device_farm import DeviceFarm, farm
from support.gateway import SERVICE, Crowd, Ears, as_sent, environment, wait_until_ready
from support.mosquitto import Broker
from support.mosquitto_clients import program, pub
from support.service_process import ServiceProcess, running, service_process
from support.session_rows import told_of
from support.waiting import eventually
from support.weighing import (
    ELSEWHERE,
    HEARD_AT,
    NEIGHBOUR,
    STATION,
    Weighing,
    message_of,
    presign,
    register_stations,
    store_picture,
)

__all__ = ["farm"]  # fixtures


VECTORS = Path(__file__).parents[2] / "unit" / "contracts" / "vectors"
TENANT, FARM, BARN = (f"018f1a84-bb0e-7d3f-b2e4-9e8b5f8e000{number}" for number in (2, 3, 4))
DEVICE = "weighvision-device-001"
SESSION = UUID("018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0300")
DOCUMENTED = ("weighvision.session.created", "weighvision.weight.recorded", "weighvision.session.finalized")


def topic_of(event_type: str, device_id: str = DEVICE, session: str = str(SESSION)) -> str:
    return f"iot/weighvision/{TENANT}/{FARM}/{BARN}/{device_id}/session/{session}/{event_type}"


def document(event_type: str) -> str:
    """The example of the document, as it stands there."""
    return (VECTORS / f"device.{event_type}.json").read_text()


class Edge:
    def __init__(self, farm: DeviceFarm, gateway: ServiceProcess, pool: Pool) -> None:
        self.farm = farm
        self.gateway = gateway
        self.pool = pool
        place = ("--tenant", TENANT, "--farm", FARM, "--barn", BARN)
        self.station = farm.told("add", DEVICE, *place, "--kind", "weigh-station")
        self.other = farm.told("add", "other-station", *place, "--kind", "weigh-station")
        self.node = farm.told("add", "only-a-node", *place, "--kind", "node")

    async def publish(self, issued: dict[str, Any], topic: str, body: str) -> None:
        await asyncio.to_thread(pub, issued, topic, body)

    async def count(self, table: str, where: str = "true") -> int:
        return int(await self.pool.fetchval(f"SELECT count(*) FROM {table} WHERE {where}"))  # noqa: S608 - names of this file


@pytest.fixture
def edge(farm: DeviceFarm, edge_pool: Pool, edge_url: str, run_folder: Path, tmp_path: Path) -> Iterator[Edge]:
    program("mosquitto_pub")
    environ = {
        "DATABASE_URL": edge_url,
        "MQTT_URL": farm.broker.add_user("gateway", gateway_rights()),
        "ADMIN_TOKEN": "a token for the administrator",
    }
    with service_process(SERVICE, environ, run_folder, tmp_path / "gateway.log") as gateway:
        wait_until_ready(gateway)
        yield Edge(farm, gateway, edge_pool)


async def test_the_documents_session_by_mosquitto_pub_becomes_a_complete_session(edge: Edge, edge_url: str) -> None:
    station = Origin(TENANT, FARM, BARN, DEVICE)
    media_ids = [new_id() for _ in range(3)]
    environ = {"DATABASE_URL": edge_url, "ADMIN_TOKEN": "for-this-test-only", "SESSION_SETTLE_SECONDS": "0"}
    async with Ears(edge.farm.broker) as ears:
        for event_type in DOCUMENTED:
            await edge.publish(edge.station, topic_of(event_type), document(event_type))
        for media_id in media_ids:
            await presign(edge.pool, station, media_id, SESSION)
            captured = json.loads(document(DOCUMENTED[0])) | {
                "event_id": str(new_id()),
                "event_type": "weighvision.image.captured",
                "payload": {"media_id": str(media_id)},
            }
            await edge.publish(edge.station, topic_of("weighvision.image.captured"), json.dumps(captured))
            await store_picture(edge.pool, StoredPicture(station, media_id, SESSION, HEARD_AT))
            await ears.until_told({}, [UUID(captured["event_id"])])
    assert set(map(frozenset, ears.told.values())) == {frozenset({"stored"})}
    assert len(ears.told) == len(DOCUMENTED) + len(media_ids)
    async with running(serve, "edge-weighvision-session", environ):

        async def is_told() -> bool:
            return bool(await edge.count("weight_sessions", "told_revision = 1 AND look_at IS NULL"))

        await eventually(is_told, what="the cloud to be told of the session's end")
    row = await edge.pool.fetchrow(
        "SELECT id, tenant_id, farm_id, barn_id, device_id, batch_id, status, initial_weight_kg, final_weight_kg, image_count,"
        " incomplete_since FROM weight_sessions"
    )
    assert row is not None
    assert tuple(row) == (
        SESSION, TENANT, FARM, BARN, DEVICE, "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0400", "finalized", 120.5, 120.5, 3, None,
    )  # fmt: skip
    told = {event_type: (event_id, payload) for event_type, event_id, payload in await told_of(edge.pool, SESSION)}
    for event_type in DOCUMENTED:
        assert str(told[event_type][0]) == json.loads(document(event_type))["event_id"]
    assert told["weighvision.session.finalized"][1]["image_count"] == 3
    assert await edge.count("ingress_rejected") == 0


async def test_a_station_speaks_for_itself_alone(edge: Edge) -> None:
    """The broker drops what a credential may not write; the gateway refuses what a body may not claim."""
    created = json.loads(document(DOCUMENTED[0]))
    async with Ears(edge.farm.broker) as ears:
        for issued in (edge.other, edge.node):
            await edge.publish(issued, topic_of(DOCUMENTED[0]), document(DOCUMENTED[0]))
        body = json.dumps(created | {"device_id": "only-a-node"})
        await edge.publish(edge.node, topic_of(DOCUMENTED[0], "only-a-node"), body)
        await edge.publish(edge.other, topic_of(DOCUMENTED[0], "other-station"), document(DOCUMENTED[0]))
        for session in ("..", "not-a-uuid", "\u00fc", f"{{{SESSION}}}"):
            body = json.dumps(created | {"device_id": "other-station", "event_id": str(new_id())})
            await edge.publish(edge.other, topic_of(DOCUMENTED[0], "other-station", session), body)
        own = new_id()
        body = json.dumps(created | {"device_id": "other-station", "event_id": str(own)})
        await edge.publish(edge.other, topic_of(DOCUMENTED[0], "other-station", str(own)), body)
        await ears.until_told({}, [own])
    assert ears.told == {UUID(created["event_id"]): {"rejected"}, own: {"stored"}}
    assert [tuple(row) for row in await edge.pool.fetch("SELECT id, device_id FROM weight_sessions")] == [
        (own, "other-station")
    ]
    rows = await edge.pool.fetch("SELECT reason, count(*) FROM ingress_rejected GROUP BY 1 ORDER BY 1")
    assert [tuple(row) for row in rows] == [("bad_topic", 4), ("topic_mismatch", 1)]


STEPS = [
    ("farmiq.edge.weighvision_session.store:add_weights", "after", False),
    ("farmiq.edge.weighvision_session.store:save", "after", False),
    ("farmiq.edge.weighvision_session.intake:take", "after", False),
    ("farmiq.edge.ingress_gateway.handlers:_commit", "after", True),
    ("farmiq.kit.mqtt:MqttClient.acknowledge", "after", True),
]


async def test_gateway_killed_at_each_step_stores_every_word_of_a_session_once(
    edge_url: str, edge_pool: Pool, mosquitto: Broker, run_folder: Path, tmp_path: Path
) -> None:
    """Each gateway finds what the one before it left unacknowledged, and dies one step further.

    All is stored without the station's help. Then it repeats what it said, as a station does that was not answered: what
    the broker was told is safe comes to no gateway again, and the one that told it may have died before it answered.
    """
    await register_stations(edge_pool)
    environ = environment(edge_url, mosquitto, INGRESS_BATCH_WAIT_MS="400")
    with service_process(SERVICE, environ, run_folder, tmp_path / "subscriber.log") as gateway:
        await asyncio.to_thread(wait_until_ready, gateway)
    weighings = [Weighing() for _ in STEPS]
    words = [[one.created(), one.weight(10, 120.5), one.finalized(60, 1)] for one in weighings]

    async def all_finalized() -> bool:
        count = await edge_pool.fetchval("SELECT count(*) FROM weight_sessions WHERE status = 'finalized'")
        return bool(count == len(STEPS))

    async with Crowd(mosquitto, 1) as station, Ears(mosquitto) as ears:
        for number, (target, moment, is_committed) in enumerate(STEPS):
            await station.publish(as_sent(map(message_of, words[number])))
            dying = ServiceProcess(SERVICE, environ, run_folder, tmp_path / f"{number}.log", (target, moment, 1))
            await asyncio.to_thread(live_and_die, dying)
            known = await edge_pool.fetchval("SELECT count(*) FROM weight_sessions WHERE id = $1", weighings[number].id)
            assert known == is_committed, f"killed {moment} {target}"
        with service_process(SERVICE, environ, run_folder, tmp_path / "last.log"):
            await eventually(all_finalized, 60.0, "every session to be finalized")
            spoken = [word for own in words for word in own]
            await station.publish(as_sent(map(message_of, spoken)))
            await ears.until_told({}, [word.event_id for word in spoken])
    assert {result for results in ears.told.values() for result in results} <= {"stored", "duplicate"}
    assert await all_finalized()
    rows = await edge_pool.fetch("SELECT session_id, event_id FROM session_weights")
    assert {tuple(row) for row in rows} == {(own[1].session_id, own[1].event_id) for own in words}
    outbox = await edge_pool.fetch("SELECT id FROM sync_outbox")
    assert sorted(row["id"] for row in outbox) == sorted(word.event_id for own in words for word in own[:2])


def live_and_die(gateway: ServiceProcess) -> None:
    with suppress(AssertionError):  # it may be dead before anybody could ask whether it is well
        gateway.start()
    gateway.wait_for_death()


async def test_a_storm_of_sessions_of_two_tenants_from_two_gateways_is_stored_once(
    edge_url: str, edge_pool: Pool, mosquitto: Broker, run_folder: Path, tmp_path: Path
) -> None:
    """Every word five times, in any order, to two gateways, one of which is killed under it."""
    await register_stations(edge_pool)
    weighings = [Weighing(origin=origin) for origin in (STATION, NEIGHBOUR, ELSEWHERE) for _ in range(15)]
    for weighing in weighings:
        await presign(edge_pool, weighing.origin, weighing.media_id(1))
    words = [
        word
        for one in weighings
        for word in (one.created(), one.weight(10, 90.0), one.weight(20, 91.0), one.image(15, 1), one.finalized(60, 1))
    ]
    storm = as_sent(map(message_of, sorted(words * 5, key=lambda word: word.event_id.int % 9973)))
    one, other = (
        ServiceProcess(SERVICE, environment(edge_url, mosquitto, name), run_folder, tmp_path / f"{name}.log")
        for name in ("gateway-a", "gateway-b")
    )
    try:
        for gateway in (one, other):
            await asyncio.to_thread(gateway.start)
            await asyncio.to_thread(wait_until_ready, gateway)
        async with Crowd(mosquitto, 4) as crowd, Ears(mosquitto) as ears:
            sending = asyncio.create_task(crowd.publish(storm))
            await eventually(lambda: has_some(edge_pool), what="some sessions")
            one.kill()
            await sending
            await asyncio.to_thread(one.start)
            await ears.until_told({}, [word.event_id for word in words])
    finally:
        one.kill()
        other.kill()
    rows = await edge_pool.fetch(
        "SELECT tenant_id, device_id, status, initial_weight_kg, final_weight_kg, image_count, count(*) FROM weight_sessions"
        " GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 2"
    )
    assert [tuple(row) for row in rows] == [
        (origin.tenant_id, origin.device_id, "finalized", 90.0, 91.0, 1, 15)
        for origin in (STATION, NEIGHBOUR, ELSEWHERE)
    ]
    assert await edge_pool.fetchval("SELECT count(*) FROM session_weights") == 2 * len(weighings)
    assert await edge_pool.fetchval("SELECT count(*) FROM session_pictures") == len(weighings)
    assert await edge_pool.fetchval("SELECT count(*) FROM sync_outbox") == 4 * len(weighings)
    assert await edge_pool.fetchval("SELECT count(*) FROM ingress_rejected") == 0


async def has_some(pool: Pool) -> bool:
    return bool(await pool.fetchval("SELECT count(*) > 5 FROM weight_sessions"))
