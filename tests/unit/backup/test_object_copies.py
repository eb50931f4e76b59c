import asyncio
import hashlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from farmiq.backup.manifest import OBJECT_LINES, ExpectedLine, ObjectLine, object_path, read_object_lines
from farmiq.backup.object_copies import Copies, Earlier, Sums, copy_objects, not_in
from farmiq.kit.s3 import Fetched, StoredObject

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


KEY = "tenants/demo/farms/f/barns/b/devices/d/images/2026/11/17/x.jpg"
RIGHT, ROTTEN = b"right bytes", b"wrong bytes"
RIGHT_SHA256 = hashlib.sha256(RIGHT).hexdigest()


class Bucket:
    """One object. Each fetch gives the next of its bodies, and the last one from then on."""

    def __init__(self, *bodies: bytes) -> None:
        self.bodies = list(bodies)
        self.fetched = 0

    async def list_folder(
        self, _bucket: str, prefix: str = "", *, page_size: int = 1000
    ) -> AsyncIterator[tuple[list[str], list[StoredObject]]]:
        assert page_size
        folder, slash, _ = KEY.removeprefix(prefix).partition("/")
        yield ([f"{prefix}{folder}/"], []) if slash else ([], [StoredObject(KEY, len(RIGHT), NOON)])

    async def fetch(self, _bucket: str, _key: str, path: Path) -> Fetched:
        body = self.bodies[min(self.fetched, len(self.bodies) - 1)]
        self.fetched += 1
        await asyncio.to_thread(path.write_bytes, body)
        return Fetched(len(body), hashlib.sha256(body).digest(), "image/jpeg")


def back_up(bucket: Bucket, folder: Path, previous: Path | None = None, sha256: str | None = RIGHT_SHA256) -> Copies:
    folder.mkdir()
    earlier = [] if previous is None else [Earlier(previous, previous / OBJECT_LINES)]
    sums = Sums([ExpectedLine(KEY, sha256)])
    return asyncio.run(copy_objects(bucket, "bucket", folder, earlier, lambda _: None, sums))  # type: ignore[arg-type]  # as much of a store as is used


def test_rotten_bytes_of_an_earlier_backup_are_never_linked(tmp_path: Path) -> None:
    """promise-cloud 5: the picture had rotted on Monday, and was mended on Tuesday. Its size is the same."""
    monday = back_up(Bucket(ROTTEN), tmp_path / "monday")
    assert (monday.damaged_count, monday.damaged) == (1, [KEY])
    tuesday = back_up(Bucket(RIGHT), tmp_path / "tuesday", tmp_path / "monday")
    assert (tuesday.fetched, tuesday.linked, tuesday.damaged_count) == (1, 0, 0)
    (line,) = read_object_lines(tmp_path / "tuesday" / OBJECT_LINES)
    assert line.sha256 == RIGHT_SHA256
    assert object_path(tmp_path / "tuesday", KEY).read_bytes() == RIGHT
    wednesday = back_up(Bucket(ROTTEN), tmp_path / "wednesday", tmp_path / "tuesday")
    assert (wednesday.fetched, wednesday.linked, wednesday.damaged_count) == (0, 1, 0), (
        "the earlier copy is the right one"
    )


def test_a_copy_that_was_changed_on_its_way_is_fetched_again(tmp_path: Path) -> None:
    bucket = Bucket(ROTTEN, RIGHT)
    copies = back_up(bucket, tmp_path / "one")
    assert (bucket.fetched, copies.damaged_count) == (2, 0)
    assert object_path(tmp_path / "one", KEY).read_bytes() == RIGHT


def test_a_picture_of_which_the_database_knows_no_checksum_is_linked_by_its_size(tmp_path: Path) -> None:
    back_up(Bucket(RIGHT), tmp_path / "one", sha256=None)
    copies = back_up(Bucket(RIGHT), tmp_path / "two", tmp_path / "one", sha256=None)
    assert (copies.linked, copies.damaged_count) == (1, 0)


@given(known=KEYS, asked=KEYS)
def test_checksums_are_found_in_one_walk(known: set[str], asked: set[str]) -> None:
    sums = Sums([ExpectedLine(key, f"sha of {key}") for key in in_order(known)])
    assert [sums.find(key) for key in in_order(asked)] == [
        f"sha of {key}" if key in known else None for key in in_order(asked)
    ]
