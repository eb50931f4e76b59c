"""An animal on the scale while the disk takes nothing: what is lost is counted at once, and declared as soon as that can be."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from farmiq.contracts.status import DeviceStatus
from farmiq.device.weighvision_agent import declaring
from farmiq.device.weighvision_agent.detection import Arrived, Left, Steady
from farmiq.device.weighvision_agent.faults import Faults
from farmiq.device.weighvision_agent.media_client import MediaClient
from farmiq.device.weighvision_agent.photographer import Photographer
from farmiq.device.weighvision_agent.publisher import Publisher
from farmiq.device.weighvision_agent.queue import Queue
from farmiq.device.weighvision_agent.recorder import Recorder
from farmiq.device.weighvision_agent.station_file import PictureTable, SessionTable
from farmiq.device.weighvision_agent.status import Figures, taken
from farmiq.device.weighvision_agent.uploader import Uploader
from farmiq.device.weighvision_agent.weighing import Weigher
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.mqtt import MqttClient
from support.waiting import eventually
from unit.device.weighvision_agent.queue_world import JPEG, LIMITS, MESSAGES, SETTINGS, losses_of

CREATED, WEIGHED = "weighvision.session.created", "weighvision.weight.recorded"


class StillCamera:
    def __init__(self) -> None:
        self.taken = 0

    def capture(self) -> bytes:
        self.taken += 1
        return JPEG

    def close(self) -> None:
        pass


class Bench:
    def __init__(self, recorder: Recorder) -> None:
        life, faults, self.camera = Lifetime("weighvision-agent"), Faults(), StillCamera()
        self.recorder = recorder
        self.photographer = Photographer(self.camera, 5.0, PictureTable(), faults, life.clock)
        table = SessionTable(pictures=3, picture_interval_seconds=0.1)
        self.weigher = Weigher(life, table, MESSAGES, recorder, self.photographer)
        uploader = Uploader(life, SETTINGS, recorder, MediaClient("http://127.0.0.1:9", "a token", 1.0))
        mqtt = MqttClient("mqtt://127.0.0.1:9", client_id="scale-1")
        publisher = Publisher(life, SETTINGS, mqtt, recorder, random.Random(1))
        self._figures = Figures(life, SETTINGS, faults, self.weigher, uploader, publisher)

    async def status(self) -> DeviceStatus:
        return await taken(self.recorder, self._figures)

    async def disk_takes(self, *, nothing: bool) -> None:
        await self.recorder.run(lambda queue: queue.connection.execute(f"PRAGMA query_only = {nothing}"))

    async def rows(self, statement: str) -> list[Any]:
        return await self.recorder.run(lambda queue: queue.connection.execute(statement).fetchall())

    async def losses(self) -> list[dict[str, Any]]:
        return await self.recorder.run(losses_of)


@asynccontextmanager
async def bench(folder: Path) -> AsyncIterator[Bench]:
    station = Bench(await Recorder.open(folder, LIMITS, MESSAGES, Lifetime("weighvision-agent").clock))
    try:
        yield station
    finally:
        await station.weigher.finish()
        station.photographer.close()
        await station.recorder.close()


async def test_a_session_that_the_disk_does_not_take_is_in_the_status_at_once_and_declared_when_it_does(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as station:
        await station.disk_takes(nothing=True)
        for change in (Arrived(), Steady(80.0)):
            station.weigher.notice(change)
        await eventually(lambda: _shows(station, 2), 10, "both events in the status")
        assert (await station.status()).faulty_sensors == ["disk"]
        assert station.camera.taken == 0
        await station.disk_takes(nothing=False)
        await station.recorder.record(Queue.keep_house)
        (loss,) = await station.losses()
        assert (loss["reason"], loss["count"], loss["events"]) == ("no_space", 2, {CREATED: 1, WEIGHED: 1})
        status = await station.status()
        assert (status.faulty_sensors, status.dropped_count) == ([], 2)


async def _shows(station: Bench, dropped: int) -> bool:
    return (await station.status()).dropped_count == dropped


async def test_a_weight_and_pictures_that_the_disk_does_not_take_fail_their_session_and_the_edge_waits_for_them(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as station:
        for change in (Arrived(), Steady(80.0)):
            station.weigher.notice(change)
        await eventually(lambda: station.rows("SELECT 1 FROM pictures"), 10, "the first picture")
        await station.disk_takes(nothing=True)
        station.weigher.notice(Steady(81.0))
        await eventually(lambda: _shows(station, 3), 10, "a weight and two pictures in the status")
        station.weigher.notice(Left())
        await station.disk_takes(nothing=False)
        await eventually(lambda: station.rows("SELECT 1 FROM sessions WHERE state = 'closed'"), 10, "its end")
        ((weight_kg, image_count, reason),) = await station.rows(
            "SELECT weight_kg, image_count, failed_reason FROM sessions"
        )
        assert (weight_kg, image_count) == (80.0, 3)
        assert reason.endswith("was given up: no_space")
        (loss,) = await station.losses()
        assert (loss["count"], loss["pictures"], loss["events"]) == (3, 2, {WEIGHED: 1})
        assert await station.recorder.run(lambda queue: declaring.dropped(queue.connection)) == 3
        assert len(list((tmp_path / "pictures").iterdir())) == 1


async def test_a_queue_that_can_not_be_read_is_told_as_a_disk_that_fails(tmp_path: Path) -> None:
    async with bench(tmp_path) as station:
        await station.rows("ALTER TABLE pictures RENAME TO out_of_reach")
        status = await station.status()
        assert (status.state, status.faulty_sensors) == ("online", ["disk"])
