"""Pictures from a folder back into the store. What is there already and is the same stays, so that it can be cut and repeated."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from farmiq.backup.manifest import OBJECT_LINES, ObjectLine, object_path, read_object_lines
from farmiq.backup.object_copies import AT_ONCE, TOLD_EVERY
from farmiq.backup.tiers import Say
from farmiq.kit.postgres import Connection
from farmiq.kit.s3 import ObjectExists, ObjectMissing, ObjectStore, ObjectTooLarge

_VERIFIED: Final = "SELECT sha256 FROM media_objects WHERE bucket = $1 AND object_key = $2 AND state = 'stored'"

_ANOTHER: Final = "another size"
"""In the place of a checksum: an object that is larger than the picture, or was there only a moment ago."""


class Returned(Struct, frozen=True):
    """`kept` were in the store already, byte for byte; `mended` were there with other bytes, which are replaced."""

    stored: int
    kept: int
    mended: int = 0


async def return_objects(store: ObjectStore, bucket: str, below: Path, say: Say, connection: Connection) -> Returned:
    """`connection` is to the restored rows: they decide when the store and the backup have different bytes for one key."""
    stored = kept = mended = 0
    for group in _groups(below):
        found = await asyncio.gather(*(_return(store, bucket, below, line) for line in group))
        for line, sha256 in zip(group, found, strict=True):
            if sha256 is None:
                stored += 1
            elif sha256 == line.sha256 or sha256 == await connection.fetchval(_VERIFIED, bucket, line.key):
                # The second: damaged when the backup was made, and mended since.
                kept += 1
            else:
                await _mend(store, bucket, below, line)
                mended += 1
        if (stored + kept + mended) % TOLD_EVERY < AT_ONCE:
            say(f"{stored + kept + mended} pictures")
    return Returned(stored, kept, mended)


def _groups(below: Path) -> Iterator[tuple[ObjectLine, ...]]:
    lines = read_object_lines(below / OBJECT_LINES)
    return iter(lambda: tuple(line for _, line in zip(range(AT_ONCE), lines, strict=False)), ())


async def _return(store: ObjectStore, bucket: str, below: Path, line: ObjectLine) -> str | None:
    """None when it is there now; else the checksum of what the store has under the key. A disk that was just mended may have
    any bytes there, and whoever compares rows and objects afterwards would throw the picture away for them."""
    try:
        await _put(store, bucket, below, line)
    except ObjectExists:
        return await _sha256(store, bucket, line)
    return None


async def _mend(store: ObjectStore, bucket: str, below: Path, line: ObjectLine) -> None:
    """Killed between the two, the same command finds no object and puts it there."""
    await store.delete(bucket, line.key)
    await _put(store, bucket, below, line)


async def _put(store: ObjectStore, bucket: str, below: Path, line: ObjectLine) -> None:
    path = object_path(below, line.key)
    await store.put_file(bucket, line.key, path, content_type=line.content_type, sha256=bytes.fromhex(line.sha256))


async def _sha256(store: ObjectStore, bucket: str, line: ObjectLine) -> str:
    try:
        digest = await store.digest(bucket, line.key, bytes_max=line.size_bytes)
    except (ObjectTooLarge, ObjectMissing):
        return _ANOTHER
    return digest.sha256.hex()
