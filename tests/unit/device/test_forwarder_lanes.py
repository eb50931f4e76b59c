from hypothesis import given
from hypothesis import strategies as st

from farmiq.device.node_forwarder.lanes import Lanes
from farmiq.device.node_forwarder.throttle import Throttle

received_ranges = st.lists(
    st.tuples(st.integers(1, 90), st.integers(0, 15)).map(lambda r: (r[0], r[0] + r[1])), max_size=5
)


@given(acked=st.integers(0, 100), received=received_ranges, step=st.integers(1, 40))
def test_the_replay_sends_everything_that_the_edge_has_not_named_once_and_in_order(
    acked: int, received: list[tuple[int, int]], step: int
) -> None:
    lanes = Lanes(synced_seq=100, acked_seq=acked)
    lanes.acknowledged(acked, received)
    sent: list[int] = []
    while (stretch := lanes.next_replay()) is not None:
        after, end = stretch
        last = min(end, after + step)
        sent += range(after + 1, last + 1)
        lanes.sent_replay(last)
    held = {seq for first, last in received for seq in range(first, last + 1)} | set(range(1, acked + 1))
    assert sent == [seq for seq in range(1, 101) if seq not in held]


def test_live_samples_do_not_wait_for_the_replay_and_are_not_sent_by_it() -> None:
    lanes = Lanes(synced_seq=100, acked_seq=0)
    lanes.sent_live(120)
    assert lanes.next_replay() == (0, 100)
    lanes.sent_replay(100)
    assert not lanes.is_replaying
    assert lanes.published_seq == 120


def test_a_new_connection_sends_again_what_is_not_acknowledged_also_what_was_live() -> None:
    lanes = Lanes(synced_seq=100, acked_seq=0)
    lanes.sent_live(120)
    lanes.sent_replay(100)
    lanes.acknowledged(110, [])
    lanes.restart(synced_seq=130, acked_seq=110)
    assert lanes.next_replay() == (110, 130)
    assert lanes.live_after == 130
    assert lanes.published_seq == 120


def test_an_edge_that_has_forgotten_gets_it_all_again() -> None:
    lanes = Lanes(synced_seq=100, acked_seq=90)
    lanes.sent_live(120)
    lanes.went_back(40, [(50, 60)])
    assert lanes.next_replay() == (40, 49)
    lanes.sent_replay(49)
    assert lanes.next_replay() == (60, 120)


@given(
    sizes=st.lists(st.integers(1, 20_000), min_size=1, max_size=200),
    messages_per_second=st.integers(1, 500),
    bytes_per_second=st.integers(1000, 100_000),
)
def test_the_throttle_keeps_below_both_rates_after_the_first_second(
    sizes: list[int], messages_per_second: int, bytes_per_second: int
) -> None:
    now = 1000.0
    throttle = Throttle(messages_per_second, bytes_per_second, now)
    for size in sizes:
        now += throttle.spend(size, now)
    seconds = now - 1000.0
    assert len(sizes) <= messages_per_second * (seconds + 1) * 1.001 + 1
    assert sum(sizes) <= bytes_per_second * (seconds + 1) * 1.001 + 1


def test_starting_over_and_an_edge_that_forgot_begin_a_new_turn() -> None:
    lanes = Lanes(synced_seq=10, acked_seq=0)
    turns = [lanes.turn]
    lanes.restart(synced_seq=10, acked_seq=0)
    turns.append(lanes.turn)
    lanes.went_back(3, [])
    turns.append(lanes.turn)
    lanes.acknowledged(5, [])
    assert (turns, lanes.turn) == ([0, 1, 2], 2)
