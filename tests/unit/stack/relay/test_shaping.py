from random import Random

from hypothesis import given
from hypothesis import strategies as st

from farmiq.stack.relay.faults import (
    NO_FAULTS,
    Bandwidth,
    Faults,
    Latency,
    LimitData,
    ResetPeer,
    Slicer,
    SlowClose,
    Timeout,
)
from farmiq.stack.relay.shaping import Doom, Parcel, Shaper

CHUNKS = st.lists(st.tuples(st.floats(0, 0.5), st.binary(min_size=1, max_size=200)), min_size=1, max_size=20)
SECONDS = st.floats(0, 2)
FAULTS = st.builds(
    Faults,
    latency=st.none() | st.builds(Latency, seconds=SECONDS, jitter_seconds=SECONDS),
    bandwidth=st.none() | st.builds(Bandwidth, bytes_per_second=st.integers(1, 10_000)),
    slicer=st.none()
    | st.builds(
        Slicer, average_bytes=st.integers(1, 50), variation_bytes=st.integers(0, 60), delay_seconds=st.floats(0, 0.1)
    ),
    slow_close=st.none() | st.builds(SlowClose, seconds=SECONDS),
)


def shaper(faults: Faults = NO_FAULTS, seed: int = 1) -> Shaper:
    return Shaper(faults, Random(seed), 0.0)


@given(FAULTS, CHUNKS, st.integers(0, 1000))
def test_whatever_delays_them_bytes_stay_whole_and_in_order(
    faults: Faults, chunks: list[tuple[float, bytes]], seed: int
) -> None:
    under_test, now, parcels = shaper(faults, seed), 0.0, list[Parcel]()
    for pause_seconds, data in chunks:
        now += pause_seconds
        came = under_test.admit(data, now)
        assert all(parcel.due_at >= now for parcel in came)
        parcels += came
    parcels += under_test.finish(now)
    assert b"".join(parcel.data for parcel in parcels) == b"".join(data for _, data in chunks)
    assert [parcel.due_at for parcel in parcels] == sorted(parcel.due_at for parcel in parcels)
    assert [parcel.ending for parcel in parcels] == [None] * (len(parcels) - 1) + ["half"]


def test_without_faults_bytes_pass_at_once() -> None:
    assert shaper().is_transparent
    assert shaper().admit(b"abc", 5.0) == [Parcel(5.0, b"abc")]


def test_latency_moves_every_byte_by_the_same_time() -> None:
    late = shaper(Faults(latency=Latency(seconds=2.0)))
    assert late.admit(b"a", 1.0) == [Parcel(3.0, b"a")]
    assert late.admit(b"b", 1.5) == [Parcel(3.5, b"b")]
    assert late.finish(1.5) == [Parcel(3.5, b"", "half")]


def test_bandwidth_is_the_rate_over_all_chunks() -> None:
    slow = shaper(Faults(bandwidth=Bandwidth(bytes_per_second=100)))
    parcels = slow.admit(bytes(50), 0.0) + slow.admit(bytes(150), 0.1)
    assert round(parcels[-1].due_at, 6) == 2.0
    assert all(len(parcel.data) <= 2 for parcel in parcels)


def test_a_slicer_cuts_and_pauses() -> None:
    parcels = shaper(Faults(slicer=Slicer(average_bytes=10, delay_seconds=0.5))).admit(bytes(25), 0.0)
    assert [(parcel.due_at, len(parcel.data)) for parcel in parcels] == [(0.0, 10), (0.5, 10), (1.0, 5)]


def test_slow_close_delays_nothing_but_the_end() -> None:
    slow = shaper(Faults(slow_close=SlowClose(seconds=3.0)))
    assert slow.admit(b"a", 1.0) == [Parcel(1.0, b"a")]
    assert slow.finish(1.0) == [Parcel(4.0, b"", "half")]


def test_limit_data_lets_exactly_so_many_bytes_pass_and_ends_the_connection() -> None:
    limited = shaper(Faults(limit_data=LimitData(bytes=5)))
    assert limited.admit(b"abc", 1.0) == [Parcel(1.0, b"abc")]
    assert limited.admit(b"defg", 2.0) == [Parcel(2.0, b"de"), Parcel(2.0, b"", "whole")]


def test_timeout_swallows_bytes_and_the_end_and_remembers_it() -> None:
    silent = shaper(Faults(timeout=Timeout()))
    assert not silent.has_swallowed
    assert silent.admit(b"abc", 1.0) == []
    assert silent.finish(1.0) == []
    assert silent.doom() is None
    silent.change(NO_FAULTS, 2.0)
    assert silent.has_swallowed


def test_what_ends_a_connection_counts_from_when_it_was_told() -> None:
    assert shaper(Faults(reset_peer=ResetPeer(seconds=2.0))).doom() == Doom(2.0, is_reset=True)
    assert shaper(Faults(timeout=Timeout(seconds=3.0))).doom() == Doom(3.0, is_reset=False)
    changed = shaper()
    changed.change(Faults(reset_peer=ResetPeer(seconds=2.0)), 10.0)
    assert changed.doom() == Doom(12.0, is_reset=True)
