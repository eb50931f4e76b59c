"""What one service shares with the process around it."""

import asyncio

import pytest

from farmiq.kit.errors import Fatal
from farmiq.kit.lifecycle import Lifetime, instance_id


async def test_a_pause_ends_early_when_the_service_is_asked_to_stop() -> None:
    life = Lifetime("test")
    assert await life.pause(0.001)
    pausing = asyncio.create_task(life.pause(3600))
    await asyncio.sleep(0)
    life.stopping.set()

    assert not await asyncio.wait_for(pausing, 5)
    assert not await life.pause(3600)


async def test_a_pause_that_is_cancelled_in_the_moment_of_its_end_is_cancelled() -> None:
    life = Lifetime("test")
    pausing = asyncio.create_task(life.pause(3600))
    await asyncio.sleep(0)
    life.stopping.set()
    pausing.cancel()

    with pytest.raises(asyncio.CancelledError):
        await pausing


async def test_a_service_that_is_stopping_is_not_ready() -> None:
    async def good() -> None:
        return None

    life = Lifetime("test")
    life.ready_when("database", good)
    assert await life.readiness() == {"database": "ok"}
    life.stopping.set()

    assert await life.readiness() == {"service": "stopping"}


async def test_checks_run_side_by_side_and_none_outlasts_its_time() -> None:
    async def stuck() -> None:
        await asyncio.Event().wait()

    life = Lifetime("test")
    for name in ("a", "b", "c"):
        life.ready_when(name, stuck)

    answers = await asyncio.wait_for(life.readiness(timeout_seconds=0.05), 5)
    assert answers == dict.fromkeys(("a", "b", "c"), "TimeoutError: ")


async def test_a_loop_is_cut_when_the_service_is_asked_to_stop() -> None:
    was_cut = asyncio.Event()

    async def loop() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            was_cut.set()

    life = Lifetime("test")
    running = asyncio.create_task(life.until_stopped(loop()))
    await asyncio.sleep(0)
    life.stopping.set()
    await asyncio.wait_for(running, 5)

    assert was_cut.is_set()


async def test_what_ends_a_loop_is_told_to_its_service() -> None:
    async def ends() -> None:
        return None

    async def fails() -> None:
        raise ConnectionError("gone")

    async def is_cancelled_from_inside() -> None:
        raise asyncio.CancelledError

    life = Lifetime("test")
    await asyncio.wait_for(life.until_stopped(ends()), 5)
    with pytest.raises(ConnectionError, match="gone"):
        await asyncio.wait_for(life.until_stopped(fails()), 5)
    with pytest.raises(Fatal, match="cancelled from inside"):
        await asyncio.wait_for(life.until_stopped(is_cancelled_from_inside()), 5)


def test_a_replica_has_a_name_of_its_own() -> None:
    assert instance_id("edge-test", {"INSTANCE_ID": "edge-7"}) == "edge-7"
    assert instance_id("edge-test", {"HOSTNAME": "box"}).startswith("box-")
    assert instance_id("edge-test", {}).startswith("edge-test-")


async def test_a_loop_that_takes_the_first_cancellation_for_a_failure_is_cut_all_the_same() -> None:
    tries = 0

    async def loop() -> None:
        nonlocal tries
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                tries += 1
                if tries > 1:
                    raise

    life = Lifetime("test")
    running = asyncio.create_task(life.until_stopped(loop()))
    await asyncio.sleep(0)
    life.stopping.set()
    await asyncio.wait_for(running, 20)
    assert tries == 2
