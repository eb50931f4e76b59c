"""A backup back into its tier. Killed anywhere, the same command does it again; no service starts on what is half done.

From the first change on the schema carries a mark (`kit.postgres.RESTORING`) that keeps every service from starting. It goes in
the transaction that gives the database its new life, after rows, schema and pictures are all there. A tier that has come so far
is left as it is when the command for both tiers is given again: what it told is in `resuming`.
"""

import tempfile
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from farmiq.backup import frozen, lives, pg_tools, resuming
from farmiq.backup.errors import BackupDamaged, BackupError, OtherTier, ServicesRunning, TargetHoldsData
from farmiq.backup.lives import Life
from farmiq.backup.manifest import DATABASE, Manifest, Tier, read_manifest, tier_folder
from farmiq.backup.object_returns import Returned, return_objects
from farmiq.backup.reconciling import reconcile
from farmiq.backup.replaced import Held, NotInBackup, not_in_backup, read_held
from farmiq.backup.tiers import Place, Say
from farmiq.backup.troubles import explained
from farmiq.backup.verify import differing_rows, verify
from farmiq.contracts.services import SERVICES
from farmiq.kit.migrations import migrate
from farmiq.kit.postgres import RESTORE_UNFINISHED, Connection
from farmiq.kit.s3_settings import open_store
from farmiq.timeseries.fingerprint import coverage_sha256

PROBLEMS_SHOWN: Final = 10

# Tables that hold what was measured. A database that has only been migrated and told about its devices holds nothing to lose.
MEASURED: Final = (
    "streams",
    "telemetry_raw",
    "weight_sessions",
    "media_objects",
    "sync_outbox",
    "ingest_dedupe",
    "events",
)

_OTHERS: Final = """
SELECT DISTINCT application_name FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name IS NOT NULL
"""


class Restored(Struct, frozen=True, kw_only=True):
    """`migrated` are the revisions that the backup's schema lacked; `repaired`, what its rows and pictures did not agree about,
    in the words of `farmiq media check`. `not_in_backup` is None when the database before could not be read. `was_restored`: an
    earlier command has done it, nothing was written since, and only pictures were looked after."""

    tier: Tier
    folder: str
    taken_at: str
    rows: int
    migrated: list[str]
    pictures: Returned
    repaired: dict[str, int]
    not_in_backup: NotInBackup | None
    life: Life
    was_restored: bool = False


async def restore(
    place: Place, folder: Path, say: Say, *, is_replacing: bool = False, is_verified: bool = False
) -> Restored:
    """`is_verified`: the caller has just looked at every byte of it."""
    with explained(folder):
        return await _restore(place, folder, say, is_replacing=is_replacing, is_verified=is_verified)


async def _restore(place: Place, folder: Path, say: Say, *, is_replacing: bool, is_verified: bool) -> Restored:
    below = tier_folder(folder, place.tier)
    manifest = read_manifest(below)
    _refuse_other_bucket(manifest, place)
    if not is_verified:
        await _refuse_damaged(folder, place.tier, say)
    async with frozen.connected(place.database_url) as connection:
        await _refuse_services(connection)
        if (report := await resuming.report_of(connection, manifest.backup_id)) is not None:
            return await _only_pictures(connection, place, below, say, msgspec.json.decode(report, type=Restored))
        await _refuse_data(connection, place, is_replacing=is_replacing)
        held = await _held(connection, place, manifest)
        say(f"emptying the {place.tier} database")
        await resuming.clear(connection, manifest, held)
    await _restore_rows(place, below, manifest, say)
    say("bringing the pictures back")
    with closing(open_store(place.store)) as store:
        async with frozen.connected(place.database_url) as connection:
            pictures = await return_objects(store, place.store.media_bucket, below, say, connection)
        migrated = await migrate(place.database_url, f"farmiq.{place.tier}.migrations")
        async with frozen.connected(place.database_url) as connection:
            say("comparing rows and pictures")
            repaired = await reconcile(connection, place, store)
            lacking = await not_in_backup(connection, place.tier, held) if held else None
            say("beginning its new life")
            async with connection.transaction():
                restored = Restored(
                    tier=place.tier,
                    folder=str(below),
                    taken_at=manifest.database.taken_at.isoformat(),
                    rows=sum(manifest.database.rows.values()),
                    migrated=migrated,
                    pictures=pictures,
                    repaired=repaired,
                    not_in_backup=lacking,
                    life=await lives.begin(connection, manifest, held),
                )
                await resuming.end(connection, manifest, msgspec.json.encode(restored))
    return restored


async def _held(connection: Connection, place: Place, manifest: Manifest) -> Held | None:
    """After a kill nothing of it is there any more, and the restore that was cut has written it down."""
    if await connection.fetchval(RESTORE_UNFINISHED):
        return await resuming.held_before(connection)
    return await read_held(connection, place.tier, manifest.database.taken_at)


async def _only_pictures(connection: Connection, place: Place, below: Path, say: Say, restored: Restored) -> Restored:
    """The rows are as they came from this backup. Whether the store still is, nobody has written down."""
    say(f"the {place.tier} database has been restored from this backup, and nothing was written since: it stays")
    with closing(open_store(place.store)) as store:
        pictures = await return_objects(store, place.store.media_bucket, below, say, connection)
    return msgspec.structs.replace(restored, folder=str(below), pictures=pictures, was_restored=True)


async def _restore_rows(place: Place, below: Path, manifest: Manifest, say: Say) -> None:
    say(f"restoring {sum(manifest.database.rows.values())} rows")
    async with frozen.connected(place.database_url) as connection:
        major = await frozen.server_major(connection)
        with tempfile.TemporaryDirectory(prefix="farmiq-restore-") as folder:
            await pg_tools.restore(place.database_url, below / DATABASE, Path(folder) / "contents", major=major)
        say("comparing what came back")
        problems = differing_rows(manifest.database.rows, await frozen.count_rows(connection))
        if await coverage_sha256(connection) != manifest.database.coverage_sha256:
            problems.append("the streams do not cover what they covered")
        if problems:
            raise BackupDamaged("; ".join(problems[:PROBLEMS_SHOWN]), fix="farmiq backup verify FOLDER --deep")
        await connection.execute("ANALYZE")


def _refuse_other_bucket(manifest: Manifest, place: Place) -> None:
    if manifest.tier != place.tier:
        raise OtherTier(f"this is a backup of the {manifest.tier}", fix=f"farmiq backup restore --tier {manifest.tier}")
    if manifest.objects.bucket != place.store.media_bucket:
        raise BackupError(
            f"the pictures were in the bucket {manifest.objects.bucket}, and MEDIA_BUCKET is {place.store.media_bucket}",
            fix=f"MEDIA_BUCKET={manifest.objects.bucket}",
        )


async def _refuse_damaged(folder: Path, tier: Tier, say: Say) -> None:
    found = await verify(folder, tier, say)
    if found.problems:
        raise BackupDamaged("; ".join(found.problems[:PROBLEMS_SHOWN]), fix="take an older backup")


async def _refuse_services(connection: Connection) -> None:
    names = {service.name for service in SERVICES}
    running = sorted(
        name
        for row in await connection.fetch(_OTHERS)
        for name in names
        if row["application_name"] in (name, f"{name}-listener")
    )
    if running:
        raise ServicesRunning(
            f"{', '.join(dict.fromkeys(running))} {'is' if len(running) == 1 else 'are'} connected to this database",
            fix="farmiq down (a farm on this machine), or stop these services, then the same command again",
        )


async def _refuse_data(connection: Connection, place: Place, *, is_replacing: bool) -> None:
    if is_replacing or await connection.fetchval(RESTORE_UNFINISHED):
        return
    if await connection.fetchval("SELECT to_regclass('public.alembic_version') IS NOT NULL"):
        await frozen.refuse_other_tier(connection, place)
    holding = [table for table in MEASURED if await _has_rows(connection, table)]
    if holding:
        raise TargetHoldsData(
            f"the {place.tier} database has rows in {', '.join(holding)}",
            fix="farmiq backup restore FOLDER --replace, when they may go",
        )


async def _has_rows(connection: Connection, table: str) -> bool:
    if await connection.fetchval("SELECT to_regclass($1) IS NULL", f"public.{table}"):
        return False
    return bool(await connection.fetchval(f"SELECT EXISTS (SELECT FROM public.{table})"))  # noqa: S608 - our own constants
