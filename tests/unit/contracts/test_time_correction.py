"""How a batch says by how much its node's clock was wrong: beside the times, which stay as they are."""

import random
from typing import Any

import msgspec
import pytest

from farmiq.contracts.decoding import MalformedMessage, decode
from farmiq.contracts.envelope import digest_of
from farmiq.contracts.event_types import TELEMETRY_BATCH_INGESTED
from farmiq.contracts.telemetry import T_MAX_US, TelemetryBatch, TimeSegment, pack_of
from farmiq.contracts.timestamps import from_us

STREAM = "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0001"
BATCH: dict[str, Any] = {
    "stream_id": STREAM, "boot_id": STREAM, "lane": "replay", "seq0": 11, "time_quality": 0,
    "channels": [{"metric": "temperature", "unit": "C"}],
    "t": [1_000_000 * n for n in range(1, 7)], "c": [0] * 6, "v": [float(n) for n in range(6)],
}  # fmt: skip


def batch_with(*segments: list[int]) -> TelemetryBatch:
    return decode(TelemetryBatch, msgspec.json.encode(BATCH | {"time_correction": segments}), max_bytes=10_000)


def test_samples_are_moved_by_the_segment_that_is_in_force_for_them() -> None:
    batch = batch_with([13, 3_000_000, 500, 100_000], [15, 5_000_000, -4_000_000, -1_000])
    assert batch.t == BATCH["t"]
    assert batch.occurred_us == [1_000_000, 2_000_000, 3_000_500, 4_000_600, 1_000_000, 1_999_999]


def test_a_batch_of_a_right_clock_is_not_one_byte_longer() -> None:
    batch = decode(TelemetryBatch, msgspec.json.encode(BATCH), max_bytes=10_000)
    assert batch.occurred_us == batch.t
    assert msgspec.json.decode(msgspec.json.encode(batch)).keys() == BATCH.keys()
    assert msgspec.json.decode(msgspec.json.encode(pack_of(batch, 12, 13))).keys() == BATCH.keys()


def test_a_batch_in_pieces_has_the_same_times() -> None:
    chance = random.Random(5)
    for _ in range(200):
        firsts = sorted(chance.sample(range(9, 17), chance.randint(1, 5)))
        segments = [
            [first, chance.randrange(10**7), chance.randrange(-(10**9), 10**15), chance.randrange(-(10**6), 10**6)]
            for first in firsts
        ]
        batch = batch_with(*segments)
        cut = chance.randint(11, 15)
        pieces = [pack_of(batch, 11, cut), pack_of(batch, cut + 1, 16)]
        assert [at for piece in pieces for at in piece.occurred_us] == batch.occurred_us


@pytest.mark.parametrize(
    "segments",
    [
        [],
        [[17, 0, 1, 0]],
        [[12, 0, 1, 0], [11, 0, 1, 0]],
        [[12, 0, 1, 0], [12, 0, 2, 0]],
        [[11, 0, T_MAX_US, 0]],
        [[11, 0, -(10**18), 0]],
        [[11, 0, 0, 10**7]],
        [[11, 0, 0.5, 0]],
        [[11, 0, 0]],
        [[0, 0, 0, 0]],
    ],
)
def test_a_correction_that_makes_no_sense_is_refused(segments: list[list[int]]) -> None:
    with pytest.raises(MalformedMessage, match="schema"):
        batch_with(*segments)


def test_a_pack_that_comes_again_with_another_correction_is_the_same_pack() -> None:
    """An edge that was restored makes it anew of what its node sends again, and the node may know better by then."""
    at, origin = from_us(1_000_000), ("farm", "barn", "node", None)
    packs = [
        BATCH,
        BATCH | {"time_correction": [[11, 0, 5, 0]]},
        BATCH | {"time_correction": [[11, 0, 7, 0], [12, 0, 8, 1]]},
    ]
    digests = {
        digest_of(TELEMETRY_BATCH_INGESTED, origin, at, msgspec.Raw(msgspec.json.encode(pack))) for pack in packs
    }
    assert len(digests) == 1


def test_a_segment_is_four_numbers() -> None:
    assert msgspec.json.encode(TimeSegment(1, 2, 3, 4)) == b"[1,2,3,4]"
