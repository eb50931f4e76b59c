import ctypes
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from farmiq.contracts.timestamps import to_us
from farmiq.device.boot import boottime_us
from farmiq.device.node_agent.stamps import Stamps
from farmiq.kit.clock import Clock
from farmiq.kit.time_quality import (
    HOLDOVER,
    SYNCHRONISED,
    UNKNOWN,
    TimeQuality,
    kernel_clock_is_disciplined,
)


class Kernel:
    def __init__(self, says: bool | None) -> None:
        self.says = says

    def __call__(self) -> bool | None:
        return self.says


class WallClock(Clock):
    def __init__(self, at: datetime) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at


NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def test_nobody_has_set_the_clock_then_a_service_does_then_it_falls_silent(tmp_path: Path) -> None:
    kernel = Kernel(False)
    quality = TimeQuality(Clock(), kernel, tmp_path / "synchronized")
    assert quality() == UNKNOWN
    kernel.says = True
    assert quality() == SYNCHRONISED
    kernel.says = False
    assert quality() == HOLDOVER


def test_an_agent_that_was_started_again_knows_from_the_mark_that_the_clock_was_set_in_this_boot(
    tmp_path: Path,
) -> None:
    mark = tmp_path / "synchronized"
    mark.touch()
    assert TimeQuality(Clock(), Kernel(False), mark)() == HOLDOVER


@pytest.mark.parametrize(("age", "expected"), [(timedelta(minutes=30), SYNCHRONISED), (timedelta(hours=30), HOLDOVER)])
def test_where_the_kernel_may_not_be_asked_the_age_of_the_mark_decides(
    tmp_path: Path, age: timedelta, expected: int
) -> None:
    mark = tmp_path / "synchronized"
    quality = TimeQuality(WallClock(NOON + age), Kernel(None), mark)
    assert quality() == UNKNOWN
    mark.touch()
    os.utime(mark, (NOON.timestamp(), NOON.timestamp()))
    assert quality() == expected


def test_this_machines_kernel_says_the_same_through_another_call() -> None:
    """`ntp_gettime` answers 5 while the clock is unsynchronised, and -1 where it may not be asked."""
    state = ctypes.CDLL(None).ntp_gettime(ctypes.create_string_buffer(256))
    assert kernel_clock_is_disciplined() == (None if state == -1 else state != 5)


def test_a_stamp_holds_both_clocks_and_the_quality() -> None:
    before = boottime_us()
    stamp = Stamps(WallClock(NOON), lambda: HOLDOVER).now()
    assert before <= stamp.monotonic_us <= boottime_us()
    assert (stamp.wall_us, stamp.quality) == (to_us(NOON), HOLDOVER)
