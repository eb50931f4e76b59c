from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farmiq.contracts.status import DeviceStatus
from farmiq.edge.telemetry_timeseries.liveness import Clocks, Heard, Signs, gather, is_fresh, is_online, newest_of
from farmiq.timeseries.samples import SingleReading, StreamBatch
from support.telemetry import ELSEWHERE, HERE, NOW, START_US, batch_of

MINUTE = timedelta(seconds=60)
ONLINE, OFFLINE = DeviceStatus(state="online", spool_bytes=7), DeviceStatus(state="offline")


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def heard(said_ago: float, status: DeviceStatus | None = None) -> Heard:
    return Heard(HERE, ago(said_ago), {}, status)


@pytest.mark.parametrize(
    ("clocks", "expected"),
    [
        pytest.param(Clocks(None, None, None, None), False, id="never heard"),
        pytest.param(Clocks(None, ago(9), ago(1), ago(9)), False, id="nothing but its will"),
        pytest.param(Clocks(ago(59), ago(59), None, None), True, id="heard just in time"),
        pytest.param(Clocks(ago(60), ago(60), None, None), False, id="silent for too long"),
        pytest.param(Clocks(ago(2), ago(2), ago(1), ago(2)), False, id="said goodbye"),
        pytest.param(Clocks(ago(1), ago(1), ago(5), ago(6)), True, id="came back"),
        pytest.param(Clocks(ago(1), ago(6), ago(5), ago(6)), False, id="older messages came after the goodbye"),
        pytest.param(Clocks(ago(1), ago(6), ago(61), ago(6)), True, id="came back without a clock"),
        pytest.param(Clocks(ago(61), ago(6), ago(400), ago(6)), False, id="the end of an old queue"),
    ],
)
def test_a_device_is_online_when_it_was_heard_lately_and_has_not_gone_since(clocks: Clocks, expected: bool) -> None:
    assert is_online(clocks, NOW, MINUTE) is expected


def test_data_is_fresh_by_the_time_it_was_measured() -> None:
    assert is_fresh(ago(59), NOW, MINUTE)
    assert not is_fresh(ago(60), NOW, MINUTE)
    assert not is_fresh(None, NOW, MINUTE)


def test_the_newest_time_of_each_sensor_in_a_batch_counts_whatever_their_order() -> None:
    batch = batch_of(uuid4(), 1, 6)
    batch.t.reverse()
    newest = newest_of(StreamBatch(HERE, batch))
    assert newest == {("humidity", ""): START_US + 6_000_000, ("temperature", "t1"): START_US + 5_000_000}
    reading = SingleReading(HERE, uuid4(), NOW, "co2", 1.0, "ppm")
    assert list(newest_of(reading)) == [("co2", "")]
    assert newest_of(ONLINE) == {}


def test_messages_of_a_device_become_one_sign_and_devices_stand_in_order() -> None:
    there = Heard(ELSEWHERE, ago(3), {("co2", ""): 5})
    messages = [there, Heard(HERE, ago(9), {("co2", ""): 7}), Heard(HERE, ago(8), {("co2", ""): 6, ("rh", ""): 1})]
    here, elsewhere = gather(messages)
    assert here == Signs(HERE, is_alive=True, newest_us={("co2", ""): 7, ("rh", ""): 1}, said_at=ago(8))
    assert (elsewhere.origin, elsewhere.newest_us) == (ELSEWHERE, {("co2", ""): 5})


def test_a_goodbye_is_no_sign_of_life_and_keeps_the_last_figures() -> None:
    (alone,) = gather([heard(5, OFFLINE)])
    assert (alone.is_alive, alone.state, alone.figures, alone.gone_said_at) == (False, "offline", None, ago(5))
    (after,) = gather([heard(5, ONLINE), heard(100, OFFLINE)])
    assert (after.is_alive, after.state, after.figures) == (True, "offline", ONLINE)
    assert after.gone_said_at == after.said_at == ago(5), "a will carries the time at which the device connected"


def test_what_was_said_after_a_goodbye_is_told_from_what_was_said_before() -> None:
    (back,) = gather([heard(9), heard(100, OFFLINE), heard(2)])
    assert back.said_at is not None
    assert back.gone_said_at is not None
    assert back.said_at > back.gone_said_at
    (gone,) = gather([heard(2), heard(100, OFFLINE), heard(9)])
    assert gone.said_at == gone.gone_said_at


@given(
    st.lists(st.tuples(st.integers(0, 50), st.sampled_from([None, ONLINE, OFFLINE])), min_size=1, max_size=8),
    st.integers(1, 7),
)
def test_cutting_messages_into_micro_batches_changes_nothing(
    said: list[tuple[int, DeviceStatus | None]], cut: int
) -> None:
    """What the database keeps after each micro-batch, folded as its statement folds it."""
    messages = [heard(seconds, status) for seconds, status in said]
    whole, parts = Kept(), Kept()
    whole.save(gather(messages)[0])
    for first in range(0, len(messages), cut):
        parts.save(gather(messages[first : first + cut])[0])
    assert whole == parts


class Kept:
    """The columns of `device_liveness` that decide, as the upsert changes them."""

    def __init__(self) -> None:
        self.is_heard = False
        self.said_ts: datetime | None = None
        self.gone_ts: datetime | None = None

    def save(self, signs: Signs) -> None:
        known = [at for at in (self.said_ts,) if at is not None]
        if signs.gone_said_at is not None:
            self.gone_ts = max([*known, signs.gone_said_at])
        assert signs.said_at is not None
        self.said_ts = max([*known, signs.said_at])
        self.is_heard = self.is_heard or signs.is_alive

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kept) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # it changes


@pytest.mark.parametrize("days", [1, 365])
def test_a_time_that_a_clock_ahead_has_written_shows_nobody_online(days: int) -> None:
    """promise-device-edge 7: nobody would miss the device before the clock has come there."""
    later = NOW + timedelta(days=days)
    assert not is_online(Clocks(later, later, None, None), NOW, MINUTE)
    assert not is_fresh(later, NOW, MINUTE)
    assert is_online(Clocks(ago(-30), ago(-30), None, None), NOW, MINUTE), "half a minute that a time server took back"
    assert is_fresh(ago(-30), NOW, MINUTE)
