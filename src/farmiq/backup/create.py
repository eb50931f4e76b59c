"""A backup of one tier, made while the tier goes on working.

The database first, in one snapshot; the pictures after it. Pictures are written once and before their row says `stored`, so
whatever the snapshot speaks of is in the store by then, unless retention has taken it since: that is named in the manifest.
"""

import os
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from farmiq import __version__
from farmiq.backup import frozen, pg_tools
from farmiq.backup.errors import FolderTaken
from farmiq.backup.manifest import (
    DATABASE,
    MANIFEST,
    OBJECT_LINES,
    VERSION,
    DatabaseFacts,
    FileSum,
    Manifest,
    read_expected_lines,
    tier_folder,
    write_manifest,
)
from farmiq.backup.object_copies import Earlier, Sums, copy_objects, object_facts, sum_of
from farmiq.backup.tiers import Place, Say
from farmiq.backup.troubles import explained
from farmiq.kit.ids import new_id
from farmiq.kit.s3_settings import open_store
from farmiq.spool import lock
from farmiq.spool.errors import SpoolLocked
from farmiq.stack.private_files import private_folder, remove

EXPECTED: Final = "expected-pictures.jsonl"
CUT: Final = "objects.cut.jsonl"
"""What an attempt that was cut had copied."""


async def create(place: Place, folder: Path, say: Say, *, previous: Path | None = None) -> Manifest:
    """A backup below `folder`. Begun before and cut, it goes on with the pictures that are there already."""
    with explained(folder):
        return await _create_alone(place, folder, say, previous)


async def _create_alone(place: Place, folder: Path, say: Say, previous: Path | None) -> Manifest:
    below = tier_folder(folder, place.tier)
    if (below / MANIFEST).exists():
        raise FolderTaken(f"{below} holds a backup already", fix="farmiq backup create --to ANOTHER_FOLDER")
    private_folder(folder)
    private_folder(below)
    below.chmod(0o700)
    try:
        held = lock.take(below)
    except SpoolLocked as error:
        raise FolderTaken(f"another process is writing a backup into {below}", fix="wait for it to end") from error
    try:
        return await _create(place, below, say, previous and tier_folder(previous, place.tier))
    finally:
        os.close(held)


async def _create(place: Place, below: Path, say: Say, previous: Path | None) -> Manifest:
    remove([below / DATABASE])
    facts = await _dump(place, below, say)
    say("copying the pictures")
    earlier = _earlier(below, previous)
    with closing(open_store(place.store)) as store:
        copies = await copy_objects(
            store, place.store.media_bucket, below, earlier, say, Sums(read_expected_lines(below / EXPECTED))
        )
    objects = object_facts(copies, place.store.media_bucket, below / EXPECTED)
    remove([below / EXPECTED, below / CUT])
    manifest = Manifest(
        version=VERSION,
        backup_id=new_id(),
        tier=place.tier,
        farmiq_version=__version__,
        finished_at=datetime.now(UTC),
        database=facts,
        objects=objects,
        files=_sums(below),
    )
    write_manifest(below, manifest)
    return manifest


async def _dump(place: Place, below: Path, say: Say) -> DatabaseFacts:
    async with frozen.frozen(place) as (connection, snapshot):
        say(f"dumping the {place.tier} database")
        major = await frozen.server_major(connection)
        await pg_tools.dump(place.database_url, snapshot, below / DATABASE, major=major)
        say("counting what it held")
        found = await frozen.facts(connection, place)
        await frozen.write_expected(connection, place, below / EXPECTED)
    return found


def _earlier(below: Path, previous: Path | None) -> Sequence[Earlier]:
    """What was cut comes first: it lies in the right place already."""
    if (below / OBJECT_LINES).exists():
        (below / OBJECT_LINES).replace(below / CUT)
    found = [Earlier(below, below / CUT)]
    return found if previous is None else [*found, Earlier(previous, previous / OBJECT_LINES)]


def _sums(below: Path) -> list[FileSum]:
    paths = [*sorted((below / DATABASE).iterdir()), below / OBJECT_LINES]
    return [FileSum(path.relative_to(below).as_posix(), *summed) for path in paths if (summed := sum_of(path))]
