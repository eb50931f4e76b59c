"""Pictures from a folder back into the store. What is there already stays, so that it can be cut and repeated."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from farmiq.backup.manifest import OBJECT_LINES, ObjectLine, object_path, read_object_lines
from farmiq.backup.object_copies import AT_ONCE, TOLD_EVERY
from farmiq.backup.tiers import Say
from farmiq.kit.s3 import ObjectExists, ObjectStore


class Returned(Struct, frozen=True):
    """`kept` were in the store already."""

    stored: int
    kept: int


async def return_objects(store: ObjectStore, bucket: str, below: Path, say: Say) -> Returned:
    stored = kept = 0
    for group in _groups(below):
        is_new = await asyncio.gather(*(_return(store, bucket, below, line) for line in group))
        stored += sum(is_new)
        kept += len(is_new) - sum(is_new)
        if (stored + kept) % TOLD_EVERY < AT_ONCE:
            say(f"{stored + kept} pictures")
    return Returned(stored, kept)


def _groups(below: Path) -> Iterator[tuple[ObjectLine, ...]]:
    lines = read_object_lines(below / OBJECT_LINES)
    return iter(lambda: tuple(line for _, line in zip(range(AT_ONCE), lines, strict=False)), ())


async def _return(store: ObjectStore, bucket: str, below: Path, line: ObjectLine) -> bool:
    """False when the store has the key. Objects are written once: what is under it is what was under it."""
    path = object_path(below, line.key)
    try:
        await store.put_file(bucket, line.key, path, content_type=line.content_type, sha256=bytes.fromhex(line.sha256))
    except ObjectExists:
        return False
    return True
