from dataclasses import replace
from datetime import UTC, datetime, timedelta

from farmiq.cli.flow import (
    Counted,
    Flow,
    Hold,
    Node,
    Outbox,
    Stream,
    dead_in,
    read_hold,
    read_node,
    read_outbox,
    said_by,
    streams_in,
)
from farmiq.cli.flow_sums import Balance, Pace, Rates, at_devices, at_edge, balance, is_drained, marks, removed

A, B = "stream-a", "stream-b"
NODE = Node(A, captured=100, waiting=40, oldest_seconds=4.0, runway_seconds=86_400.0, dropped=0)
IDLE = Outbox(0, 0, 0, 0.0)


def stream(contiguous: int, highest: int | None = None, stored: int | None = None, lost: int = 0) -> Stream:
    return Stream("node-1", contiguous, highest or contiguous, contiguous - lost if stored is None else stored, lost)


def flow(**parts: object) -> Flow:
    known = Flow(
        at=0.0, node=NODE, edge={A: stream(60)}, cloud={A: stream(50)}, outbox=IDLE, edge_free_bytes=2_500_000_000
    )
    return replace(known, **parts)  # type: ignore[arg-type]  # each test names the parts that it is about


def test_captured_is_told_by_whoever_knows_most() -> None:
    assert marks(flow()) == {A: 100}
    assert marks(flow(node=replace(NODE, captured=55))) == {A: 60}
    assert marks(flow(said={B: 70}, edge={A: stream(60), B: stream(72)})) == {A: 100, B: 72}
    assert marks(flow(node=None, edge=None)) == {A: 50}


def test_what_waits_at_the_devices_is_not_in_the_edge_database() -> None:
    waiting = at_devices(flow())
    assert (waiting.samples, waiting.oldest_seconds) == (40, 4.0)
    assert waiting.safe == "on the node's spool, room for 1 d 00 h"
    assert at_devices(flow(edge={A: stream(60, lost=10)})).samples == 40
    # The edge can't say what it has: the node knows what it was not told.
    assert at_devices(flow(edge=None)).samples == 40
    assert at_devices(flow(edge=None, node=None)).samples is None


def test_what_waits_at_the_edge_is_not_in_the_cloud_database() -> None:
    waiting = at_edge(flow(outbox=Outbox(3, 0, 0, 12.0)))
    assert (waiting.samples, waiting.oldest_seconds, waiting.safe) == (10, 12.0, "on the edge's disk, 2.5 GB free")
    assert at_edge(flow()).oldest_seconds is None
    assert at_edge(flow(cloud=None)).samples is None
    assert at_edge(flow(cloud={})).samples == 60


def test_a_balance_is_of_everything_up_to_the_marks_and_of_nothing_after_them() -> None:
    assert balance(flow(cloud={A: stream(120)}), {A: 100}) == Balance(100, 100, 0)
    assert balance(flow(cloud={A: stream(120, lost=7)}), {A: 100}) == Balance(100, 93, 7)
    behind = balance(flow(cloud={A: stream(50, highest=200, stored=80)}), {A: 100, B: 5})
    assert behind == Balance(105, 80, 0)
    assert behind.under_way == 25
    assert balance(flow(cloud=None), {A: 100}) is None


def test_it_is_drained_when_all_has_arrived_and_nothing_old_waits() -> None:
    arrived = flow(cloud={A: stream(100)})
    assert is_drained(arrived, {A: 100, B: 0}, 1.0)
    assert not is_drained(flow(cloud={A: stream(99, highest=150)}), {A: 100}, 1.0)
    assert not is_drained(arrived, {A: 100, B: 5}, 1.0)
    # Events that waited since before the healing are still there; new ones come all the time.
    assert not is_drained(replace(arrived, outbox=Outbox(2, 0, 0, 30.0)), {A: 100}, 5.0)
    assert is_drained(replace(arrived, outbox=Outbox(2, 0, 0, 1.0)), {A: 100}, 5.0)
    assert not is_drained(replace(arrived, outbox=None), {A: 100}, 5.0)
    assert not is_drained(replace(arrived, cloud=None), {A: 100}, 5.0)


def test_a_counter_of_a_new_process_began_at_zero() -> None:
    before = {"gateway": Counted(1, 10), "ingestion": Counted(2, 5)}
    assert removed(before, {"gateway": Counted(1, 12), "ingestion": Counted(2, 5)}) == 2
    assert removed(before, {"gateway": Counted(9, 3), "ingestion": Counted(2, 6)}) == 4
    assert removed({}, {"gateway": Counted(1, 12)}) == 0


def test_rates_are_of_the_last_seconds_and_unknown_where_nobody_answers() -> None:
    pace = Pace()
    assert pace.look(flow()) == Rates(None, None, None)
    later = flow(at=2.0, node=replace(NODE, captured=110), edge={A: stream(80)}, cloud=None)
    assert pace.look(later) == Rates(5.0, 10.0, None)
    for second in range(3, 20):
        rates = pace.look(flow(at=float(second), node=replace(NODE, captured=110), edge={A: stream(80)}))
    assert rates == Rates(0.0, 0.0, 0.0)


def test_the_answers_of_the_services_are_read_as_they_come() -> None:
    assert read_node(
        {"stream_id": A, "last_captured_seq": 9, "unacked_count": 2, "oldest_sample_age_seconds": 1.5}
    ) == Node(A, 9, 2, 1.5, None, 0)
    row = {"stream_id": A, "device_id": "node-1", "contiguous_seq": 3, "highest_seq": 9, "stored": 5, "lost": 1}
    assert streams_in([row]) == {A: Stream("node-1", 3, 9, 5, 1)}
    mark = {"stream_id": A, "captured_seq": 7}
    assert said_by(
        [
            {"online": True, "marks": mark},
            {"online": False, "marks": mark | {"stream_id": B}},
            {"online": True, "marks": None},
            {"online": True, "marks": {"stream_id": "c", "captured_seq": None}},
        ]
    ) == {A: 7}
    state = {"pending_count": 1, "claimed_count": 2, "dlq_count": 3, "oldest_pending_age_seconds": 4}
    assert read_outbox(state) == Outbox(1, 2, 3, 4.0)
    assert dead_in({"queues": [{"messages": 1}, {"messages": 2}]}) == 3


def test_the_reason_is_the_closed_way_to_the_cloud_else_the_event_that_was_refused() -> None:
    link = {
        "tenant_id": "demo",
        "consecutive_failures": 3,
        "paused_until": "2026-11-18T10:00:41Z",
        "last_error_code": "TIMEOUT",
    }
    entry = {
        "attempt_count": 2,
        "last_error_code": "HTTP_500",
        "last_error_message": "the cloud failed",
        "next_attempt_at": "2026-11-18T10:05:00Z",
    }
    holder = {"since": "2026-11-18T09:59:00Z", "lease_expires_at": "2026-11-18T10:01:00Z"}
    at = datetime(2026, 11, 18, 10, tzinfo=UTC)
    closed = read_hold({"holders": [], "links": [link]}, [entry])
    assert closed == Hold(3, "TIMEOUT", at + timedelta(seconds=41))
    well = link | {"consecutive_failures": 0}
    refused = read_hold({"holders": [], "links": [well]}, [entry])
    assert refused == Hold(2, "HTTP_500: the cloud failed", at + timedelta(minutes=5))
    sending = read_hold({"holders": [holder], "links": []}, [entry | {"last_error_code": None}])
    minute = timedelta(minutes=1)
    assert sending == Hold(in_flight_since=at - minute, lease_expires_at=at + minute)
