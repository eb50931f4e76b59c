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
AnswerNumber = Annotated[int, Meta(ge=0, lt=2**62)]
"""The answers to one edge and tenant, counted by the cloud across all its epochs: the number only grows."""


class SyncBatchSent(Struct, frozen=True, kw_only=True):
    batch_id: Id
    event_count: EventCount
    edge_cluster_id: Id


class SyncBatchAcked(Struct, frozen=True, kw_only=True):
    batch_id: Id
    event_count: EventCount
    status: Literal["acked"]


AnswerToken = Annotated[int, Meta(ge=0, lt=2**31)]
"""Made at random: a cloud that went back counts the same numbers once more, and never the same answers."""
ANSWER_TOKENS_MAX: Final = 128


class HeardAnswer(Struct, frozen=True, kw_only=True):
    """The last answer for a tenant that the edge has written down, and its token. A cloud that has counted less far, or has given
    this number with another token, has lost some of its answers."""

    epoch: UUID
    answer: AnswerNumber
    token: AnswerToken


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
    heard: HeardAnswer | None = None


class EventResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`event_id` is absent when the event was too broken to have one: then its place in `results` tells which it was."""

    status: EventStatus
    event_id: UUID | None = None
    code: Id | None = None
    message: Annotated[str, Meta(max_length=512)] | None = None


class CloudEpoch(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The epoch of the cloud's database that answers. A new one begins when a backup is restored there, when it finds out that it
    has lost commits, or when a person wants everything once more.

    An edge that hears of a new one sends again what answers later than `resend_after` acknowledged: everything that it still has,
    when that is absent. `began_at` and `resend_since` are what edges of 0.1.0 go by, which know no numbers.
    """

    epoch: UUID
    began_at: datetime
    resend_since: datetime | None = None
    answer: AnswerNumber | None = None
    tokens: Annotated[list[AnswerToken], Meta(max_length=ANSWER_TOKENS_MAX)] = []
    """Of this answer and of those before it, back to the one that the edge says it heard; the last is this one's."""
    resend_after: AnswerNumber | None = None


class EdgeBatchAnswer(Struct, frozen=True, kw_only=True):
    """One result for each event, in the order of the events. `life` is the epoch; a cloud older than that does not say it."""

    batch_id: Id | None
    accepted: EventCount
    duplicates: EventCount
    results: Annotated[list[EventResult], Meta(max_length=EDGE_BATCH_EVENTS_MAX)]
    life: CloudEpoch | None = None


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


def answer_of(batch_id: str | None, results: Sequence[EventResult], epoch: CloudEpoch | None = None) -> EdgeBatchAnswer:
    return EdgeBatchAnswer(
        batch_id=batch_id,
        accepted=sum(result.status == "accepted" for result in results),
        duplicates=sum(result.status == "duplicate" for result in results),
        results=list(results),
        life=epoch,
    )
