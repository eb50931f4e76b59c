"""Is a device there, and is what it measures new? From two clocks that only move forward, and from its goodbyes.

`last_rx_at` is our clock: when a message of the device last came. `last_sample_ts` is its own: the newest time it measured.
A replay moves the first and not the second. A goodbye, which is mostly the broker's last will, ends the first at once; what
the device had said before it may still be on its way, and is told apart by the device's own clock, compared with itself.
`docs/decisions/0006-liveness.md` says why. Times that our clock wrote while it was ahead count for nothing
(`docs/decisions/0029-a-clock-that-was-ahead-stops-nothing.md`).
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final, Literal

import msgspec

from farmiq.contracts.status import DeviceStatus
from farmiq.contracts.timestamps import to_us
from farmiq.kit.due_times import AHEAD_SECONDS
from farmiq.timeseries.samples import SingleReading, StreamBatch
from farmiq.timeseries.stream import Origin

State = Literal["online", "quiet", "idle", "never_heard", "revoked"]
"""A `quiet` device has a schedule and sends nothing. An `idle` one sends nothing either, and nothing is expected of it."""

REGULAR_PAUSE: Final = timedelta(minutes=5)
"""The longest pause between two messages of a device that sends regularly: sensors are read once a minute or more often."""
REGULAR_SPAN: Final = timedelta(minutes=10)
"""A device that sent regularly for this long has a schedule. A person who tries it out by hand stops earlier."""

SensorKey = tuple[str, str]
"""Metric, and sensor or ''."""


class Heard(msgspec.Struct, frozen=True):
    """One message: when the device says it was made, and the newest time, in microseconds, of each sensor in it."""

    origin: Origin
    said_at: datetime
    newest_us: Mapping[SensorKey, int] = {}
    status: DeviceStatus | None = None

    @property
    def is_goodbye(self) -> bool:
        return self.status is not None and self.status.state == "offline"


class Signs(msgspec.Struct):
    """What some messages of one device, in the order in which they came, say about it."""

    origin: Origin
    is_alive: bool = False
    newest_us: dict[SensorKey, int] = {}
    said_at: datetime | None = None
    gone_said_at: datetime | None = None
    """The newest that it had said up to its last goodbye; None without one."""
    state: str | None = None
    figures: DeviceStatus | None = None

    def add(self, message: Heard) -> None:
        for sensor, at_us in message.newest_us.items():
            self.newest_us[sensor] = max(at_us, self.newest_us.get(sensor, at_us))
        self.said_at = message.said_at if self.said_at is None else max(self.said_at, message.said_at)
        if message.is_goodbye:
            self.gone_said_at = self.said_at
        else:
            self.is_alive = True
            self.figures = message.status or self.figures
        if message.status is not None:
            self.state = message.status.state


class Clocks(msgspec.Struct, frozen=True):
    """What is kept of a device's signs, as far as the decision needs it."""

    last_rx_at: datetime | None
    said_ts: datetime | None
    gone_at: datetime | None
    gone_ts: datetime | None
    scheduled_at: datetime | None = None
    """Since when the device is expected to send by itself: its first status, or the end of its first regular span."""


def newest_of(body: object) -> dict[SensorKey, int]:
    """The newest time of each sensor in a message, in microseconds."""
    match body:
        case StreamBatch(batch=batch):
            channels = [(channel.metric, channel.sensor or "") for channel in batch.channels]
            newest: dict[SensorKey, int] = {}
            times = batch.occurred_us
            samples = zip(batch.c, times, strict=True)
            # Sorted, the last time of a channel is its newest, also when the clock was set back in between. Most batches are
            # in the order of their times already, and finding that out costs a quarter of sorting them by channel.
            is_in_order = sorted(times) == times
            for channel, at_us in dict(samples if is_in_order else sorted(samples)).items():
                sensor = channels[channel]
                newest[sensor] = max(at_us, newest.get(sensor, at_us))
            return newest
        case SingleReading(metric=metric, occurred_at=occurred_at):
            return {(metric, ""): to_us(occurred_at)}
    return {}


def gather(messages: Iterable[Heard]) -> list[Signs]:
    """One for each device, in the order of their ids: rows are then locked in one order by every replica."""
    devices: dict[str, Signs] = {}
    for message in messages:
        device_id = message.origin.device_id
        if device_id not in devices:
            devices[device_id] = Signs(message.origin)
        devices[device_id].add(message)
    return [devices[device_id] for device_id in sorted(devices)]


def is_online(clocks: Clocks, now: datetime, online_timeout: timedelta) -> bool:
    if clocks.last_rx_at is None or not _is_since(clocks.last_rx_at, now, online_timeout):
        return False
    if clocks.gone_at is None or clocks.gone_ts is None or clocks.said_ts is None:
        return True
    has_said_something_new = clocks.said_ts > clocks.gone_ts
    # A device that came back without the time says nothing newer. Messages that still come this long after the goodbye
    # were not on their way when it was sent.
    return has_said_something_new or clocks.last_rx_at - clocks.gone_at >= online_timeout


def state_of(clocks: Clocks | None, *, is_revoked: bool, now: datetime, online_timeout: timedelta) -> State:
    """The device's state in one word. A device of which only a goodbye was received has been heard."""
    if is_revoked:
        return "revoked"
    if clocks is None or (clocks.last_rx_at is None and clocks.gone_at is None):
        return "never_heard"
    if is_online(clocks, now, online_timeout):
        return "online"
    return "quiet" if clocks.scheduled_at is not None else "idle"


def is_fresh(last_sample_ts: datetime | None, now: datetime, freshness_timeout: timedelta) -> bool:
    return last_sample_ts is not None and _is_since(last_sample_ts, now, freshness_timeout)


def _is_since(moment: datetime, now: datetime, timeout: timedelta) -> bool:
    """Less than `timeout` ago. Later than now was written by a clock that was ahead: nobody knows how long ago that was."""
    return -timedelta(seconds=AHEAD_SECONDS) <= now - moment < timeout
