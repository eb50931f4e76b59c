"""Whether a backup is what its manifest says. Reads every byte and changes nothing."""

import asyncio
import itertools
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from farmiq.backup import frozen, pg_tools
from farmiq.backup.errors import BackupDamaged, ToolFailed
from farmiq.backup.manifest import (
    DATABASE,
    OBJECT_LINES,
    Manifest,
    Tier,
    object_path,
    read_manifest,
    read_object_lines,
    tier_folder,
)
from farmiq.backup.object_copies import TOLD_EVERY, sum_of
from farmiq.backup.object_returns import verified_sums
from farmiq.backup.scratch import scratch_database
from farmiq.backup.tiers import Say
from farmiq.kit.postgres import Connection
from farmiq.timeseries.fingerprint import coverage_sha256

NAMED_MAX = 20


class Verified(Struct, frozen=True, kw_only=True):
    """`problems` is empty for a backup that can be restored. `warnings` are about what was missing when it was made."""

    tier: Tier
    folder: str
    taken_at: str
    files: int
    objects: int
    rows: int
    is_deep: bool
    problems: list[str]
    warnings: list[str]


async def verify(folder: Path, tier: Tier, say: Say, *, is_deep: bool = False) -> Verified:
    below = tier_folder(folder, tier)
    manifest = read_manifest(below)
    say(f"reading the backup of the {tier}")
    problems = await asyncio.to_thread(_damaged_files, below, manifest)
    problems += await asyncio.to_thread(_damaged_objects, below, manifest, say)
    problems += await _unreadable_dump(below, manifest)
    if is_deep and not problems:
        problems += await _restored_elsewhere(below, manifest, say)
    return Verified(
        tier=tier,
        folder=str(below),
        taken_at=manifest.database.taken_at.isoformat(),
        files=len(manifest.files),
        objects=manifest.objects.objects,
        rows=sum(manifest.database.rows.values()),
        is_deep=is_deep,
        problems=problems,
        warnings=_warnings(manifest),
    )


def _damaged_files(below: Path, manifest: Manifest) -> list[str]:
    return [
        f"{file.path} {what}"
        for file in manifest.files
        if (what := _damage(below / file.path, file.size_bytes, file.sha256)) is not None
    ]


def _damage(path: Path, size_bytes: int, sha256: str) -> str | None:
    """In words. A disk that refuses one file says nothing about the others, so looking goes on."""
    try:
        found = sum_of(path)
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    if found is None:
        return "is missing"
    return None if found == (size_bytes, sha256) else "has changed since it was written"


def _damaged_objects(below: Path, manifest: Manifest, say: Say) -> list[str]:
    problems: list[str] = []
    count = 0
    try:
        for line in read_object_lines(below / OBJECT_LINES):
            count += 1
            what = _damage(object_path(below, line.key), line.size_bytes, line.sha256)
            if what is not None:
                problems.append(f"the picture {line.key} {what}")
            if count % TOLD_EVERY == 0:
                say(f"{count} of {manifest.objects.objects} pictures")
    except FileNotFoundError:
        return []  # named already: it is among the files
    except (BackupDamaged, OSError) as error:
        return [*problems, f"pictures after the first {count} could not be looked for: {error}"]
    if count != manifest.objects.objects:
        problems.append(f"{OBJECT_LINES} names {count} pictures instead of {manifest.objects.objects}")
    return problems


async def _unreadable_dump(below: Path, manifest: Manifest) -> list[str]:
    try:
        contents = await pg_tools.table_of_contents(below / DATABASE)
    except ToolFailed as error:
        return [str(error)]
    left_out = sorted(set(manifest.database.rows) - pg_tools.tables_with_data(contents))
    return [f"the dump has no rows of {', '.join(left_out)}"] if left_out else []


async def _restored_elsewhere(below: Path, manifest: Manifest, say: Say) -> list[str]:
    """Into a PostgreSQL that lives for this question only."""
    with tempfile.TemporaryDirectory(prefix="farmiq-verify-") as folder:
        say("starting a PostgreSQL of its own")
        async with scratch_database(Path(folder)) as url:
            say("restoring into it")
            async with frozen.connected(url) as connection:
                major = await frozen.server_major(connection)
                await pg_tools.restore(url, below / DATABASE, Path(folder) / "contents", major=major)
                rows = await frozen.count_rows(connection)
                coverage = await coverage_sha256(connection)
                other = await _other_pictures(connection, below, manifest)
    problems = differing_rows(manifest.database.rows, rows)
    if coverage != manifest.database.coverage_sha256:
        problems.append("the streams do not cover what they covered")
    return problems + other


async def _other_pictures(connection: Connection, below: Path, manifest: Manifest) -> list[str]:
    """Pictures whose copy is not the one that the database speaks of, and which the manifest does not name: backups of earlier
    releases did not compare the two."""
    lines, named, problems = read_object_lines(below / OBJECT_LINES), set(manifest.objects.damaged), list[str]()
    while group := list(itertools.islice(lines, TOLD_EVERY)):
        verified = await verified_sums(connection, manifest.objects.bucket, [line.key for line in group])
        problems += [
            f"the picture {line.key} is another one than the database speaks of"
            for line in group
            if verified.get(line.key, line.sha256) != line.sha256 and line.key not in named
        ]
    return problems


def differing_rows(expected: Mapping[str, int], found: Mapping[str, int]) -> list[str]:
    return [
        f"{table} has {found.get(table, 0)} rows instead of {expected.get(table, 0)}"
        for table in sorted({*expected, *found})
        if expected.get(table, 0) != found.get(table, 0)
    ]


def _warnings(manifest: Manifest) -> list[str]:
    objects = manifest.objects
    return [
        *_named(
            f"the store did not have {objects.missing_count} pictures that the database speaks of",
            objects.missing,
            objects.missing_count,
        ),
        *_named(
            f"the store had {objects.damaged_count} pictures with other bytes than the database speaks of",
            objects.damaged,
            objects.damaged_count,
        ),
    ]


def _named(heading: str, keys: Sequence[str], count: int) -> list[str]:
    if not count:
        return []
    shown = keys[:NAMED_MAX]
    more = count - len(shown)
    return [heading, *shown, *([f"and {more} more"] if more else [])]
