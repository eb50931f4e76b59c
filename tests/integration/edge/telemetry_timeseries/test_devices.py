"""Is a device there, and is its data new? From its messages through the gateway's transaction to `GET /api/v1/devices`."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from farmiq.contracts.status import DeviceStatus, FailedSession
from farmiq.edge.ingress_gateway import devices
from farmiq.edge.ingress_gateway.handlers import ingest
from farmiq.kit.mqtt import Message
from farmiq.kit.postgres import Pool
from farmiq.timeseries.stream import Origin
from support.query_api import QueryApi, query_api
from support.speaking_node import SetClock, SpeakingNode, retained
from support.telemetry import ELSEWHERE, HERE, loss_message

START = datetime(2026, 11, 16, 12, tzinfo=UTC)
TIMEOUTS = {"ONLINE_TIMEOUT": "60", "FRESHNESS_TIMEOUT": "300"}


class Edge:
    """The gateway's transaction and the query service on one database, with one clock for both."""

    def __init__(self, pool: Pool, api: QueryApi, clock: SetClock) -> None:
        self.api = api
        self._pool = pool
        self._clock = clock

    @property
    def now(self) -> datetime:
        return self._clock.at

    def wait(self, seconds: float) -> None:
        self._clock.at += timedelta(seconds=seconds)

    async def hear(self, *messages: Message) -> None:
        for outcome in await ingest(self._pool, messages, self.now):
            assert outcome.refusals == []

    async def device(self, device_id: str = "node-1", tenant_id: str = "demo") -> Any:
        return await self.api.get(f"/api/v1/devices/{device_id}", tenant_id=tenant_id)

    async def is_online(self) -> bool:
        return bool((await self.device())["online"])


@pytest_asyncio.fixture
async def edge(edge_url: str, edge_pool: Pool) -> AsyncIterator[Edge]:
    async with edge_pool.acquire() as connection:
        for origin in (HERE, Origin("demo", "farm-1", "barn-1", "node-2"), ELSEWHERE):
            await devices.register(
                connection,
                tenant_id=origin.tenant_id,
                farm_id=origin.farm_id,
                barn_id=origin.barn_id,
                device_id=origin.device_id,
                kind="node",
            )
    clock = SetClock(START)
    async with query_api(edge_url, TIMEOUTS, clock) as api:
        yield Edge(edge_pool, api, clock)


async def test_a_replay_of_48_hours_beside_live_samples_never_takes_the_device_offline(edge: Edge) -> None:
    node = SpeakingNode()
    newest = ""
    for turn in range(12):
        old = [
            node.sample(edge.now, START - timedelta(hours=48) + timedelta(hours=4 * turn, minutes=minute))
            for minute in range(3)
        ]
        await edge.hear(*old, node.sample(edge.now), *old[:1])
        device = await edge.device()
        assert (device["online"], device["fresh"], device["sensors"][0]["fresh"]) == (True, True, True)
        assert device["last_sample_ts"] == device["sensors"][0]["last_sample_ts"] == timestamp(edge.now)
        assert device["last_sample_ts"] > newest
        newest = device["last_sample_ts"]
        edge.wait(15)


async def test_a_replay_alone_makes_a_device_online_and_its_data_no_fresher(edge: Edge) -> None:
    node = SpeakingNode()
    await edge.hear(node.sample(edge.now, START - timedelta(hours=2)))
    edge.wait(50)
    await edge.hear(node.sample(edge.now, START - timedelta(hours=47)))
    device = await edge.device()
    assert (device["online"], device["fresh"]) == (True, False)
    assert device["last_rx_at"] == timestamp(edge.now)
    assert device["last_sample_ts"] == timestamp(START - timedelta(hours=2))


async def test_silence_takes_a_device_offline_after_the_timeout(edge: Edge) -> None:
    node = SpeakingNode()
    await edge.hear(node.status(edge.now))
    edge.wait(59.9)
    assert await edge.is_online()
    edge.wait(0.1)
    assert not await edge.is_online()


async def test_a_will_takes_a_device_offline_at_once_and_its_next_word_brings_it_back(edge: Edge) -> None:
    node = SpeakingNode()
    for _ in range(3):
        await edge.hear(node.status(edge.now), node.sample(edge.now))
        assert await edge.is_online()
        edge.wait(5)
        await edge.hear(node.will)  # the same bytes each time, so the same event id
        device = await edge.device()
        assert (device["online"], device["reported_state"]) == (False, "offline")
        edge.wait(5)
        await edge.hear(node.sample(edge.now))
        assert await edge.is_online(), "a sample is as good as a status"
        edge.wait(5)


@pytest.mark.parametrize("per_transaction", [1, 2, 100])
async def test_the_queue_of_a_device_that_died_meanwhile_ends_offline(edge: Edge, per_transaction: int) -> None:
    """The gateway was away; the broker kept what the device said, and then the will."""
    node = SpeakingNode()
    hours_ago = edge.now - timedelta(hours=3)
    queue = [node.status(hours_ago), *(node.sample(hours_ago + timedelta(seconds=one)) for one in range(6)), node.will]
    for first in range(0, len(queue), per_transaction):
        await edge.hear(*queue[first : first + per_transaction])
    device = await edge.device()
    assert (device["online"], device["fresh"], device["reported_state"]) == (False, False, "offline")


async def test_what_was_said_before_the_will_and_comes_after_it_does_not_bring_the_device_back(edge: Edge) -> None:
    """Another replica had it in hand, or the broker delivered it again."""
    node = SpeakingNode()
    early = [node.sample(edge.now - timedelta(seconds=30 - one)) for one in range(10)]
    late = node.status(edge.now - timedelta(seconds=1))
    await edge.hear(late)
    await edge.hear(node.will)
    for message in early:
        edge.wait(1)
        await edge.hear(message)
        assert not await edge.is_online()
    edge.wait(1)
    await edge.hear(node.sample(edge.now))
    assert await edge.is_online()


async def test_an_old_queue_without_a_will_makes_a_dead_device_alive_for_no_longer_than_the_timeout(edge: Edge) -> None:
    node = SpeakingNode()
    await edge.hear(node.sample(edge.now))
    await edge.hear(node.will)
    edge.wait(7200)
    await edge.hear(*(node.sample(START + timedelta(seconds=one)) for one in range(20)))
    edge.wait(60)
    assert not await edge.is_online()


async def test_a_device_that_comes_back_without_the_time_is_online_again_after_the_timeout(edge: Edge) -> None:
    node = SpeakingNode()
    await edge.hear(node.status(edge.now), node.will)
    lost = datetime(1970, 1, 1, 0, 1, tzinfo=UTC)
    for seconds, expected in ((10, False), (40, False), (10, True), (10, True)):
        edge.wait(seconds)
        lost += timedelta(seconds=seconds)
        await edge.hear(node.status(lost))
        assert await edge.is_online() is expected


async def test_a_state_that_the_broker_kept_is_no_sign_of_life_but_a_goodbye_is_one(edge: Edge) -> None:
    node = SpeakingNode()
    await edge.hear(node.sample(edge.now))
    edge.wait(100)
    await edge.hear(retained(node.status(edge.now - timedelta(seconds=90))))
    device = await edge.device()
    assert (device["online"], device["last_rx_at"]) == (False, timestamp(START))
    edge.wait(1)
    await edge.hear(node.sample(edge.now))
    assert await edge.is_online()
    await edge.hear(retained(node.will))
    assert not await edge.is_online()


async def test_a_clock_that_runs_ahead_does_not_keep_data_fresh_for_ever(edge: Edge) -> None:
    node = SpeakingNode()
    await edge.hear(node.sample(edge.now, datetime(2099, 1, 1, tzinfo=UTC)))
    assert (await edge.device())["fresh"]
    edge.wait(361)
    assert not (await edge.device())["fresh"]
    await edge.hear(node.sample(edge.now))
    device = await edge.device()
    assert (device["fresh"], device["last_sample_ts"]) == (True, timestamp(edge.now))


async def test_each_sensor_has_its_own_freshness_and_fault(edge: Edge) -> None:
    node = SpeakingNode()
    await edge.hear(node.sample(edge.now, sensor="t1"), node.sample(edge.now, sensor="t2"))
    edge.wait(299)
    await edge.hear(node.sample(edge.now, sensor="t2"), node.sample(START - timedelta(hours=1), sensor="t1"))
    edge.wait(1)
    await edge.hear(node.status(edge.now, DeviceStatus(state="online", faulty_sensors=["t1"])))
    sensors = {sensor["sensor"]: sensor for sensor in (await edge.device())["sensors"]}
    assert {name: (sensor["fresh"], sensor["faulty"]) for name, sensor in sensors.items()} == {
        "t1": (False, True),
        "t2": (True, False),
    }
    assert sensors["t1"]["last_sample_ts"] == timestamp(START), "an older sample does not set the clock back"
    assert sensors["t1"]["last_rx_at"] == timestamp(START + timedelta(seconds=299))


async def test_a_device_shows_how_far_it_is_safe_and_its_last_figures_also_when_it_is_gone(edge: Edge) -> None:
    node = SpeakingNode()
    samples = [node.sample(edge.now + timedelta(milliseconds=one)) for one in range(10)]
    figures = DeviceStatus(
        state="online", stream_id=node.stream, last_captured_seq=10, spool_bytes=4096, runway_seconds=86_400.0
    )
    await edge.hear(*samples[:3], *samples[5:9], node.status(edge.now, figures), loss_message(node.stream, 4, 4))
    edge.wait(5)
    await edge.hear(node.will)
    device = await edge.device()
    assert device["marks"] == {
        "stream_id": str(node.stream),
        "captured_seq": 10,
        "edge_contiguous_seq": 4,
        "edge_highest_seq": 9,
        "edge_missing": 1,
        "lost": 1,
    }
    assert (device["status"]["spool_bytes"], device["status"]["runway_seconds"]) == (4096, 86_400.0)
    assert device["status_at"] == timestamp(START)
    assert device["reported_at"] == timestamp(edge.now)


async def test_a_weigh_station_shows_what_waits_and_which_sessions_have_failed(edge: Edge) -> None:
    station = SpeakingNode()
    failed = FailedSession(UUID(int=5), "a picture was given up: too_old")
    figures = DeviceStatus(
        state="online",
        unacked_count=4,
        pictures_waiting_count=3,
        failed_sessions_count=1,
        failed_sessions=(failed,),
        upload_trouble="HTTP 403: SignatureDoesNotMatch",
    )
    await edge.hear(station.status(edge.now, figures))
    listed = {one["device_id"]: one for one in (await edge.api.get("/api/v1/devices", tenant_id="demo"))["devices"]}
    for device in (listed["node-1"], await edge.device()):
        shown = {name: device["status"][name] for name in ("unacked_count", "pictures_waiting_count", "upload_trouble")}
        assert shown == {
            "unacked_count": 4,
            "pictures_waiting_count": 3,
            "upload_trouble": "HTTP 403: SignatureDoesNotMatch",
        }
        assert device["status"]["failed_sessions_count"] == 1
        assert device["status"]["failed_sessions"] == [{"session_id": str(failed.session_id), "reason": failed.reason}]


async def test_a_tenant_sees_only_its_own_devices_page_by_page(edge: Edge) -> None:
    second = SpeakingNode(Origin("demo", "farm-1", "barn-1", "node-2"))
    await edge.hear(SpeakingNode().status(edge.now), second.status(edge.now), SpeakingNode(ELSEWHERE).sample(edge.now))
    pages = await edge.api.pages("/api/v1/devices", tenant_id="demo", limit=1)
    assert [[device["device_id"] for device in page["devices"]] for page in pages] == [["node-1"], ["node-2"], []]
    (foreign,) = (await edge.api.get("/api/v1/devices", tenant_id="other"))["devices"]
    assert (foreign["device_id"], len(foreign["sensors"])) == ("node-9", 1)
    assert (await edge.api.get("/api/v1/devices", tenant_id="nobody")) == {"devices": [], "next": None}
    for device_id, tenant_id in (("node-9", "demo"), ("node-1", "other"), ("node-7", "demo")):
        status, answer = await edge.api.ask(f"/api/v1/devices/{device_id}", tenant_id=tenant_id)
        assert (status, answer["error"]["code"]) == (404, "unknown_device")


async def test_a_wrong_question_about_devices_is_answered_with_400(edge: Edge) -> None:
    wrong = [
        ("/api/v1/devices", {}),
        ("/api/v1/devices", {"tenant_id": "demo", "limit": "1001"}),
        ("/api/v1/devices", {"tenant_id": "demo", "after": "a b"}),
        ("/api/v1/devices/a b", {"tenant_id": "demo"}),
        ("/api/v1/devices/node-1", {}),
    ]
    for path, query in wrong:
        status, answer = await edge.api.ask(path, **query)
        assert (status, answer["error"]["code"]) == (400, "invalid_request"), (path, query)


def timestamp(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


@pytest.mark.parametrize(
    ("seconds", "state"),
    [
        ([], "idle"),
        ([60, 60, 60], "idle"),
        ([400] * 5, "idle"),
        ([60] * 9, "idle"),
        ([60] * 10, "quiet"),
        ([300, 300], "quiet"),
        ([60] * 10 + [86_400], "quiet"),
        ([60] * 9 + [400, 60], "idle"),
    ],
    ids=[
        "once",
        "a few by hand",
        "with long pauses",
        "not long enough",
        "regularly",
        "rarely",
        "once known",
        "a pause between",
    ],
)
async def test_a_device_is_missed_only_when_it_has_sent_regularly(edge: Edge, seconds: list[int], state: str) -> None:
    pump = SpeakingNode()
    await edge.hear(pump.sample(edge.now))
    for pause in seconds:
        edge.wait(pause)
        await edge.hear(pump.sample(edge.now))
    assert (await edge.device())["state"] == "online"
    edge.wait(90)
    assert (await edge.device())["state"] == state
    fleet = await edge.api.get("/api/v1/fleet", tenant_id="demo")
    assert (fleet["quiet"], fleet["idle"], fleet["never_heard"]) == (int(state == "quiet"), int(state == "idle"), 1)
    counts = await edge.api.get("/api/v1/device-counts", tenant_id="demo")
    assert (counts["quiet"], counts["idle"], counts["registered"]) == (fleet["quiet"], fleet["idle"], 2)


async def test_a_device_that_sends_its_status_has_a_schedule_from_the_first_one(edge: Edge) -> None:
    await edge.hear(SpeakingNode().status(edge.now, DeviceStatus(state="online")))
    edge.wait(90)
    assert (await edge.device())["state"] == "quiet"
