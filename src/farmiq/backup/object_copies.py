"""Pictures from the store into a folder. In flat memory, a few at a time, and going on where an earlier attempt was cut.

An object that an earlier backup has with the checksum that the database speaks of is linked instead of fetched. Where the
database has none, a key with the same size is the same object, because objects are written once. What the store gives with
another checksum is fetched once more, and is then named in the manifest: a disk may have changed it.
"""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from farmiq.backup.manifest import (
    NAMED_MAX,
    OBJECT_LINES,
    ExpectedLine,
    ObjectFacts,
    ObjectLine,
    object_path,
    read_expected_lines,
    read_object_lines,
)
from farmiq.backup.tiers import Say
from farmiq.kit.object_inventory import walk
from farmiq.kit.s3 import ObjectMissing, ObjectStore, StoredObject
from farmiq.stack.private_files import private_folder

AT_ONCE: Final = 8
TOLD_EVERY: Final = 1000
READ_BYTES: Final = 1024 * 1024


class Earlier:
    """The objects of an earlier backup, asked for in byte order of their keys."""

    def __init__(self, folder: Path, lines_file: Path) -> None:
        self._folder = folder
        self._lines: Iterator[ObjectLine] = read_object_lines(lines_file) if lines_file.exists() else iter(())
        self._next = next(self._lines, None)

    def find(self, found: StoredObject) -> tuple[Path, ObjectLine] | None:
        while self._next is not None and self._next.key.encode() < found.key.encode():
            self._next = next(self._lines, None)
        line = self._next
        if line is None or line.key != found.key or line.size_bytes != found.size_bytes:
            return None
        return object_path(self._folder, line.key), line


class Sums:
    """The checksums that the database speaks of, asked for in byte order of the keys."""

    def __init__(self, lines: Iterable[ExpectedLine] = ()) -> None:
        self._lines = iter(lines)
        self._next = next(self._lines, None)

    def find(self, key: str) -> str | None:
        while self._next is not None and self._next.key.encode() < key.encode():
            self._next = next(self._lines, None)
        return self._next.sha256 if self._next is not None and self._next.key == key else None


@dataclass
class Copies:
    """Counts what is done. `gone` are objects that retention took between the listing and the copy; of those whose bytes are not
    what the database speaks of, `damaged` are the first."""

    folder: Path
    objects: int = 0
    size_bytes: int = 0
    fetched: int = 0
    linked: int = 0
    gone: list[str] = field(default_factory=list)
    damaged_count: int = 0
    damaged: list[str] = field(default_factory=list)

    def note(self, line: ObjectLine, *, is_fetched: bool, sha256: str | None) -> None:
        if sha256 not in (None, line.sha256):
            self.damaged_count += 1
            self.damaged += [line.key] if len(self.damaged) < NAMED_MAX else []
        self.objects += 1
        self.size_bytes += line.size_bytes
        self.fetched += is_fetched
        self.linked += not is_fetched


async def copy_objects(
    store: ObjectStore, bucket: str, folder: Path, earlier: Sequence[Earlier], say: Say, sums: Sums | None = None
) -> Copies:
    """Everything in the bucket. `objects.jsonl` grows as objects arrive, in byte order of their keys."""
    copies, sums = Copies(folder), sums or Sums()
    with (folder / OBJECT_LINES).open("wb") as lines:
        async for group in _groups(walk(store, bucket)):
            known = [sums.find(one.key) for one in group]
            copied = await asyncio.gather(
                *(
                    _copy(store, bucket, folder, earlier_of(one, earlier), one, sha256)
                    for one, sha256 in zip(group, known, strict=True)
                )
            )
            for found, sha256, (line, is_fetched) in zip(group, known, copied, strict=True):
                if line is None:
                    copies.gone.append(found.key)
                    continue
                lines.write(msgspec.json.encode(line) + b"\n")
                copies.note(line, is_fetched=is_fetched, sha256=sha256)
                if copies.objects % TOLD_EVERY == 0:
                    say(f"{copies.objects} pictures, {copies.size_bytes / 1e6:.0f} MB")
            lines.flush()
    return copies


def earlier_of(found: StoredObject, earlier: Iterable[Earlier]) -> list[tuple[Path, ObjectLine]]:
    return [place for one in earlier if (place := one.find(found)) is not None]


async def _copy(
    store: ObjectStore,
    bucket: str,
    folder: Path,
    places: Sequence[tuple[Path, ObjectLine]],
    found: StoredObject,
    sha256: str | None,
) -> tuple[ObjectLine | None, bool]:
    target = object_path(folder, found.key)
    private_folder(target.parent)
    for path, line in places:
        if sha256 in (None, line.sha256) and await asyncio.to_thread(_is_sound, path, line):
            _link(path, target)
            return line, False
    part = target.with_suffix(".part")
    try:
        fetched = await store.fetch(bucket, found.key, part)
        if sha256 not in (None, fetched.sha256.hex()):  # changed on its way, or in the store
            fetched = await store.fetch(bucket, found.key, part)
    except ObjectMissing:
        return None, False
    part.replace(target)
    return ObjectLine(found.key, fetched.size_bytes, fetched.sha256.hex(), fetched.content_type), True


def _link(path: Path, target: Path) -> None:
    if path == target:
        return
    target.unlink(missing_ok=True)
    try:
        os.link(path, target)
    except OSError:
        # Another disk, or a file system without links: the earlier backup is then read instead of the store.
        target.write_bytes(path.read_bytes())


def _is_sound(path: Path, line: ObjectLine) -> bool:
    return sum_of(path) == (line.size_bytes, line.sha256)


def sum_of(path: Path) -> tuple[int, str] | None:
    """Size and SHA-256 of a file; None when there is none."""
    hashed, size_bytes = hashlib.sha256(), 0
    try:
        with path.open("rb") as file:
            while chunk := file.read(READ_BYTES):
                hashed.update(chunk)
                size_bytes += len(chunk)
    except FileNotFoundError:
        return None
    return size_bytes, hashed.hexdigest()


async def _groups(objects: AsyncIterator[StoredObject]) -> AsyncIterator[list[StoredObject]]:
    group: list[StoredObject] = []
    async for found in objects:
        if found.key.endswith("/"):
            continue  # SeaweedFS shows a folder that has become empty as an object without bytes
        group.append(found)
        if len(group) == AT_ONCE:
            yield group
            group = []
    if group:
        yield group


def object_facts(copies: Copies, bucket: str, expected_file: Path) -> ObjectFacts:
    """Which pictures the database speaks of and the folder does not have. Both lists are in byte order."""
    missing: list[str] = []
    missing_count = 0
    held = (line.key for line in read_object_lines(copies.folder / OBJECT_LINES))
    for key in not_in((line.key for line in read_expected_lines(expected_file)), held):
        missing_count += 1
        if len(missing) < NAMED_MAX:
            missing.append(key)
    return ObjectFacts(
        bucket=bucket,
        objects=copies.objects,
        bytes=copies.size_bytes,
        missing_count=missing_count,
        missing=missing,
        damaged_count=copies.damaged_count,
        damaged=copies.damaged,
    )


def not_in(wanted: Iterator[str], held: Iterator[str]) -> Iterator[str]:
    """Of two lists in byte order, what is in the first and not in the second."""
    have = next(held, None)
    for key in wanted:
        while have is not None and have.encode() < key.encode():
            have = next(held, None)
        if have != key:
            yield key
