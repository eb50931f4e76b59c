"""Whom a refused upload costs something. The edge is scripted, the station's queue and its uploader are real."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from farmiq.device.weighvision_agent.media_client import MediaClient
from farmiq.device.weighvision_agent.picture_store import Picture, new_picture
from farmiq.device.weighvision_agent.queue import Queue
from farmiq.device.weighvision_agent.recorder import Recorder
from farmiq.device.weighvision_agent.uploader import Uploader
from farmiq.kit.clock import Clock
from farmiq.kit.ids import new_id
from farmiq.kit.lifecycle import Lifetime
from integration.device.weighvision_agent.scripted_edge import Scripted
from support.picture_files import picture
from support.waiting import eventually
from unit.device.weighvision_agent.queue_world import LIMITS, MESSAGES, SETTINGS, losses_of

FASTER = 200.0


class FastClock(Clock):
    """An hour in eighteen seconds, so that a test need not wait for what a station waits for."""

    def __init__(self) -> None:
        self._started = super().monotonic()
        self._began = super().now()

    def monotonic(self) -> float:
        return self._started + (super().monotonic() - self._started) * FASTER

    def now(self) -> datetime:
        return self._began + timedelta(seconds=self.monotonic() - self._started)


class Store:
    """Presigns whatever is asked for; `judge` answers the PUT of a picture, by the picture's bytes."""

    def __init__(self) -> None:
        self.edge = Scripted()
        self.edge.answer_to = self._answer
        self.judge: Callable[[bytes], tuple[int, bytes]] = lambda _: (200, b"")
        self.puts = 0

    def _answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        self.edge.is_cut = False
        if method == "PUT":
            self.puts += 1
            return self.judge(body)
        if path.endswith("awaited=false"):
            return 409, b""
        signed = {"media_id": str(new_id()), "expires_at": "2199-01-01T00:00:00Z"}
        return 200, {"upload_url": f"{self.edge.url}/bucket/key", **signed}


class Bench:
    def __init__(self, recorder: Recorder, clock: Clock, store: Store, uploader: Uploader) -> None:
        self.recorder, self.clock, self.store, self.uploader = recorder, clock, store, uploader

    async def take(self, data: bytes) -> Picture:
        taken = new_picture(new_id(), data, "image/jpeg", self.clock.now(), "trace-1", None)
        await self.recorder.record(lambda queue: queue.add_picture(taken, data))
        return taken

    async def state(self, picture_id: UUID) -> tuple[str, int]:
        asked = "SELECT state, attempts FROM pictures WHERE picture_id = ?"
        row = await self.recorder.run(lambda queue: queue.connection.execute(asked, (str(picture_id),)).fetchone())
        return row[0], row[1]

    async def becomes(self, taken: Picture, state: str) -> None:
        async def is_so() -> bool:
            return (await self.state(taken.picture_id))[0] == state

        await eventually(is_so, 40, f"the picture to be {state}")

    async def put_again(self, times: int) -> None:
        enough = self.store.puts + times

        async def is_so() -> bool:
            return self.store.puts >= enough

        await eventually(is_so, 40, f"{times} more PUTs")


@asynccontextmanager
async def bench(folder: Path, attempts_max: int) -> AsyncIterator[Bench]:
    clock, store = FastClock(), Store()
    limits = replace(LIMITS, attempts_max=attempts_max, age_max=timedelta(days=365))
    recorder = await Recorder.open(folder, limits, MESSAGES, clock)
    life = Lifetime("weighvision-agent", clock)
    uploader = Uploader(life, SETTINGS, recorder, MediaClient(store.edge.url, "a token", 5.0))
    task = asyncio.create_task(life.until_stopped(uploader.upload_all()))
    try:
        yield Bench(recorder, clock, store, uploader)
    finally:
        life.stopping.set()
        await task
        await recorder.close()
        store.edge.close()


ONE, OTHER = picture(width=64), picture(width=65)


@pytest.mark.parametrize("status", [403, 404, 500])
async def test_a_store_that_takes_nothing_costs_no_picture_an_attempt_however_long_it_lasts(
    status: int, tmp_path: Path
) -> None:
    async with bench(tmp_path, attempts_max=1) as station:
        station.store.judge = lambda _: (status, b"<Error><Code>SignatureDoesNotMatch</Code></Error>")
        some = [await station.take(data) for data in (ONE, OTHER)]
        await station.put_again(len(some) + 1)
        assert [(await station.state(one.picture_id))[1] for one in some] == [0, 0]
        assert str(status) in station.uploader.trouble
        station.store.judge = lambda _: (200, b"")
        for one in some:
            await station.becomes(one, "uploaded")
        assert station.uploader.trouble == ""


@pytest.mark.parametrize("status", [403, 500])
async def test_a_picture_that_is_refused_while_others_go_through_is_given_up_in_the_end(
    status: int, tmp_path: Path
) -> None:
    async with bench(tmp_path, attempts_max=2) as station:
        station.store.judge = lambda body: (status, b"") if body == ONE else (200, b"")
        refused = await station.take(ONE)
        while (await station.state(refused.picture_id))[0] != "failed":
            await station.becomes(await station.take(OTHER), "uploaded")
        assert station.uploader.trouble == ""


async def test_a_store_that_asks_to_wait_costs_nothing_even_if_others_go_through(tmp_path: Path) -> None:
    async with bench(tmp_path, attempts_max=1) as station:
        asked: list[bytes] = []

        def judge(body: bytes) -> tuple[int, bytes]:
            asked.append(body)
            return (503, b"") if body == ONE and asked.count(ONE) <= 3 else (200, b"")

        station.store.judge = judge
        late = await station.take(ONE)
        while asked.count(ONE) <= 3:
            await station.becomes(await station.take(OTHER), "uploaded")
        await station.becomes(late, "uploaded")
        assert (await station.state(late.picture_id))[1] == 0


async def test_a_picture_at_which_the_line_is_cut_holds_up_no_other(tmp_path: Path) -> None:
    async with bench(tmp_path, attempts_max=1) as station:

        def judge(body: bytes) -> tuple[int, bytes]:
            station.store.edge.is_cut = body == ONE
            return 200, b""

        station.store.judge = judge
        await station.take(ONE)
        await station.becomes(await station.take(OTHER), "uploaded")


async def test_a_picture_that_the_disk_does_not_give_holds_up_no_other_and_is_declared_in_the_end(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, attempts_max=3) as station:
        unreadable = new_picture(new_id(), ONE, "image/jpeg", station.clock.now(), "trace-1", None)
        path = tmp_path / "pictures" / str(unreadable.picture_id)

        def add_and_break(queue: Queue) -> None:
            queue.add_picture(unreadable, ONE)
            path.unlink()
            path.symlink_to(path.name)

        await station.recorder.record(add_and_break)
        await station.becomes(await station.take(OTHER), "uploaded")
        await station.becomes(unreadable, "failed")
        assert (await station.state(unreadable.picture_id))[1] == 2, "the third was the last"
        (loss,) = await station.recorder.run(losses_of)
        assert (loss["reason"], loss["pictures"]) == ("retries_exhausted", 1)
        assert station.store.puts == 1
