"""Edge to cloud: the HTTP batch, its answer event by event, and the two bus events about batches."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final, Literal
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from farmiq.contracts.decoding import MalformedMessage, parse, refuse_depth, refuse_size
from farmiq.contracts.ids import Id
from farmiq.contracts.limits import EDGE_BATCH_BYTES_MAX, EDGE_BATCH_DEPTH_MAX, EDGE_BATCH_EVENTS_MAX

EventStatus = Literal["accepted", "duplicate", "held", "rejected"]
"""`held`: nothing is wrong with the event, and a person decides when the cloud takes it. It is sent only to an edge that
`understands` it; to any other it is `rejected`, with the same code."""

UNDERSTANDS_HELD: Final = "held"

DEVICE_OF_ANOTHER_EDGE: Final = "device_of_another_edge"
"""The whole device is held for this edge: it belongs to another one."""
SESSION_OF_ANOTHER_EDGE: Final = "session_of_another_edge"
"""The weigh session is held for this edge: its device, or who delivered it first, belongs to another one."""
DEVICE_MOVED: Final = "device_moved"
"""This event is held: it occurred after the device was moved away from this edge, whose earlier events are still taken."""
EventCount = Annotated[int, Meta(ge=0, lt=2**31)]


class SyncBatchSent(Struct, frozen=True, kw_only=True):
    batch_id: Id
    event_count: EventCount
    edge_cluster_id: Id


class SyncBatchAcked(Struct, frozen=True, kw_only=True):
    batch_id: Id
    event_count: EventCount
    status: Literal["acked"]


class EdgeBatch(Struct, frozen=True, kw_only=True):
    """`events` stay raw until each is decoded on its own, so that one poison event never fails its neighbours.

    The names are absent when the body was a bare array. Who the edge is, its credential says; these must only agree.
    """

    events: Annotated[list[msgspec.Raw], Meta(max_length=EDGE_BATCH_EVENTS_MAX)]
    batch_id: Id | None = None
    edge_cluster_id: Id | None = None
    tenant_id: Id | None = None
    understands: Annotated[list[Id], Meta(max_length=32)] = []
    """Words of an answer that 0.1.0 did not have, and that this edge can read. A cloud ignores those that it does not know."""


class EventResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`event_id` is absent when the event was too broken to have one: then its place in `results` tells which it was."""

    status: EventStatus
    event_id: UUID | None = None
    code: Id | None = None
    message: Annotated[str, Meta(max_length=512)] | None = None


class CloudLife(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which life of the cloud's database answers. It begins anew when a backup is restored there.

    An edge that hears of a new one sends again what was acknowledged since `resend_since`; absent, nothing was ever restored.
    """

    epoch: UUID
    began_at: datetime
    resend_since: datetime | None = None


class EdgeBatchAnswer(Struct, frozen=True, kw_only=True):
    """One result for each event, in the order of the events. A cloud older than `life` does not say it."""

    batch_id: Id | None
    accepted: EventCount
    duplicates: EventCount
    results: Annotated[list[EventResult], Meta(max_length=EDGE_BATCH_EVENTS_MAX)]
    life: CloudLife | None = None


class _EventId(Struct):
    event_id: UUID


def decode_edge_batch(data: bytes, *, max_bytes: int = EDGE_BATCH_BYTES_MAX) -> EdgeBatch:
    """Both forms of the body. The events inside have not been looked at yet: give each to `decode(BusEnvelope, ...)`."""
    refuse_size(data, max_bytes)
    refuse_depth(data, EDGE_BATCH_DEPTH_MAX)
    if data.lstrip(b" \t\r\n").startswith(b"["):
        events = parse(list[msgspec.Raw], data)
        if len(events) > EDGE_BATCH_EVENTS_MAX:
            raise MalformedMessage("schema", f"Expected `array` of length <= {EDGE_BATCH_EVENTS_MAX}")
        return EdgeBatch(events=events)
    return parse(EdgeBatch, data)


def event_id_of(event: msgspec.Raw) -> UUID | None:
    """The id of an event that may be malformed in any other way, for the answer about it."""
    try:
        return msgspec.json.decode(event, type=_EventId).event_id
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def answer_of(batch_id: str | None, results: Sequence[EventResult], life: CloudLife | None = None) -> EdgeBatchAnswer:
    return EdgeBatchAnswer(
        batch_id=batch_id,
        accepted=sum(result.status == "accepted" for result in results),
        duplicates=sum(result.status == "duplicate" for result in results),
        results=list(results),
        life=life,
    )
