from uuid import uuid4

from farmiq.contracts.ack import DeviceAck, EventAck
from farmiq.edge.ingress_gateway.acknowledgements import EVENTS_MAX, WAITING_MAX, Pending, Verdict
from farmiq.edge.telemetry_timeseries.intake import Mark
from support.telemetry import NOW

EPOCH, STREAM = uuid4(), uuid4()


def test_many_batches_of_a_stream_become_one_acknowledgement_with_the_newest_mark() -> None:
    pending = Pending()
    for seq in (10, 20, 30):
        pending.note(EPOCH, [Mark(STREAM, "node-1", seq, [(40, 50)])], [])
    assert pending.take(NOW) == [
        ("node-1", DeviceAck(epoch=EPOCH, ts=NOW, stream_id=STREAM, acked_seq=30, received=[(40, 50)]))
    ]
    assert not pending
    assert pending.take(NOW) == []


def test_two_devices_with_one_stream_id_are_each_told_of_their_own() -> None:
    """Stream ids are unique within a tenant only: a stranger who uses one must not take its acknowledgements away."""
    pending = Pending()
    pending.note(EPOCH, [Mark(STREAM, "node-1", 30, []), Mark(STREAM, "stranger", 1, [])], [])
    assert {(device, ack.acked_seq) for device, ack in pending.take(NOW)} == {("node-1", 30), ("stranger", 1)}


def test_a_device_over_its_limit_is_told_when_to_come_back() -> None:
    pending = Pending()
    pending.note(EPOCH, [], [])
    pending.note_throttled("node-1", 30.0)
    pending.note_throttled("no device's name/", 30.0)
    assert pending.take(NOW) == [("node-1", DeviceAck(epoch=EPOCH, ts=NOW, retry_after_seconds=30.0))]
    assert not pending


def test_events_travel_with_their_devices_stream_or_alone() -> None:
    pending = Pending()
    mine, theirs = uuid4(), uuid4()
    pending.note(
        EPOCH,
        [Mark(STREAM, "node-1", 5, [])],
        [Verdict("node-1", mine, "stored"), Verdict("node-2", theirs, "rejected", "schema")],
    )
    first, second = pending.take(NOW)
    assert first[0] == "node-1"
    assert first[1].events == [EventAck(event_id=mine, result="stored")]
    assert second == (
        "node-2",
        DeviceAck(epoch=EPOCH, ts=NOW, events=[EventAck(event_id=theirs, result="rejected", code="schema")]),
    )


def test_marks_of_the_database_before_a_restore_are_not_sent_under_the_new_epoch() -> None:
    pending = Pending()
    pending.note(EPOCH, [Mark(STREAM, "node-1", 500, [])], [])
    restored, other_stream = uuid4(), uuid4()
    pending.note(restored, [Mark(other_stream, "node-2", 7, [])], [])
    assert [(device, ack.epoch, ack.acked_seq) for device, ack in pending.take(NOW)] == [("node-2", restored, 7)]


def test_verdicts_of_the_database_before_a_restore_are_not_told_at_all() -> None:
    """The device would let go of an event that the restored database does not hold. Not told, it sends it again."""
    pending = Pending()
    pending.note(EPOCH, [], [Verdict("station-1", uuid4(), "stored")])
    restored, kept = uuid4(), uuid4()
    pending.note(restored, [], [Verdict("station-1", kept, "stored")])
    ((_, ack),) = pending.take(NOW)
    assert (ack.epoch, ack.events) == (restored, [EventAck(event_id=kept, result="stored")])


def test_more_events_than_a_message_holds_are_told_in_several_and_the_first_goes_with_the_mark() -> None:
    pending = Pending()
    events = [uuid4() for _ in range(2 * EVENTS_MAX + 5)]
    pending.note(EPOCH, [Mark(STREAM, "node-1", 30, [])], [Verdict("node-1", event, "stored") for event in events])
    told = pending.take(NOW)
    assert [len(ack.events) for _, ack in told] == [EVENTS_MAX, EVENTS_MAX, 5]
    assert [ack.stream_id for _, ack in told] == [STREAM, None, None]
    assert [event.event_id for _, ack in told for event in ack.events] == events
    assert not pending


def test_a_flood_of_events_is_bounded_and_keeps_the_newest() -> None:
    pending = Pending()
    events = [uuid4() for _ in range(WAITING_MAX + 5)]
    pending.note(EPOCH, [], [Verdict("node-1", event_id, "stored") for event_id in events])
    assert [event.event_id for _, ack in pending.take(NOW) for event in ack.events] == events[5:]
