"""Rows and objects side by side: every difference is found, and none is invented."""

import random
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from farmiq.kit.object_inventory import (
    Alike,
    Expected,
    Finding,
    NoObject,
    NoRow,
    NotInOrder,
    OtherSize,
    compare,
    judge,
    walk,
)
from farmiq.kit.s3 import StoredObject

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def row(key: str, size_bytes: int | None = 1, must_exist: bool = True) -> Expected:
    return Expected(key, size_bytes, "demo", uuid4(), must_exist)


def stored(key: str, size_bytes: int = 1) -> StoredObject:
    return StoredObject(key, size_bytes, NOW)


async def coming(items: Iterable[object]) -> AsyncIterator[object]:
    for item in items:
        yield item


async def findings(rows: Sequence[Expected], objects: Sequence[StoredObject]) -> list[Finding]:
    return [one async for one in compare(coming(rows), coming(objects))]  # type: ignore[arg-type]  # iterators of those


def test_what_one_key_means() -> None:
    a_row, optional, a_file = row("a"), row("a", must_exist=False), stored("a")

    assert judge(a_row, None) == NoObject(a_row)
    assert judge(optional, None) is None
    assert judge(None, a_file) == NoRow(a_file)
    assert judge(a_row, a_file) == Alike(a_row, a_file)
    assert judge(row("a", None), a_file) is not None
    assert isinstance(judge(row("a", 2), a_file), OtherSize)
    assert isinstance(judge(optional, a_file), Alike)


async def test_every_difference_is_found_whatever_the_two_sides_hold() -> None:
    rng = random.Random(3)
    for _ in range(300):
        keys = [f"{rng.choice('ab-/')}{number}" for number in range(rng.randint(0, 12))]
        rows = [row(key, rng.choice((1, 2)), rng.random() < 0.8) for key in keys if rng.random() < 0.7]
        objects = [stored(key) for key in keys if rng.random() < 0.7]
        rows.sort(key=lambda one: one.key.encode())
        objects.sort(key=lambda one: one.key.encode())

        found = await findings(rows, objects)

        by_row, by_object = {one.key: one for one in rows}, {one.key: one for one in objects}
        expected = [
            judgement
            for key in sorted(by_row.keys() | by_object.keys(), key=str.encode)
            if (judgement := judge(by_row.get(key), by_object.get(key))) is not None
        ]
        assert found == expected


@pytest.mark.parametrize("is_about_rows", [True, False])
@pytest.mark.parametrize("keys", [("b", "a"), ("a", "a"), ("a/1", "a-b/1")])
async def test_what_does_not_come_in_order_is_not_compared(keys: tuple[str, str], is_about_rows: bool) -> None:
    """Compared all the same, half of the bucket would look like strays."""
    rows = [row(key) for key in keys] if is_about_rows else []
    objects = [] if is_about_rows else [stored(key) for key in keys]

    with pytest.raises(NotInOrder):
        await findings(rows, objects)


async def test_memory_does_not_grow_with_their_number() -> None:
    ahead = {"rows": 0, "objects": 0}

    async def rows() -> AsyncIterator[Expected]:
        for number in range(5000):
            ahead["rows"] = number
            yield row(f"{number:05}")

    async def objects() -> AsyncIterator[StoredObject]:
        for number in range(5000):
            ahead["objects"] = number
            yield stored(f"{number:05}")

    count = 0
    async for _ in compare(rows(), objects()):
        count += 1
        assert max(ahead.values()) - count <= 1

    assert count == 5000


class ListedFolders:
    """Folders as SeaweedFS lists them: by the name of the folder, without its slash."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = keys

    async def list_folder(
        self, _bucket: str, prefix: str = "", *, page_size: int = 1000
    ) -> AsyncIterator[tuple[list[str], list[StoredObject]]]:
        names = {key[len(prefix) :].partition("/")[0:2] for key in self._keys if key.startswith(prefix)}
        ordered = sorted(names)
        for first in range(0, max(1, len(ordered)), page_size):
            page = ordered[first : first + page_size]
            folders = [f"{prefix}{name}/" for name, slash in page if slash]
            yield folders, [stored(f"{prefix}{name}") for name, slash in page if not slash]


@pytest.mark.parametrize("page_size", [1, 2, 1000])
async def test_objects_come_in_byte_order_from_a_store_that_lists_folder_by_folder(page_size: int) -> None:
    keys = [f"t/{name}/f/{number}" for name in ("a", "a-b", "a.b", "a_b", "ab", "A", "a0") for number in range(3)]
    keys += ["t/a", "t/a.jpg", "t/zz", "top"]

    found = [one.key async for one in walk(ListedFolders(keys), "bucket", page_size=page_size)]  # type: ignore[arg-type]  # its one method

    assert found == sorted(keys, key=str.encode)
