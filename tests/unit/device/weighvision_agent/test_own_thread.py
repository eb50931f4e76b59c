import asyncio
import threading

import pytest

from farmiq.device.weighvision_agent.drivers import DriverFault
from farmiq.device.weighvision_agent.own_thread import OwnThread
from support.waiting import wait_for


async def test_a_driver_that_hangs_is_given_up_on_and_asked_again_when_it_comes_back() -> None:
    free, closed = threading.Event(), threading.Event()
    patience_seconds = iter([30.0, 0.0])

    def work() -> bool:
        return free.wait(next(patience_seconds))

    thread = OwnThread("camera", work, closed.set)
    with pytest.raises(DriverFault, match="no answer within"):
        await thread.call(0.05)
    with pytest.raises(DriverFault, match="not come back"):
        await thread.call(0.05)
    free.set()

    async def answer() -> bool:
        try:
            return await thread.call(5.0)
        except DriverFault:
            await asyncio.sleep(0.01)
            return False

    async with asyncio.timeout(10):
        while not await answer():
            pass
    thread.end()
    assert closed.wait(10)


async def test_whatever_a_driver_raises_is_a_fault_with_its_words() -> None:
    errors = iter([DriverFault("no cable"), ZeroDivisionError("in the plug-in")])

    def work() -> int:
        raise next(errors)

    thread = OwnThread("scale", work, lambda: None)
    with pytest.raises(DriverFault, match=r"^no cable$"):
        await thread.call(5.0)
    with pytest.raises(DriverFault, match=r"ZeroDivisionError: in the plug-in"):
        await thread.call(5.0)
    thread.end()


async def test_a_driver_that_hangs_for_good_does_not_hold_up_the_end() -> None:
    thread = OwnThread("camera", threading.Event().wait, lambda: None)
    with pytest.raises(DriverFault):
        await thread.call(0.01)
    thread.end()
    found = [one for one in threading.enumerate() if one.name == "camera"]
    assert wait_for(lambda: all(one.daemon for one in found))
