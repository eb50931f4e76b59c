from datetime import UTC, datetime
from uuid import UUID

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from farmiq.contracts.decoding import decode
from farmiq.contracts.envelope import BusEnvelope
from farmiq.contracts.limits import BUS_MESSAGE_BYTES_MAX
from farmiq.contracts.sync import decode_edge_batch
from farmiq.edge.sync_forwarder.envelopes import Sealed, batch_body, seal, split
from farmiq.outbox.event import ClaimedEvent

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = datetime(2026, 1, 2, tzinfo=UTC)


def claimed(number: int = 1, payload: bytes = b'{"a":1}', **fields: object) -> ClaimedEvent:
    given_fields = {
        "id": UUID(int=number),
        "claim_token": 1,
        "attempt_count": 0,
        "tenant_id": "demo",
        "farm_id": "farm-1",
        "barn_id": None,
        "device_id": "node-1",
        "session_id": None,
        "event_type": "test.event",
        "occurred_at": NOON,
        "is_time_known": True,
        "trace_id": "trace-1",
        "priority": 0,
        "is_suspect": False,
        "payload": msgspec.Raw(payload),
    }
    return msgspec.convert({**given_fields, **fields}, ClaimedEvent, strict=True)


def test_an_event_travels_as_it_was_written() -> None:
    (sealed,), unsendable = seal([claimed()])
    assert unsendable == []
    envelope = decode(BusEnvelope, sealed.body, max_bytes=BUS_MESSAGE_BYTES_MAX)
    assert (envelope.event_id, envelope.tenant_id, envelope.farm_id) == (UUID(int=1), "demo", "farm-1")
    assert (envelope.occurred_at, envelope.trace_id, bytes(envelope.payload)) == (NOON, "trace-1", b'{"a":1}')


def test_an_event_without_time_or_trace_is_the_same_on_every_attempt() -> None:
    bodies = {seal([claimed(occurred_at=LATER, is_time_known=False, trace_id=None)])[0][0].body for _ in range(3)}
    assert len(bodies) == 1
    envelope = decode(BusEnvelope, bodies.pop(), max_bytes=BUS_MESSAGE_BYTES_MAX)
    assert (envelope.occurred_at, envelope.trace_id) == (LATER, UUID(int=1).hex)


def test_what_no_envelope_can_hold_does_not_stop_its_neighbours() -> None:
    sealed, unsendable = seal([claimed(1), claimed(2, payload=b"[1]"), claimed(3)])
    assert [item.event.id.int for item in sealed] == [1, 3]
    ((event, failure),) = unsendable
    assert (event.id.int, failure.code) == (2, "UNSENDABLE")


def test_a_body_is_a_batch_that_the_cloud_can_read() -> None:
    sealed, _ = seal([claimed(1), claimed(2)])
    batch = decode_edge_batch(batch_body("b-1", "edge-1", "demo", sealed))
    assert (batch.batch_id, batch.edge_cluster_id, batch.tenant_id) == ("b-1", "edge-1", "demo")
    assert [bytes(event) for event in batch.events] == [item.body for item in sealed]


@given(sizes=st.lists(st.integers(1, 50), max_size=40), bytes_max=st.integers(1, 120))
def test_splitting_keeps_every_event_once_in_order_and_within_the_limit(sizes: list[int], bytes_max: int) -> None:
    event = claimed()
    sealed = [Sealed(event, bytes([index % 256]) * size) for index, size in enumerate(sizes)]
    runs = list(split(sealed, bytes_max))
    assert [item for run in runs for item in run] == sealed
    assert all(runs)
    assert all(len(run) == 1 or sum(len(item.body) for item in run) <= bytes_max for run in runs)
