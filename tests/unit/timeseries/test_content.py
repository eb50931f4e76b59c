"""The digest of a block depends on its samples and on nothing else."""

import struct
from hashlib import sha256
from itertools import pairwise
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farmiq.contracts.limits import SEQ_LIMIT
from farmiq.contracts.telemetry import T_MAX_US, T_MIN_US, Channel, TelemetryBatch
from farmiq.timeseries.content import BLOCK_BITS, Block, BlockContent, SampleRows, content_of_rows, contents_of
from farmiq.timeseries.coverage import Span
from farmiq.timeseries.samples import StreamBatch
from farmiq.timeseries.stream import Origin

STREAM = UUID("0193c0de-0000-7000-8000-00000000abcd")
HERE = Origin("demo", "farm-1", "barn-1", "node-1")
CHANNELS = [
    Channel(metric="temperature", unit="C", sensor="t1"),
    Channel(metric="temperature", unit="C", sensor="t2"),
    Channel(metric="temperature", unit="F", sensor="t1"),
    Channel(metric="humidity"),
]
BORDER = 1 << BLOCK_BITS

Sample = tuple[int, int, float]
"""Channel, time, value."""

samples = st.tuples(
    st.integers(0, len(CHANNELS) - 1),
    st.integers(T_MIN_US, T_MAX_US),
    st.floats(allow_nan=False, allow_infinity=False),
)
runs = st.lists(samples, min_size=2, max_size=40)
first_seqs = st.one_of(st.integers(1, 60), st.integers(BORDER - 30, BORDER + 30), st.integers(1, SEQ_LIMIT - 100))


def batch(first: int, run: list[Sample], channels: list[Channel] = CHANNELS) -> StreamBatch:
    number = [channels.index(channel) for channel in CHANNELS]
    payload = TelemetryBatch(
        stream_id=STREAM, boot_id=STREAM, lane="live", seq0=first, time_quality=2, channels=channels,
        t=[at for _, at, _ in run], c=[number[channel] for channel, _, _ in run], v=[value for _, _, value in run],
    )  # fmt: skip
    return StreamBatch(HERE, payload)


def whole(first: int, run: list[Sample]) -> dict[Block, BlockContent]:
    item = batch(first, run)
    return contents_of([(item, item.span)])


def merged(*parts: dict[Block, BlockContent]) -> dict[Block, BlockContent]:
    found: dict[Block, BlockContent] = {}
    for part in parts:
        for block, content in part.items():
            found[block] = found.get(block, BlockContent(0, 0)).added(content)
    return found


def plain_hash(seq: int, channel: Channel, at_us: int, value: float) -> int:
    """The formula of decision 19, one number after another."""

    def mix(number: int) -> int:
        number ^= number >> 30
        number = number * 0xBF58476D1CE4E5B9 % 2**64
        number ^= number >> 27
        number = number * 0x94D049BB133111EB % 2**64
        return number ^ number >> 31

    name = msgspec.json.encode([channel.metric, channel.unit, channel.sensor])
    key = int.from_bytes(sha256(name).digest()[:8], "big")
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    return mix(mix(mix(seq * 0x9E3779B97F4A7C15 % 2**64 ^ key) ^ at_us % 2**64) ^ bits)


@given(first_seqs, runs)
def test_it_is_the_sum_that_the_decision_writes_down(first: int, run: list[Sample]) -> None:
    expected: dict[Block, BlockContent] = {}
    for seq, (channel, at_us, value) in enumerate(run, first):
        block = Block("demo", STREAM, seq >> BLOCK_BITS)
        one = BlockContent(1, plain_hash(seq, CHANNELS[channel], at_us, value) % 2**62)
        expected[block] = expected.get(block, BlockContent(0, 0)).added(one)
    assert whole(first, run) == expected


@given(first_seqs, runs, st.data())
def test_it_does_not_depend_on_how_samples_are_cut_and_ordered(
    first: int, run: list[Sample], data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(first + 1, first + len(run) - 1))))
    bounds = [first, *cuts, first + len(run)]
    spans: list[Span] = data.draw(st.permutations(list(pairwise(bounds))))
    other_order = data.draw(st.permutations(CHANNELS))
    own = [batch(low, run[low - first : high - first], other_order) for low, high in spans]
    assert contents_of((item, item.span) for item in own) == whole(first, run)
    assert merged(*(contents_of([(item, item.span)]) for item in own)) == whole(first, run)
    part_of_a_larger_batch = batch(first, run)
    assert contents_of((part_of_a_larger_batch, span) for span in spans) == whole(first, run)


@given(first_seqs, runs, st.data())
def test_any_change_of_one_sample_changes_it(first: int, run: list[Sample], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(run) - 1))
    other = data.draw(samples)
    changed = [*run[:place], other, *run[place + 1 :]]
    is_same = (other[:2], struct.pack("<d", other[2])) == (run[place][:2], struct.pack("<d", run[place][2]))
    assert (whole(first, changed) == whole(first, run)) is is_same


@given(first_seqs, runs, st.data())
def test_two_samples_that_change_places_change_it(first: int, run: list[Sample], data: st.DataObject) -> None:
    one, other = data.draw(st.lists(st.integers(0, len(run) - 1), min_size=2, max_size=2, unique=True))
    for fields in ((0,), (1,), (2,), (0, 1, 2)):
        swapped = [list(sample) for sample in run]
        for field in fields:
            swapped[one][field], swapped[other][field] = run[other][field], run[one][field]
        changed = [(int(channel), int(at), float(value)) for channel, at, value in swapped]
        assert (whole(first, changed) == whole(first, run)) is (repr(changed) == repr(run))


@given(st.integers(1, SEQ_LIMIT - 100), runs)
def test_the_same_samples_one_sequence_later_are_another_content(first: int, run: list[Sample]) -> None:
    here, later = whole(first, run), whole(first + 1, run)
    assert sum(one.digest for one in here.values()) != sum(one.digest for one in later.values())


@given(st.integers(1, BORDER - 50), runs)
def test_stored_rows_have_the_digest_of_the_batch_that_they_were(first: int, run: list[Sample]) -> None:
    rows = SampleRows(
        [*reversed(CHANNELS)],
        list(range(first, first + len(run))),
        [at for _, at, _ in run],
        [len(CHANNELS) - 1 - channel for channel, _, _ in run],
        [value for _, _, value in run],
    )
    total = BlockContent(0, 0)
    for one in whole(first, run).values():
        total = total.added(one)
    assert content_of_rows(rows) == total


def test_of_nothing_there_is_none() -> None:
    assert contents_of([]) == {}
    assert content_of_rows(SampleRows([], [], [], [], [])) == BlockContent(0, 0)


@pytest.mark.parametrize("value", [-0.0, 5e-324])
def test_the_bits_of_a_value_count(value: float) -> None:
    assert whole(1, [(0, 0, value), (0, 0, 1.0)]) != whole(1, [(0, 0, 0.0), (0, 0, 1.0)])
