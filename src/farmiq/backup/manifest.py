"""What a backup holds, in words that a later version can read. Written last: a folder without it is no backup.

Frozen: the names and meanings of the fields, and `VERSION` with them. Fields are added, never renamed.
"""

import hashlib
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final, Literal
from uuid import UUID

import msgspec
from msgspec import Struct

from farmiq.backup.errors import BackupDamaged, NotABackup

VERSION: Final = 1
MANIFEST: Final = "manifest.json"
DATABASE: Final = "database"
OBJECTS: Final = "objects"
OBJECT_LINES: Final = "objects.jsonl"
NAMED_MAX: Final = 1000

Tier = Literal["edge", "cloud"]


class FileSum(Struct, frozen=True):
    """`path` is below the folder of the tier."""

    path: str
    size_bytes: int
    sha256: str


class ObjectLine(Struct, frozen=True):
    """One line of `objects.jsonl`, which is in byte order of the keys."""

    key: str
    size_bytes: int
    sha256: str
    content_type: str


class ExpectedLine(Struct, frozen=True):
    """A picture that the database calls stored, with its checksum if it knows one. In byte order of the keys."""

    key: str
    sha256: str | None


class DatabaseFacts(Struct, frozen=True, kw_only=True):
    """What the database held in the very snapshot that was dumped."""

    taken_at: datetime
    revision: str
    server_version: str
    epoch: UUID | None
    rows: dict[str, int]
    coverage_sha256: str


class ObjectFacts(Struct, frozen=True, kw_only=True):
    """`missing` names pictures that the database speaks of and the store did not have, at most `NAMED_MAX` of them; `damaged`
    those that the store had with other bytes than the database speaks of. A damaged one is in the backup and is not restored."""

    bucket: str
    objects: int
    bytes: int
    missing_count: int
    missing: list[str]
    damaged_count: int = 0
    damaged: list[str] = []


class Manifest(Struct, frozen=True, kw_only=True):
    version: int
    backup_id: UUID
    tier: Tier
    farmiq_version: str
    finished_at: datetime
    database: DatabaseFacts
    objects: ObjectFacts
    files: list[FileSum]


def tier_folder(folder: Path, tier: Tier) -> Path:
    return folder / tier


def object_path(folder: Path, key: str) -> Path:
    """By the key's checksum: whatever a key looks like, it is one file, inside the folder."""
    name = hashlib.sha256(key.encode()).hexdigest()
    return folder / OBJECTS / name[:2] / name


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """After everything else has reached the disk, and in one step."""
    os.sync()
    path = folder / MANIFEST
    temporary = path.with_suffix(".new")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    _sync_folder(folder)


def read_manifest(folder: Path) -> Manifest:
    try:
        text = (folder / MANIFEST).read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotABackup(
            f"{folder} has no {MANIFEST}",
            fix="farmiq backup create --to FOLDER makes one, and goes on with one that was cut",
        ) from error
    except OSError as error:
        raise NotABackup(f"the {MANIFEST} in {folder} cannot be read: {error}", fix="take an older backup") from error
    try:
        manifest = msgspec.json.decode(text, type=Manifest)
    except msgspec.DecodeError as error:
        raise NotABackup(f"the {MANIFEST} in {folder} cannot be read: {error}", fix="take an older backup") from error
    if manifest.version != VERSION:
        raise NotABackup(
            f"{folder} was written in version {manifest.version} of the format, and this FarmIQ reads {VERSION}",
            fix=f"use FarmIQ {manifest.farmiq_version}",
        )
    return manifest


def read_object_lines(path: Path) -> Iterator[ObjectLine]:
    """One at a time. A line that a crash cut short ends the list; one that is no line raises BackupDamaged."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                found = msgspec.json.decode(line, type=ObjectLine)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise BackupDamaged(
                    f"line {number} of {path.name} cannot be read: {error}", fix="farmiq backup verify FOLDER"
                ) from error
            yield found


def read_expected_lines(path: Path) -> Iterator[ExpectedLine]:
    with path.open("rb") as file:
        for line in file:
            yield msgspec.json.decode(line, type=ExpectedLine)


def tiers_in(folder: Path) -> list[Tier]:
    tiers: tuple[Tier, ...] = ("edge", "cloud")
    return [tier for tier in tiers if (tier_folder(folder, tier) / MANIFEST).exists()]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
