from datetime import UTC, datetime
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from farmiq.backup.manifest import ObjectLine
from farmiq.backup.object_copies import Earlier, not_in
from farmiq.kit.s3 import StoredObject

KEYS = st.sets(st.text(max_size=4), max_size=12)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def in_order(keys: set[str]) -> list[str]:
    return sorted(keys, key=str.encode)


@given(wanted=KEYS, held=KEYS)
def test_two_lists_in_byte_order_are_compared_in_one_walk(wanted: set[str], held: set[str]) -> None:
    assert list(not_in(iter(in_order(wanted)), iter(in_order(held)))) == in_order(wanted - held)


def test_an_earlier_copy_counts_only_with_the_same_key_and_size(tmp_path: Path) -> None:
    lines = tmp_path / "objects.jsonl"
    known = [ObjectLine(key, 10, "00", "image/jpeg") for key in ("a", "c", "d")]
    lines.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in known))
    earlier = Earlier(tmp_path, lines)
    asked = [("a", 10), ("b", 10), ("c", 11), ("d", 10), ("e", 10)]
    found = [earlier.find(StoredObject(key, size, NOON)) is not None for key, size in asked]
    assert found == [True, False, False, True, False]
