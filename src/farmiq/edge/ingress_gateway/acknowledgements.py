"""What a device is told after the commit, gathered so that a busy stream gets one message for many batches."""

import contextlib
from collections.abc import Iterable
from datetime import datetime
from typing import Literal
from uuid import UUID

import msgspec
from msgspec import UNSET

from farmiq.contracts.ack import AckResult, DeviceAck, EventAck, PutOff, StreamHeld, TimeResponse
from farmiq.contracts.ids import InvalidId, check_device_id
from farmiq.contracts.telemetry import TIME_QUALITY_UNKNOWN
from farmiq.edge.telemetry_timeseries.intake import Mark

EVENTS_MAX = 1000
"""In one message, which stays well below the largest that the broker takes."""
WAITING_MAX = 20 * EVENTS_MAX
"""For one device."""


class Verdict(msgspec.Struct, frozen=True):
    """What became of one message of a device. `put_off`: it is not taken as things are, and the device keeps it."""

    device_id: str
    event_id: UUID
    result: AckResult | Literal["put_off"]
    code: str | None = None


class TimeRequest(msgspec.Struct, frozen=True):
    """A device's status that came at this time and is to be responded with the time."""

    device_id: str
    event_id: UUID
    received_at: datetime


class Pending:
    """Acknowledgements that have not reached the broker yet. The newest mark of a stream replaces an older one."""

    def __init__(self) -> None:
        self._epoch: UUID | None = None
        # By device too: a stream id that somebody else uses as well is another stream.
        self._marks: dict[tuple[str, UUID], Mark] = {}
        self._verdicts: dict[str, dict[UUID, Verdict]] = {}
        self._throttled: dict[str, float] = {}
        self._time_requests: dict[str, TimeRequest] = {}
        self._contradicted: dict[tuple[str, UUID], Mark] = {}
        self._reported: set[str] = set()
        self._commits = 0

    def __bool__(self) -> bool:
        waiting = (
            self._marks,
            self._verdicts,
            self._throttled,
            self._contradicted,
            self._reported,
            self._time_requests,
        )
        return any(waiting)

    def note(
        self,
        epoch: UUID,
        marks: Iterable[Mark],
        verdicts: Iterable[Verdict],
        contradicted: Iterable[Mark] = (),
        reported: Iterable[str] = (),
        commits: int = 0,
    ) -> None:
        """`contradicted`: streams of which other samples were sent; `reported`: devices that are told the epoch in any case."""
        if epoch != self._epoch:
            # What another life of the database held says nothing about this one.
            self._marks.clear()
            self._verdicts.clear()
            self._contradicted.clear()
            self._epoch = epoch
        for mark in marks:
            self._marks[mark.device_id, mark.stream_id] = mark
        for mark in contradicted:
            self._contradicted[mark.device_id, mark.stream_id] = mark
        self._reported.update(reported)
        self._commits = commits or self._commits
        for verdict in verdicts:
            of_device = self._verdicts.setdefault(verdict.device_id, {})
            of_device[verdict.event_id] = verdict
            if len(of_device) > WAITING_MAX:
                # The device sends what it heard nothing of again, and is told then.
                of_device.pop(next(iter(of_device)))

    def note_throttled(self, device_id: str, retry_after_seconds: float) -> None:
        """Part of the device's messages were over a limit. A name that is no device's gets no acknowledgement."""
        with contextlib.suppress(InvalidId):
            self._throttled[check_device_id(device_id)] = retry_after_seconds

    def note_time_requests(self, requests: Iterable[TimeRequest]) -> None:
        self._time_requests |= {request.device_id: request for request in requests}

    def take(self, now: datetime, clock_quality: int = TIME_QUALITY_UNKNOWN) -> list[tuple[str, DeviceAck]]:
        """Everything, as one message per stream, with a device's events in the first of its messages, and the rest in more.
        `clock_quality` is of the clock that says `now`."""
        if self._epoch is None:
            return []
        epoch, marks, self._marks = self._epoch, self._marks, {}
        throttled, self._throttled = self._throttled, {}
        messages = [
            (mark.device_id, _ack(epoch, now, self._verdicts_of(mark.device_id), mark)) for mark in marks.values()
        ]
        while self._verdicts:
            device_id = next(iter(self._verdicts))
            messages.append((device_id, _ack(epoch, now, self._verdicts_of(device_id))))
        requests, self._time_requests = self._time_requests, {}
        for device_id, request in requests.items():
            response = TimeResponse(event_id=request.event_id, received_at=request.received_at, quality=clock_quality)
            messages.append((device_id, DeviceAck(epoch=epoch, ts=now, time=response)))
        contradicted, self._contradicted = self._contradicted, {}
        for (device_id, _), mark in contradicted.items():
            messages.append((device_id, DeviceAck(epoch=epoch, ts=now, contradicted=[_held(mark)])))
        reported, self._reported = self._reported, set()
        unanswered = sorted(reported - {device_id for device_id, _ in messages})
        messages += [(device_id, DeviceAck(epoch=epoch, ts=now)) for device_id in unanswered]
        for device_id, seconds in throttled.items():
            messages.append((device_id, DeviceAck(epoch=epoch, ts=now, retry_after_seconds=seconds)))
        if not self._commits:
            return messages
        return [(device_id, msgspec.structs.replace(ack, commits=self._commits)) for device_id, ack in messages]

    def _verdicts_of(self, device_id: str) -> list[Verdict]:
        verdicts = list(self._verdicts.pop(device_id, {}).values())
        if rest := verdicts[EVENTS_MAX:]:
            self._verdicts[device_id] = {verdict.event_id: verdict for verdict in rest}
        return verdicts[:EVENTS_MAX]


def _ack(epoch: UUID, now: datetime, verdicts: Iterable[Verdict], mark: Mark | None = None) -> DeviceAck:
    events, put_off = [], []
    for one in verdicts:
        if one.result == "put_off":
            put_off.append(PutOff(event_id=one.event_id, code=one.code or "put_off"))
        else:
            events.append(EventAck(event_id=one.event_id, result=one.result, code=one.code))
    ack = DeviceAck(epoch=epoch, ts=now, events=events, put_off=put_off or UNSET)
    if mark is None:
        return ack
    return msgspec.structs.replace(
        ack, stream_id=mark.stream_id, acked_seq=mark.acked_seq, received=mark.above, boots=mark.boots or UNSET
    )


def _held(mark: Mark) -> StreamHeld:
    return StreamHeld(stream_id=mark.stream_id, acked_seq=mark.acked_seq, received=mark.above, boots=mark.boots)
