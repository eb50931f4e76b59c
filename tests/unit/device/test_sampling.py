import asyncio
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farmiq.device.handover import Row, Samples
from farmiq.device.node_agent.backlog import Backlog
from farmiq.device.node_agent.drivers import Channel, Driver, Fault, Pace, Reading
from farmiq.device.node_agent.health import Health
from farmiq.device.node_agent.sampler import Group, next_due, read_all, sample
from farmiq.device.node_agent.stamps import Stamps
from farmiq.kit.clock import Clock
from farmiq.kit.lifecycle import Lifetime
from support.waiting import eventually

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
GOOD = Channel(metric="temperature", unit="C", sensor="good")
BAD = Channel(metric="temperature", unit="C", sensor="bad")


@given(late_seconds=st.floats(0, 1000), interval_seconds=st.floats(0.01, 60))
def test_the_next_sample_is_due_ahead_on_the_grid_and_less_than_two_steps_away(
    late_seconds: float, interval_seconds: float
) -> None:
    due_at, now = 500.0, 500.0 + late_seconds
    following = next_due(due_at, now, interval_seconds)
    steps = (following - due_at) / interval_seconds
    assert abs(steps - round(steps)) < 1e-6
    assert now - 1e-6 <= following <= now + interval_seconds + 1e-6


def test_a_sample_in_time_is_followed_by_the_next_point_of_the_grid() -> None:
    assert next_due(500.0, 500.01, 1.0) == 501.0
    assert next_due(500.0, 503.7, 1.0) == 504.0


class HandClock(Clock):
    """Moved by the test alone; its wall may jump."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.wall = NOON

    def now(self) -> datetime:
        return self.wall

    def monotonic(self) -> float:
        return self.seconds

    def boottime_us(self) -> int:
        return round(self.seconds * 1_000_000)


class SteppedLife(Lifetime):
    """Every pause passes at once on the clock, a little late, as real ones do; ends after a number of turns."""

    def __init__(self, clock: HandClock, turns: int) -> None:
        super().__init__("node-agent", clock)
        self._hand = clock
        self._turns = turns

    async def pause(self, seconds: float) -> bool:
        self._hand.seconds += max(seconds, 0.0) + 0.004
        self._turns -= 1
        await asyncio.sleep(0)
        return self._turns > 0


class Scripted:
    """Answers what a function says, and remembers when it was asked."""

    def __init__(self, answer: Callable[[], Sequence[Reading]], clock: Clock | None = None) -> None:
        self._answer = answer
        self._clock = clock or Clock()
        self.asked_at: list[float] = []
        self.is_closed = False

    async def read(self) -> Sequence[Reading]:
        self.asked_at.append(self._clock.monotonic())
        return self._answer()

    async def close(self) -> None:
        self.is_closed = True


class Hanging:
    """Never answers."""

    async def read(self) -> Sequence[Reading]:
        await asyncio.Event().wait()
        raise AssertionError("nobody sets the event")

    async def close(self) -> None:
        pass


def group(driver: Driver, *channels: Channel, first_index: int = 0, interval_seconds: float = 1.0) -> Group:
    return Group("device", driver, channels, first_index, Pace(interval_seconds, 0.7 * interval_seconds))


def waiting(backlog: Backlog) -> list[Row]:
    offered = backlog.offer()
    return offered.rows if isinstance(offered, Samples) else []


async def test_the_grid_neither_drifts_with_slow_reads_nor_moves_with_the_wall_clock() -> None:
    clock = HandClock()

    def slow_and_jumping() -> list[Reading]:
        clock.seconds += 0.3
        clock.wall += timedelta(hours=[-5, 7, 0][len(driver.asked_at) % 3])
        return [20.0]

    driver = Scripted(slow_and_jumping, clock)
    backlog = Backlog(1000)
    stamps = Stamps(clock, lambda: 2, clock.boottime_us)
    await sample(SteppedLife(clock, 50), group(driver, GOOD), stamps, backlog, Health(backlog.news))
    assert driver.is_closed
    assert driver.asked_at[1:] == pytest.approx([1000.0 + turn + 0.004 for turn in range(1, 50)])
    rows = waiting(backlog)
    walls, monotonic = [row[0] for row in rows], [row[1] for row in rows]
    assert walls != sorted(walls)
    assert len(rows) == 50
    assert monotonic == sorted(set(monotonic))


async def test_a_read_that_takes_several_intervals_leaves_out_those_ticks_and_comes_back_to_the_grid() -> None:
    clock = HandClock()

    def late_once() -> list[Reading]:
        clock.seconds += 3.5 if len(driver.asked_at) == 2 else 0.01
        return [20.0]

    driver = Scripted(late_once, clock)
    backlog = Backlog(1000)
    stamps = Stamps(clock, lambda: 2, clock.boottime_us)
    await sample(SteppedLife(clock, 4), group(driver, GOOD), stamps, backlog, Health(backlog.news))
    assert driver.asked_at == pytest.approx([1000.0, 1001.004, 1005.004, 1006.004])


async def test_a_device_that_hangs_delays_nobody_and_its_sensors_are_named() -> None:
    life, backlog = Lifetime("node-agent"), Backlog(1000)
    health, stamps = Health(backlog.news), Stamps(Clock(), lambda: 2)
    quick = group(Scripted(lambda: [20.0]), GOOD, interval_seconds=0.02)
    stuck = group(Hanging(), BAD, first_index=1, interval_seconds=0.2)

    async def enough() -> bool:
        return len(backlog) >= 20 and health.faulty_sensors == ["bad"]

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(sample(life, quick, stamps, backlog, health))
        tasks.create_task(sample(life, stuck, stamps, backlog, health))
        await eventually(enough, what="samples of the one and the fault of the other")
        life.stopping.set()
    assert {row[2] for row in waiting(backlog)} == {0}


async def test_bad_readings_never_become_samples_and_their_neighbours_do() -> None:
    answers: list[Reading] = [math.nan, math.inf, Fault("broken"), 99.0, -99.0, 20.0, None]
    channels = [Channel(metric="temperature", unit="C", sensor=f"s{at}", min=-40, max=60) for at in range(7)]
    life, backlog = Lifetime("node-agent"), Backlog(1000)
    health, stamps = Health(backlog.news), Stamps(Clock(), lambda: 2)

    async def enough() -> bool:
        return len(backlog) >= 3

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(
            sample(life, group(Scripted(lambda: answers), *channels, interval_seconds=0.02), stamps, backlog, health)
        )
        await eventually(enough, what="three turns")
        life.stopping.set()
    assert {(row[2], row[4]) for row in waiting(backlog)} == {(5, 20.0)}
    assert health.faulty_sensors == ["s0", "s1", "s2", "s3", "s4"]


@pytest.mark.parametrize(
    ("answers", "said"),
    [([], "0 readings"), ([1.0, 2.0, 3.0], "3 readings"), (1 / 2, "TypeError"), (["warm", 1.0], "warm")],
    ids=["too few", "too many", "no list", "no number"],
)
async def test_a_driver_that_answers_nonsense_is_a_fault_and_no_crash(answers: object, said: str) -> None:
    readings = await read_all(group(Scripted(lambda: answers), GOOD, BAD))  # type: ignore[arg-type,return-value]  # nonsense on purpose
    assert isinstance(readings[0], Fault)
    assert said in readings[0].reason


async def test_whatever_a_driver_raises_is_a_fault_of_its_own_channels() -> None:
    def raises() -> list[Reading]:
        raise KeyError("t1")

    readings = await read_all(group(Scripted(raises), GOOD, BAD))
    assert readings == [Fault("device: KeyError: 't1'")] * 2


async def test_devices_read_at_the_same_moment_enter_in_order() -> None:
    """Every place (monotonic time, channel) is higher than the one before, also when the clock stands still."""
    clock = HandClock()
    life, backlog = Lifetime("node-agent"), Backlog(10_000)
    health, stamps = Health(backlog.news), Stamps(clock, lambda: 2, clock.boottime_us)
    groups = [
        group(Scripted(lambda: [1.0, 2.0]), GOOD, BAD, first_index=2 * at, interval_seconds=0.01 + at / 500)
        for at in range(4)
    ]

    async def enough() -> bool:
        return len(backlog) >= 80

    async with asyncio.TaskGroup() as tasks:
        for one in groups:
            tasks.create_task(sample(life, one, stamps, backlog, health))
        await eventually(enough, what="turns of all devices")
        life.stopping.set()
    places = [(row[1], row[2]) for row in waiting(backlog)]
    assert places == sorted(set(places))
    assert {channel for _, channel in places} == set(range(8))
