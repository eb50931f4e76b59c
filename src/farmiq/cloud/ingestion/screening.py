"""What of a batch can be accepted, event by event. Pure: nothing is known here of what came before."""

from collections.abc import Callable, Sequence
from typing import TypeAlias
from uuid import UUID

import msgspec
from msgspec import Raw, Struct

from farmiq.cloud.ingestion.edges import Edge
from farmiq.contracts.bus import EDGE_HEADER, exchange_for
from farmiq.contracts.decoding import MalformedMessage, decode, encode
from farmiq.contracts.envelope import BUS_PAYLOADS, BusEnvelope, content_digest, payload_of
from farmiq.contracts.limits import BUS_MESSAGE_BYTES_MAX
from farmiq.contracts.sync import EdgeBatch, EventResult, event_id_of
from farmiq.contracts.telemetry import TelemetryBatchIngested
from farmiq.kit.amqp import Outgoing
from farmiq.kit.http_server import ApiError

Key: TypeAlias = tuple[str, UUID]


class Candidate(Struct, frozen=True):
    """An event that may be accepted, and the message that it would be on the bus. `pack`: what it holds, if it is one."""

    key: Key
    message: Outgoing
    envelope: BusEnvelope
    edge_cluster_id: str
    content_hash: bytes
    pack: TelemetryBatchIngested | None = None


def refuse_strangers(edge: Edge, batch: EdgeBatch) -> None:
    """The credential says who the edge is. A batch that says otherwise was sent to the wrong place, or by the wrong edge."""
    if batch.edge_cluster_id not in {None, edge.edge_cluster_id}:
        raise ApiError(403, "edge_forbidden", f"This token does not belong to edge {batch.edge_cluster_id}")
    if batch.tenant_id is not None and batch.tenant_id not in edge.tenant_ids:
        raise ApiError(403, "tenant_forbidden", f"This edge may not send for tenant {batch.tenant_id}")


def screen(edge: Edge, events: Sequence[Raw], new_trace_id: Callable[[], str]) -> list[Candidate | EventResult]:
    """In the order of the events: a candidate, or the result that says why it is none."""
    return [_screen_one(edge, event, new_trace_id) for event in events]


def _screen_one(edge: Edge, event: Raw, new_trace_id: Callable[[], str]) -> Candidate | EventResult:
    try:
        envelope = decode(BusEnvelope, event, max_bytes=BUS_MESSAGE_BYTES_MAX)
        # Types that we do not know travel as they are; a payload that we know must be what it claims to be.
        payload = payload_of(envelope) if envelope.event_type in BUS_PAYLOADS else None
    except MalformedMessage as refusal:
        return rejected(event_id_of(event), refusal.code, refusal.detail)
    if envelope.tenant_id not in edge.tenant_ids:
        return rejected(
            envelope.event_id, "tenant_forbidden", f"this edge may not send for tenant {envelope.tenant_id}"
        )
    if envelope.trace_id is None:
        envelope = msgspec.structs.replace(envelope, trace_id=new_trace_id())
    pack = payload if isinstance(payload, TelemetryBatchIngested) else None
    key = (envelope.tenant_id, envelope.event_id)
    return Candidate(key, _message(edge, envelope), envelope, edge.edge_cluster_id, content_digest(envelope), pack)


def rejected(event_id: UUID | None, code: str, message: str) -> EventResult:
    return EventResult(event_id=event_id, status="rejected", code=code, message=message)


def _message(edge: Edge, envelope: BusEnvelope) -> Outgoing:
    # Written anew and not passed on as it came: a name that stood in it twice now stands in it once, with the value
    # that was checked here, for consumers of every kind.
    return Outgoing(
        exchange_for(envelope.event_type),
        envelope.event_type,
        encode(envelope),
        str(envelope.event_id),
        {"x-trace-id": envelope.trace_id, EDGE_HEADER: edge.edge_cluster_id},
    )
