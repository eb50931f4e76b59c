"""A device in one line: three marks that say how far it is safe, and what else a person wants to know of it."""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from msgspec import Struct

from farmiq.console.fleet.answers import Device, DeviceState, Stream

STATES: Final[Mapping[DeviceState, tuple[str, str]]] = {
    "online": ("good", "online"),
    "quiet": ("warn", "quiet"),
    "idle": ("none", "idle"),
    "never_heard": ("none", "never heard"),
    "revoked": ("none", "revoked"),
}
CLOCKS: Final[Mapping[int, tuple[str, str]]] = {
    0: ("warn", "clock not known"),
    1: ("warn", "clock runs on"),
    2: ("good", "clock synchronised"),
    3: ("good", "clock corrected"),
}


class DeviceRow(Struct, frozen=True):
    """Sequence numbers of the stream that the device is writing. None: not known, or the device numbers nothing.

    `edge_lag` and `cloud_lag` count what the next place does not have yet."""

    device: Device
    on_disk: int | None
    in_edge: int | None
    in_cloud: int | None
    edge_lag: int | None
    cloud_lag: int | None

    @property
    def state(self) -> tuple[str, str]:
        return STATES[self.device.state]

    @property
    def clock(self) -> tuple[str, str] | None:
        quality = self.device.time_quality
        return None if quality is None else CLOCKS.get(quality, ("warn", "clock not known"))

    @property
    def waits(self) -> str | None:
        """What a weigh station has not got rid of yet. None for whoever is none: it has marks instead."""
        status = self.device.status
        if status is None or status.pictures_waiting_count is None:
            return None
        return (
            f"{_several(status.unacked_count or 0, 'event')}, {_several(status.pictures_waiting_count, 'picture')} wait"
        )

    @property
    def failed(self) -> str | None:
        """Weighings of which the station had to give something up."""
        count = self.device.status.failed_sessions_count if self.device.status else None
        return f"{_several(count, 'session')} failed" if count else None

    @property
    def spool_percent(self) -> float | None:
        status = self.device.status
        if status is None or status.spool_bytes is None or not status.spool_bytes_max:
            return None
        return 100.0 * status.spool_bytes / status.spool_bytes_max


def _several(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def device_rows(devices: Sequence[Device], cloud: Sequence[Stream] | None) -> list[DeviceRow]:
    """`cloud`: the streams that the cloud has of these devices, None when it could not be asked."""
    there = None if cloud is None else {stream.stream_id: stream for stream in cloud}
    return [_row(device, there) for device in devices]


def _row(device: Device, there: Mapping[UUID, Stream] | None) -> DeviceRow:
    marks = device.marks
    if marks is None:
        return DeviceRow(device, None, None, None, None, None)
    stream = None if there is None else there.get(marks.stream_id)
    in_cloud = None if there is None else (stream.contiguous_seq if stream else 0)
    # The node speaks each ten seconds, the edge at each batch: it may be ahead of the node's last word.
    edge_lag = None if marks.captured_seq is None else max(0, marks.captured_seq - marks.edge_contiguous_seq)
    cloud_lag = None if in_cloud is None else max(0, marks.edge_contiguous_seq - in_cloud)
    on_disk = None if marks.captured_seq is None else max(marks.captured_seq, marks.edge_contiguous_seq)
    return DeviceRow(device, on_disk, marks.edge_contiguous_seq, in_cloud, edge_lag, cloud_lag)
