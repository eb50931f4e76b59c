"""The process that looks at pictures: it may die, and the service that asked it may not."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from farmiq.kit.picture_worker import PictureTooCostly, PictureWorker, PictureWorkerAway
from farmiq.kit.pictures import Look, NotAPicture, OtherContentType, TooManyPixels, look_at
from support.picture_files import jpeg_of_many_scans, picture, png_of_size
from support.waiting import eventually, wait_for

MEGABYTE = 1024 * 1024
BUSY_TICKS = 25
"""More than its start takes: by then it is at the picture."""


@pytest.fixture
async def worker() -> AsyncIterator[PictureWorker]:
    async with PictureWorker() as worker:
        yield worker


def looking() -> list[int]:
    """The processes of ours that look at pictures."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [int(pid) for pid in children if b"picture_child" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def the_process() -> int:
    (pid,) = looking()
    return pid


def processor_ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0
    return int(fields[11]) + int(fields[12])


def limits_of(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    return {line[:25].strip(): line[25:].split()[0] for line in lines}


def environment_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


async def test_it_answers_as_the_functions_do(worker: PictureWorker) -> None:
    data = picture("PNG", 100, 50)

    assert await worker.look_at(data, content_type="image/png") == Look(100, 50, "png")
    small = await worker.thumbnail(data, edge_pixels_max=20)
    assert look_at(small, content_type="image/jpeg") == Look(20, 10, "jpeg")


async def test_refusals_keep_their_kind_and_the_process_goes_on(worker: PictureWorker) -> None:
    await worker.look_at(picture(), content_type="image/jpeg")
    first = the_process()

    with pytest.raises(NotAPicture):
        await worker.look_at(b"no picture", content_type="image/jpeg")
    with pytest.raises(OtherContentType):
        await worker.look_at(picture("PNG"), content_type="image/jpeg")
    with pytest.raises(TooManyPixels):
        await worker.thumbnail(png_of_size(50_000, 50_000), edge_pixels_max=20)
    assert the_process() == first


async def test_a_picture_that_needs_too_much_memory_is_refused_and_the_next_one_is_seen() -> None:
    async with PictureWorker(memory_bytes_max=150 * MEGABYTE) as worker:
        with pytest.raises(PictureTooCostly):
            await worker.look_at(picture("PNG", 6000, 6000), content_type="image/png", pixels_max=36_000_000)

        assert (await worker.look_at(picture(), content_type="image/jpeg")).width == 64


async def test_a_picture_that_takes_too_long_is_refused_and_the_next_one_is_seen() -> None:
    async with PictureWorker(cpu_seconds_max=1) as worker:
        with pytest.raises(PictureTooCostly):
            await worker.look_at(jpeg_of_many_scans(4000, 4000, 2000), content_type="image/jpeg")

        assert (await worker.look_at(picture(), content_type="image/jpeg")).width == 64


async def test_a_process_that_hangs_is_ended() -> None:
    async with PictureWorker(wall_seconds_max=1.0) as worker:
        await worker.look_at(picture(), content_type="image/jpeg")
        os.kill(the_process(), signal.SIGSTOP)

        assert (await worker.look_at(picture(), content_type="image/jpeg")).width == 64


async def test_a_process_that_was_killed_costs_no_picture(worker: PictureWorker) -> None:
    await worker.look_at(picture(), content_type="image/jpeg")
    os.kill(the_process(), signal.SIGKILL)

    assert (await worker.look_at(picture(), content_type="image/jpeg")).width == 64


async def test_a_process_killed_in_the_middle_of_every_picture_costs_only_that_picture(worker: PictureWorker) -> None:
    await worker.look_at(picture(), content_type="image/jpeg")
    asked = asyncio.create_task(
        worker.look_at(picture("PNG", 6000, 6000), content_type="image/png", pixels_max=36_000_000)
    )
    killed: set[int] = set()

    async def kill_what_works() -> bool:
        for pid in looking():
            if pid not in killed and processor_ticks(pid) > BUSY_TICKS:
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
        return asked.done()

    await eventually(kill_what_works, what="two deaths")

    with pytest.raises(PictureTooCostly):
        await asked
    assert len(killed) == 2
    assert (await worker.look_at(picture(), content_type="image/jpeg")).width == 64


async def test_an_answer_that_nobody_waited_for_is_not_taken_for_the_next_one(worker: PictureWorker) -> None:
    await worker.look_at(picture(), content_type="image/jpeg")
    given_up = asyncio.create_task(worker.look_at(picture("PNG", 3000, 3000), content_type="image/png"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up

    assert await worker.look_at(picture("JPEG", 30, 20), content_type="image/jpeg") == Look(30, 20, "jpeg")


async def test_many_at_once_each_get_their_own_answer(worker: PictureWorker) -> None:
    sizes = [(10 + n, 20 + n) for n in range(20)]

    seen = await asyncio.gather(*(worker.look_at(picture("PNG", *size), content_type="image/png") for size in sizes))

    assert [(look.width, look.height) for look in seen] == sizes


async def test_that_no_process_can_be_started_says_nothing_about_the_picture() -> None:
    async with PictureWorker(memory_bytes_max=8 * MEGABYTE) as worker:
        with pytest.raises(PictureWorkerAway):
            await worker.look_at(picture(), content_type="image/jpeg")


async def test_the_process_has_no_secrets_and_few_rights(
    worker: PictureWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("S3_SECRET_KEY", "do-not-hand-on")
    await worker.look_at(picture(), content_type="image/jpeg")
    pid = the_process()

    assert b"do-not-hand-on" not in environment_of(pid)
    limits = limits_of(pid)
    assert limits["Max address space"] == str(512 * MEGABYTE)
    assert limits["Max file size"] == "0"
    assert limits["Max core file size"] == "0"


async def test_closing_ends_the_process(worker: PictureWorker) -> None:
    await worker.look_at(picture(), content_type="image/jpeg")
    pid = the_process()

    await worker.close()

    wait_for(lambda: not Path(f"/proc/{pid}").exists(), 5, "the process to end")


async def test_the_largest_pictures_fit_the_limits_that_we_ship(worker: PictureWorker) -> None:
    for file_format, content_type in (("JPEG", "image/jpeg"), ("PNG", "image/png"), ("WEBP", "image/webp")):
        options: dict[str, Any] = {"method": 0} if file_format == "WEBP" else {}
        data = picture(file_format, 5000, 5000, **options)
        assert (await worker.look_at(data, content_type=content_type)).width == 5000
        assert look_at(await worker.thumbnail(data, edge_pixels_max=256), content_type="image/jpeg").width == 256
