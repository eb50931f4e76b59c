"""Killed between any two durable steps, cut off in any way: in the end there is one session with all its pictures at the edge."""

import asyncio
import json
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from msgspec import Struct

from farmiq.edge.media_store.integrity import Check
from farmiq.kit.mqtt import MqttClient
from farmiq.kit.postgres import Pool
from farmiq.stack.object_store import create_bucket
from farmiq.stack.seaweedfs import SeaweedFs
from integration.device.weighvision_agent.station_world import Edge, Station, edge_running, stations
from support import media_world
from support.cut_link import plugged
from support.mosquitto import Broker
from support.s3 import S3, start_seaweedfs
from support.server_process import ServerProcess
from support.service_process import Death
from support.waiting import eventually, wait_for

AGENT = "farmiq.device.weighvision_agent"

STEPS: list[Death] = [
    (f"{AGENT}.queue:Queue.begin_session", "before", 1),
    (f"{AGENT}.queue:Queue.begin_session", "after", 1),
    (f"{AGENT}.picture_store:write_file", "before", 1),
    (f"{AGENT}.picture_store:write_file", "after", 2),
    (f"{AGENT}.queue:Queue.add_picture", "after", 3),
    (f"{AGENT}.queue:Queue.end_session", "before", 1),
    (f"{AGENT}.queue:Queue.end_session", "after", 1),
    (f"{AGENT}.media_client:MediaClient.presign", "after", 1),
    (f"{AGENT}.queue:Queue.presigned", "after", 1),
    (f"{AGENT}.media_client:MediaClient.put", "after", 1),
    (f"{AGENT}.queue:Queue.uploaded", "before", 2),
    (f"{AGENT}.queue:Queue.uploaded", "after", 2),
    (f"{AGENT}.publisher:Publisher._send", "after", 1),
    (f"{AGENT}.queue:Queue.settle", "before", 1),
    (f"{AGENT}.queue:Queue.settle", "after", 1),
]


class Ordeal(Struct, frozen=True):
    """What a station lives through until it dies. `ends_kg` is what its session weighs in the end, `scheduled` how many pictures
    without a session it had promised."""

    death: Death
    weights: tuple[float, ...] = (80.5,)
    tables: dict[str, dict[str, Any]] = {}
    variables: dict[str, str] = {}
    ends_kg: float = 80.5
    scheduled: int = 0


SETTLES_AGAIN: dict[str, Any] = {
    "weights": (80.5, 82.0),
    "tables": {"session": {"picture_interval_seconds": 2.0}},
}
FORGETS_AT_ONCE: dict[str, Any] = {"variables": {"WEIGHVISION_KEEP_ACKED_HOURS": "0"}}
ON_SCHEDULE: dict[str, Any] = {"weights": (), "tables": {"schedule": {"every_seconds": 1, "with_weight": True}}}

ORDEALS = [
    # In `keep_house`: with nothing committed, and with the rows gone and the files still there.
    Ordeal((f"{AGENT}.event_store:forget_settled", "after", 1), **FORGETS_AT_ONCE),
    Ordeal((f"{AGENT}.picture_store:remove_files", "before", 1), **FORGETS_AT_ONCE),
    Ordeal((f"{AGENT}.queue:Queue.record_weight", "before", 1), **SETTLES_AGAIN),
    Ordeal((f"{AGENT}.queue:Queue.record_weight", "after", 1), **SETTLES_AGAIN, ends_kg=82.0),
    # The scale has spoken by the second of them, so a reading belongs to it.
    Ordeal((f"{AGENT}.picture_store:write_file", "after", 2), **ON_SCHEDULE, scheduled=1),
    Ordeal((f"{AGENT}.queue:Queue.add_picture", "after", 2), **ON_SCHEDULE, scheduled=2),
    *(Ordeal(death) for death in STEPS),
]


async def weigh_once(station: Station) -> None:
    """As long as the station knows of no session, the animal comes again."""
    await asyncio.to_thread(wait_for, station.is_watching, 60)
    if not station.sessions():
        await asyncio.to_thread(station.weigh, 80.5)


async def until_whole(edge: Edge, station: Station) -> None:
    await eventually(lambda: edge.is_whole(station), 60, f"{station.device_id} to be whole: {station.folder}")


async def live_and_die(edge: Edge, station: Station, ordeal: Ordeal) -> None:
    await edge.admit(station)
    station.tables, station.variables = ordeal.tables, station.variables | ordeal.variables
    station.start(ordeal.death)
    await asyncio.to_thread(wait_for, station.is_watching, 60)
    for number, kg in enumerate(ordeal.weights):
        if number:
            await asyncio.to_thread(wait_for, station.sessions, 60, "the first weight to be believed")
        station.scale.kg = kg
    await asyncio.to_thread(wait_for, station.is_dead, 60, f"{ordeal.death} to happen")
    station.scale.kg = 0.0
    station.tables = {}
    station.start()
    await weigh_once(station)
    await until_whole(edge, station)


async def test_killed_at_any_step_there_is_one_session_with_all_its_pictures(
    edge_pool: Pool, edge_url: str, mosquitto: Broker, s3: S3, run_folder: Path, tmp_path: Path
) -> None:
    doomed = [Station(tmp_path / f"scale-{number}", f"scale-{number}", run_folder) for number in range(len(ORDEALS))]
    turns = asyncio.Semaphore(4)

    async def one(edge: Edge, station: Station, ordeal: Ordeal) -> None:
        async with turns:
            await live_and_die(edge, station, ordeal)
            await asyncio.to_thread(station.kill)

    async with edge_running(edge_pool, edge_url, mosquitto, s3) as edge:
        with stations(*doomed):
            async with asyncio.TaskGroup() as group:
                for station, ordeal in zip(doomed, ORDEALS, strict=True):
                    group.create_task(one(edge, station, ordeal))
        # Whatever was uploaded and never announced is found by now, if there is any.
        await edge.swept()
        for station, ordeal in zip(doomed, ORDEALS, strict=True):
            ((session_id, status, expected, weight_kg, stored),) = await edge.sessions_of(station)
            assert (status, weight_kg) == ("finalized", ordeal.ends_kg), ordeal.death
            assert expected == stored, f"{station.device_id}: pictures that nobody counted"
            assert session_id == station.sessions()[0][0]
            await assert_scheduled(edge, station, ordeal.scheduled)
            files = {path.name for path in (station.queue_folder / "pictures").iterdir()}
            assert files == {name for (name,) in station.rows("SELECT picture_id FROM pictures")}, ordeal.death
    assert await edge_pool.fetchval("SELECT count(*) FROM ingress_rejected") == 0
    assert await edge_pool.fetchval("SELECT count(*) FROM sync_outbox WHERE event_type = 'station.loss'") == 0


async def assert_scheduled(edge: Edge, station: Station, promised: int) -> None:
    """A picture and the reading beside it were promised together or not at all, and the edge has what was promised."""
    taken = station.rows("SELECT captured_us FROM pictures WHERE session_id IS NULL ORDER BY captured_us")
    readings = station.rows("SELECT ts_us FROM events WHERE event_type = 'telemetry.reading'")
    assert len(taken) == promised
    assert set(taken[1:]) <= set(readings) <= set(taken), "only the first may be older than the scale's first word"
    for statement, count in (
        (
            "SELECT count(*) FROM media_objects WHERE state = 'stored' AND session_id IS NULL AND device_id = $1",
            promised,
        ),
        ("SELECT count(*) FROM telemetry_raw WHERE device_id = $1", len(readings)),
    ):
        assert await edge.pool.fetchval(statement, station.device_id) == count, statement


async def test_cut_off_it_goes_on_weighing_and_everything_arrives_afterwards(
    edge_pool: Pool, edge_url: str, mosquitto: Broker, s3: S3, run_folder: Path, tmp_path: Path
) -> None:
    """Without MQTT, without HTTP, and without both: three stations at once."""
    some = [Station(tmp_path / name, name, run_folder) for name in ("no-mqtt", "no-http", "no-link")]
    async with edge_running(edge_pool, edge_url, mosquitto, s3) as edge, eavesdropping(mosquitto) as heard:
        with stations(*some):
            async with asyncio.TaskGroup() as group:
                for station in some:
                    group.create_task(be_cut_off(edge, station))
        known = {station.device_id: await edge.sessions_of(station) for station in some}
    for sessions in known.values():
        assert [(count, kg, stored) for _, _, count, kg, stored in sessions] == [(3, 60.0, 3), (3, 70.0, 3)]
    for station in some:
        assert_in_order([event for event in heard if event["device_id"] == station.device_id])


async def be_cut_off(edge: Edge, station: Station) -> None:
    async with plugged(edge.broker.url(station.device_id)) as mqtt, plugged(edge.media_url) as http:
        await edge.admit(station)
        station.variables |= {"MQTT_URL": mqtt.url, "EDGE_MEDIA_STORE_URL": http.url}
        cut = {"no-mqtt": [mqtt], "no-http": [http], "no-link": [mqtt, http]}[station.device_id]
        station.start()
        await asyncio.to_thread(wait_for, station.is_watching, 60)
        for cable in cut:
            await cable.pull()
        for number, kg in enumerate((60.0, 70.0), 1):
            await asyncio.to_thread(station.weigh, kg, number)
            await asyncio.to_thread(wait_for, station.scale_is_empty)
        told, stored = ((2, 0) if mqtt not in cut else (0, 6)) if len(cut) == 1 else (0, 0)
        await eventually(
            lambda: has_reached(edge, station, told, stored), 30, f"what can reach the edge: {station.device_id}"
        )
        # It also survives its own death while it is cut off.
        await asyncio.to_thread(station.kill)
        station.start()
        await asyncio.to_thread(wait_for, station.is_watching, 60)
        for cable in cut:
            await cable.plug()
        await eventually(lambda: edge.is_whole(station, 2), 60, f"both sessions at the edge: {station.device_id}")
        await asyncio.to_thread(station.kill)


async def has_reached(edge: Edge, station: Station, told: int, stored: int) -> bool:
    ended = "SELECT count(*) FROM weight_sessions WHERE status = 'finalized' AND device_id = $1"
    pictures = "SELECT count(*) FROM media_objects WHERE state = 'stored' AND device_id = $1"
    found = [await edge.pool.fetchval(statement, station.device_id) for statement in (ended, pictures)]
    return found == [told, stored]


@asynccontextmanager
async def eavesdropping(broker: Broker) -> AsyncIterator[list[dict[str, Any]]]:
    """The session events as they pass the broker."""
    heard: list[dict[str, Any]] = []
    client = MqttClient(broker.url("ears"), client_id="ears", subscriptions=["iot/weighvision/#"])

    async def hear() -> None:
        while messages := await client.next_batch(100, 0.0):
            heard.extend(json.loads(message.payload) | {"topic": message.topic} for message in messages)
            client.acknowledge(messages)

    await client.start()
    await client.wait_connected()
    task = asyncio.create_task(hear())
    try:
        yield heard
    finally:
        await client.stop()
        await task


def assert_in_order(heard: list[dict[str, Any]]) -> None:
    """By time, and each session in its own order: an announcement belongs to the time when its picture was taken."""
    told = [event for event in heard if not event["event_type"].endswith("image.captured")]
    first = list({event["event_id"]: event for event in reversed(told)}.values())[::-1]
    assert [event["ts"] for event in first] == sorted(event["ts"] for event in first)
    assert [event["event_type"].rpartition(".")[2] for event in first] == ["created", "recorded", "finalized"] * 2


async def _is(pool: Pool, statement: str, count: int) -> bool:
    return int(await pool.fetchval(statement)) == count


async def test_killed_while_it_uploads_and_back_when_the_url_has_expired_each_picture_is_there_once(
    edge_pool: Pool, edge_url: str, mosquitto: Broker, s3: S3, run_folder: Path, tmp_path: Path
) -> None:
    """One was killed before the bytes went out, one after they had arrived: neither can know which it was."""
    deaths: list[Death] = [
        (f"{AGENT}.queue:Queue.presigned", "after", 1),
        (f"{AGENT}.media_client:MediaClient.put", "after", 1),
    ]
    doomed = [Station(tmp_path / f"scale-{number}", f"scale-{number}", run_folder) for number in range(2)]
    async with edge_running(
        edge_pool, edge_url, mosquitto, s3, MEDIA_URL_SECONDS="7", MEDIA_SWEEP_SECONDS="60"
    ) as edge:
        with stations(*doomed):
            for station, death in zip(doomed, deaths, strict=True):
                await edge.admit(station)
                station.start(death)
                await asyncio.to_thread(wait_for, station.is_watching, 60)
                station.scale.kg = 80.5
                await asyncio.to_thread(wait_for, station.is_dead, 60)
                station.scale.kg = 0.0
            left = (
                "SELECT count(*) FROM media_objects WHERE state = 'presigned' AND expires_at > now() + interval '4 s'"
            )
            await eventually(lambda: _is(edge_pool, left, 0), 30, "the URLs to expire")
            for station in doomed:
                station.start()
            for station in doomed:
                await until_whole(edge, station)
            known = [await edge.sessions_of(station) for station in doomed]
    awaited = "SELECT count(*) FROM media_objects WHERE state <> 'stored' AND announced_at IS NOT NULL"
    assert await edge_pool.fetchval(awaited) == 0, "the upload that never came was sent again: nobody waits for it"
    assert all(expected == stored for ((_, _, expected, _, stored),) in known)
    assert [len(station.logged("picture_uploaded")) for station in doomed] == [
        count for ((_, _, count, _, _),) in known
    ]


async def test_with_the_object_store_killed_while_it_uploads_the_pictures_wait_and_none_comes_twice(
    edge_pool: Pool, edge_url: str, mosquitto: Broker, run_folder: Path, tmp_path: Path
) -> None:
    """The edge still presigns, so each picture gets as far as a URL that nobody answers. The agent dies meanwhile, too."""
    server = await asyncio.to_thread(start_seaweedfs, tmp_path / "seaweedfs", run_folder)
    station = Station(tmp_path / "scale-1", "scale-1", run_folder, WEIGHVISION_UPLOAD_ATTEMPTS_MAX="1")
    try:
        s3 = await asyncio.to_thread(_bucket_of, server)
        async with edge_running(edge_pool, edge_url, mosquitto, s3) as edge:
            await edge.admit(station)
            with stations(station):
                station.start((f"{AGENT}.media_client:MediaClient.put", "after", 1))
                await asyncio.to_thread(wait_for, station.is_watching, 60)
                station.scale.kg = 80.5
                await asyncio.to_thread(wait_for, station.is_dead, 60)
                station.scale.kg = 0.0
                await asyncio.to_thread(server.kill)
                station.start()
                await asyncio.to_thread(wait_for, lambda: bool(station.status().get("upload_trouble")), 60)
                assert (await edge.sessions_of(station))[0][4] == 0, (
                    "one is in the store, and the edge can't look at it"
                )
                await asyncio.to_thread(station.kill)
                await asyncio.to_thread(server.start)
                station.start()
                await eventually(lambda: edge.is_whole(station), 90, "the session with all its pictures")
                ((_, _, expected, _, stored),) = await edge.sessions_of(station)
        assert expected == stored >= 1
        assert await edge_pool.fetchval("SELECT count(*) FROM sync_outbox WHERE event_type = 'station.loss'") == 0
    finally:
        await asyncio.to_thread(server.stop)


def _bucket_of(server: ServerProcess) -> S3:
    store = server.server
    assert isinstance(store, SeaweedFs)
    key = store.identities[0]
    create_bucket(store.endpoint, key.access_key, key.secret_key, "pictures")
    return S3(store.endpoint, key.access_key, key.secret_key, "pictures")


CHECKING: list[Death] = [
    (f"{AGENT}.media_client:MediaClient.states", "after", 1),
    (f"{AGENT}.picture_store:send_again", "after", 1),
    (f"{AGENT}.queue:Queue.states_reported", "after", 1),
    (f"{AGENT}.queue:Queue.presigned", "after", 1),
    (f"{AGENT}.media_client:MediaClient.put", "after", 1),
    (f"{AGENT}.verification:is_announced_as", "after", 1),
    (f"{AGENT}.picture_store:verified", "after", 1),
]


async def test_killed_while_it_sends_a_picture_again_that_the_edge_lost_the_picture_is_there_once(
    edge_pool: Pool, edge_url: str, mosquitto: Broker, s3: S3, run_folder: Path, tmp_path: Path
) -> None:
    """promise-device-edge 11: the events were acknowledged long ago, and one of the pictures is gone at the edge."""
    doomed = [Station(tmp_path / f"scale-{number}", f"scale-{number}", run_folder) for number in range(len(CHECKING))]
    turns = asyncio.Semaphore(4)
    async with edge_running(edge_pool, edge_url, mosquitto, s3) as edge:

        async def weigh(station: Station) -> None:
            async with turns:
                await edge.admit(station)
                station.start()
                await weigh_once(station)
                await until_whole(edge, station)
                await asyncio.to_thread(station.kill)

        async def check(station: Station, death: Death) -> None:
            async with turns:
                with closing(sqlite3.connect(station.queue_folder / "queue.db")) as queue, queue:
                    queue.execute("UPDATE pictures SET next_us = 0")  # it is asked about each hour
                station.start(death)
                await asyncio.to_thread(wait_for, station.is_dead, 60, f"{death} to happen")
                with closing(sqlite3.connect(station.queue_folder / "queue.db")) as queue, queue:
                    queue.execute("UPDATE pictures SET next_us = 0")
                station.start()
                await until_whole(edge, station)
                await asyncio.to_thread(station.kill)

        with stations(*doomed):
            async with asyncio.TaskGroup() as group:
                for station in doomed:
                    group.create_task(weigh(station))
            one_of_each = """SELECT DISTINCT ON (device_id) id, object_key FROM media_objects
                              WHERE state = 'stored' ORDER BY device_id, id"""
            objects = media_world.objects_of(s3)
            lost = await edge_pool.fetch(one_of_each)
            for row in lost:
                await objects.delete(s3.bucket, row["object_key"])
            async with edge_pool.acquire() as connection:
                check_all = Check(connection, objects, s3.bucket, is_repairing=True)
                repaired = [problem async for problem in check_all.problems(Counter())]
            assert {one.media_id for one in repaired if one.kind == "no_object"} == {row["id"] for row in lost}
            async with asyncio.TaskGroup() as group:
                for station, death in zip(doomed, CHECKING, strict=True):
                    group.create_task(check(station, death))
    by_name = "SELECT count(*) FROM media_objects WHERE state = 'stored' AND id = ANY ($1)"
    assert await edge_pool.fetchval(by_name, [row["id"] for row in lost]) == len(lost), "each by the name that it had"
    assert await edge_pool.fetchval("SELECT count(*) FROM media_objects WHERE state = 'stored'") == 3 * len(doomed)
    told = "SELECT count(*) FROM sync_outbox WHERE event_type = $1"
    assert await edge_pool.fetchval(told, "weighvision.image.captured") == 3 * len(doomed)
    assert await edge_pool.fetchval(told, "station.loss") == 0
