"""Pictures from a folder back into the store. What is there already and is the same stays, so that it can be cut and repeated."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from farmiq.backup.manifest import OBJECT_LINES, ObjectLine, object_path, read_object_lines
from farmiq.backup.object_copies import AT_ONCE, TOLD_EVERY
from farmiq.backup.tiers import Say
from farmiq.kit.postgres import Connection
from farmiq.kit.s3 import ObjectExists, ObjectMissing, ObjectStore, ObjectTooLarge

_VERIFIED: Final = """
SELECT object_key, sha256 FROM media_objects
 WHERE bucket = $1 AND object_key = ANY ($2) AND state = 'stored' AND sha256 IS NOT NULL
"""

_ANOTHER: Final = "another size"
"""In the place of a checksum: an object that is larger than the picture, or was there only a moment ago."""


class Returned(Struct, frozen=True):
    """`kept` were in the store already, byte for byte; `mended` were there with other bytes, which are replaced. `damaged` ones
    had other bytes than the database speaks of when the backup was made: the store keeps what it has."""

    stored: int
    kept: int
    mended: int = 0
    damaged: int = 0


async def return_objects(store: ObjectStore, bucket: str, below: Path, say: Say, connection: Connection) -> Returned:
    """`connection` is to the restored rows: they decide when the store and the backup have different bytes for one key."""
    stored = kept = mended = damaged = 0
    for group in _groups(below):
        verified = await verified_sums(connection, bucket, [line.key for line in group])
        right = [line for line in group if verified.get(line.key, line.sha256) == line.sha256]
        damaged += len(group) - len(right)
        found = await asyncio.gather(*(_return(store, bucket, below, line) for line in right))
        for line, sha256 in zip(right, found, strict=True):
            if sha256 is None:
                stored += 1
            elif sha256 == line.sha256:
                kept += 1
            else:
                await _mend(store, bucket, below, line)
                mended += 1
        if (stored + kept + mended) % TOLD_EVERY < AT_ONCE:
            say(f"{stored + kept + mended} pictures")
    return Returned(stored, kept, mended, damaged)


async def verified_sums(connection: Connection, bucket: str, keys: Sequence[str]) -> dict[str, str]:
    """The checksums of those of these objects that a row calls stored."""
    rows = await connection.fetch(_VERIFIED, bucket, list(keys))
    return {row["object_key"]: row["sha256"] for row in rows}


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
