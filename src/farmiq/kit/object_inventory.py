"""Rows and objects, walked side by side: what is in one and not in the other. For both tiers, and for millions of either.

    async for finding in compare(rows, walk(objects, bucket, "tenants/")):
        match finding:
            case NoObject(expected): ...        a row says that there is an object, and there is none
            case NoRow(found): ...              an object that no row speaks of
            case OtherSize(expected, found): ...
            case Alike(expected, found): ...    both are there, with the same size

`rows` is an async iterator of `Expected`, ordered by key in byte order: `ORDER BY object_key COLLATE "C"`, read in pages. Memory
is a page of each, whatever their number. Both sides change meanwhile: a finding is a reason to look again, under the row's
lock, and never to delete at once.
"""

from collections.abc import AsyncIterator
from typing import Final, TypeVar
from uuid import UUID

import msgspec

from farmiq.kit.errors import Fatal
from farmiq.kit.s3 import ObjectStore, StoredObject

PAGE_OBJECTS: Final = 1000


class NotInOrder(Fatal):
    """The rows or the objects did not come in key order, so what is missing cannot be told. Nothing was changed. Report this."""

    code = "not_in_order"


class Expected(msgspec.Struct, frozen=True):
    """`must_exist`: False for a row whose object may still be on its way. `sha256`, in hexadecimal, is of the stored bytes."""

    key: str
    size_bytes: int | None
    tenant_id: str
    media_id: UUID
    must_exist: bool = True
    sha256: str | None = None


class NoObject(msgspec.Struct, frozen=True):
    expected: Expected


class NoRow(msgspec.Struct, frozen=True):
    found: StoredObject


class OtherSize(msgspec.Struct, frozen=True):
    expected: Expected
    found: StoredObject


class Alike(msgspec.Struct, frozen=True):
    expected: Expected
    found: StoredObject


Finding = NoObject | NoRow | OtherSize | Alike

Keyed = TypeVar("Keyed", Expected, StoredObject)


def judge(expected: Expected | None, found: StoredObject | None) -> Finding | None:
    """What one key means. None: nothing is there, and nothing has to be."""
    if found is None:
        return NoObject(expected) if expected is not None and expected.must_exist else None
    if expected is None:
        return NoRow(found)
    if expected.size_bytes is not None and expected.size_bytes != found.size_bytes:
        return OtherSize(expected, found)
    return Alike(expected, found)


async def compare(rows: AsyncIterator[Expected], objects: AsyncIterator[StoredObject]) -> AsyncIterator[Finding]:
    rows, objects = _in_order(rows), _in_order(objects)
    expected, found = await anext(rows, None), await anext(objects, None)
    while expected is not None or found is not None:
        is_row_first = found is None or (expected is not None and expected.key.encode() <= found.key.encode())
        is_object_first = expected is None or (found is not None and found.key.encode() <= expected.key.encode())
        finding = judge(expected if is_row_first else None, found if is_object_first else None)
        if finding is not None:
            yield finding
        if is_row_first:
            expected = await anext(rows, None)
        if is_object_first:
            found = await anext(objects, None)


async def walk(
    objects: ObjectStore, bucket: str, prefix: str = "", *, page_size: int = PAGE_OBJECTS
) -> AsyncIterator[StoredObject]:
    """Every object below the prefix, in byte order of the keys, which not every store lists in.

    SeaweedFS lists folder by folder, so `a/1` comes before `a-b/1`, which S3 has the other way round. So folders are listed one
    by one and put in order here. Kept in memory are the names of the folders on the way down, and one page of objects.
    """
    folders: list[str] = []
    held: list[StoredObject] = []
    pages = 0
    async for names, found in objects.list_folder(bucket, prefix, page_size=page_size):
        folders.extend(names)
        held, pages = found, pages + 1
    leaves = _listed(held) if pages <= 1 else _leaves(objects, bucket, prefix, page_size)
    leaf = await anext(leaves, None)
    for folder in sorted(folders, key=str.encode):
        while leaf is not None and leaf.key.encode() < folder.encode():
            yield leaf
            leaf = await anext(leaves, None)
        async for found_below in walk(objects, bucket, folder, page_size=page_size):
            yield found_below
    while leaf is not None:
        yield leaf
        leaf = await anext(leaves, None)


async def _leaves(objects: ObjectStore, bucket: str, prefix: str, page_size: int) -> AsyncIterator[StoredObject]:
    """Only what lies in this very folder, where every store has the same order. Asked for again rather than held."""
    async for _, found in objects.list_folder(bucket, prefix, page_size=page_size):
        for one in found:
            yield one


async def _listed(found: list[StoredObject]) -> AsyncIterator[StoredObject]:
    for one in found:
        yield one


async def _in_order(items: AsyncIterator[Keyed]) -> AsyncIterator[Keyed]:
    last: bytes | None = None
    async for item in items:
        key = item.key.encode()
        if last is not None and key <= last:
            raise NotInOrder(f"{item.key!r} came after {last.decode()!r}")
        last = key
        yield item
