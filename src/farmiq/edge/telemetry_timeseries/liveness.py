"""When a device was heard, and how new its newest sample is. Both only move forward, whatever is replayed."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from farmiq.contracts.status import DeviceStatus
from farmiq.timeseries.stream import Origin


class Heard(msgspec.Struct, frozen=True):
    """One sign of life: samples, or what the device says of itself."""

    origin: Origin
    last_sample_at: datetime | None = None
    status: DeviceStatus | None = None


def latest(signs: Iterable[Heard]) -> list[Heard]:
    """One sign for each device, in the order of their ids: rows are then locked in one order by every replica."""
    by_device: dict[str, Heard] = {}
    for sign in signs:
        known = by_device.get(sign.origin.device_id)
        by_device[sign.origin.device_id] = sign if known is None else _merged(known, sign)
    return [by_device[device_id] for device_id in sorted(by_device)]


def _merged(earlier: Heard, later: Heard) -> Heard:
    times = [at for at in (earlier.last_sample_at, later.last_sample_at) if at is not None]
    return Heard(later.origin, max(times, default=None), later.status or earlier.status)
