"""Rows to bytes: each event in its bus envelope, and as many events as fit into one request."""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from farmiq.contracts.decoding import Unencodable, encode
from farmiq.contracts.envelope import BusEnvelope
from farmiq.contracts.sync import UNDERSTANDS_HELD, EdgeBatch
from farmiq.edge.sync_forwarder.cloud_epochs import UNKNOWN, KnownEpoch
from farmiq.outbox.event import ClaimedEvent
from farmiq.outbox.verdicts import Failure


class Sealed(Struct, frozen=True):
    """One event, ready to be sent."""

    event: ClaimedEvent
    body: bytes


def seal(events: Sequence[ClaimedEvent]) -> tuple[list[Sealed], list[tuple[ClaimedEvent, Failure]]]:
    """The events in their envelopes, and those that no envelope can hold: an operator may insert what he likes."""
    sealed: list[Sealed] = []
    unsendable: list[tuple[ClaimedEvent, Failure]] = []
    for event in events:
        try:
            sealed.append(Sealed(event, encode(_envelope(event))))
        except (ValueError, Unencodable) as error:
            unsendable.append((event, Failure("UNSENDABLE", str(error))))
    return sealed, unsendable


def split(sealed: Sequence[Sealed], bytes_max: int) -> Iterator[list[Sealed]]:
    """In order, in runs of at most `bytes_max`. An event that is larger by itself goes alone: the cloud judges it."""
    run: list[Sealed] = []
    size = 0
    for item in sealed:
        if run and size + len(item.body) > bytes_max:
            yield run
            run, size = [], 0
        run.append(item)
        size += len(item.body) + 1
    if run:
        yield run


def batch_body(
    batch_id: str, edge_cluster_id: str, tenant_id: str, sealed: Sequence[Sealed], known: KnownEpoch = UNKNOWN
) -> bytes:
    return encode(
        EdgeBatch(
            batch_id=batch_id,
            edge_cluster_id=edge_cluster_id,
            tenant_id=tenant_id,
            events=[msgspec.Raw(item.body) for item in sealed],
            understands=[UNDERSTANDS_HELD],
            heard=known.as_heard,
        )
    )


def _envelope(event: ClaimedEvent) -> BusEnvelope:
    return BusEnvelope(
        event_id=event.id,
        event_type=event.event_type,
        tenant_id=event.tenant_id,
        farm_id=event.farm_id,
        barn_id=event.barn_id,
        device_id=event.device_id,
        session_id=event.session_id,
        occurred_at=event.occurred_at,
        # The column may be empty in a row that was inserted by hand; what stands here then is the same on every attempt.
        trace_id=event.trace_id or event.id.hex,
        payload=event.payload,
    )
