from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from farmiq.cli import exits
from farmiq.cli.errors import BadUsage
from farmiq.cli.terminal import say, say_json

if TYPE_CHECKING:
    from farmiq.backup.manifest import Manifest
    from farmiq.backup.restore import Restored
    from farmiq.backup.verify import Verified

backup = typer.Typer(
    name="backup",
    help="Backups: make one, look whether it is sound, go back to it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class Tiers(StrEnum):
    EDGE = "edge"
    CLOUD = "cloud"
    BOTH = "both"


Which = Annotated[Tiers, typer.Option("--tier", help="Whose database and pictures.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and no progress.")]
Folder = Annotated[Path, typer.Argument(help="The folder that `farmiq backup create --to` wrote.")]


@backup.command("create")
def create_backup(
    to: Annotated[Path, typer.Option("--to", help="A new folder, or one in which a backup was cut.")],
    tier: Which = Tiers.BOTH,
    previous: Annotated[
        Path | None, typer.Option("--previous", help="An earlier backup: pictures that it has are linked, not copied.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Back up the database and the pictures while everything goes on working.

    The database is DATABASE_URL (or DATABASE_URL_FILE) and the object store S3_ENDPOINT, S3_ACCESS_KEY, S3_SECRET_KEY and
    MEDIA_BUCKET, for one tier; else those of the farm which runs on this machine.
    """
    import asyncio
    import os

    import msgspec

    from farmiq.backup.create import create
    from farmiq.cli.backup_places import chosen, places_of, progress

    with places_of(chosen(tier), os.environ, "backup create") as places:
        made = [asyncio.run(create(place, to.absolute(), progress(as_json), previous=previous)) for place in places]
    if as_json:
        say_json([_without_files(msgspec.to_builtins(manifest)) for manifest in made])
        return
    for manifest in made:
        _show_made(manifest)
    say(f"Look at it with: farmiq backup verify {to} --deep")


@backup.command("verify")
def verify_backup(
    folder: Folder,
    tier: Which = Tiers.BOTH,
    deep: Annotated[
        bool, typer.Option("--deep", help="Restore it into a PostgreSQL of its own too, and compare what came back.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Read every byte of a backup and compare it with the manifest.

    Needs neither a farm nor a database. Exit code 1 when something is wrong.
    """
    import asyncio

    import msgspec

    from farmiq.backup.verify import verify
    from farmiq.cli.backup_places import progress, tiers_to_read

    tiers = tiers_to_read(folder, tier)
    found = [asyncio.run(verify(folder.absolute(), one, progress(as_json), is_deep=deep)) for one in tiers]
    if as_json:
        say_json(msgspec.to_builtins(found))
    else:
        for verified in found:
            _show_verified(verified)
    raise typer.Exit(exits.FAILED if any(verified.problems for verified in found) else exits.OK)


@backup.command("restore")
def restore_backup(
    folder: Folder,
    tier: Which = Tiers.BOTH,
    replace: Annotated[bool, typer.Option("--replace", help="Take the place of what the database holds now.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before replacing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Go back to a backup: database, pictures, a new epoch, the schema of this version.

    The services of the tier must be stopped. A farm on this machine is stopped with `farmiq down`; its servers are then started
    for the time of the restore. Cut anywhere, the same command does it again.
    """
    import asyncio
    import os

    import msgspec

    from farmiq.backup.restore import restore
    from farmiq.cli.backup_places import places_of, progress, tiers_to_read

    tiers = tiers_to_read(folder, tier)
    if replace and not yes:
        _confirm(folder, tiers)
    with places_of(tiers, os.environ, "backup restore", is_restoring=True) as places:
        done = [
            asyncio.run(restore(place, folder.absolute(), progress(as_json), is_replacing=replace)) for place in places
        ]
    if as_json:
        say_json(msgspec.to_builtins(done))
        return
    for restored in done:
        _show_restored(restored)


@backup.command("drill")
def drill_backup(
    tier: Which = Tiers.BOTH,
    source: Annotated[
        Path | None, typer.Option("--from", help="Restore this backup, instead of making one of a farm that measures.")
    ] = None,
    seconds: Annotated[int, typer.Option(min=1, help="How long to measure, before the backup and after it.")] = 60,
    patience: Annotated[int, typer.Option(min=1, help="How many seconds to wait for what is sent again.")] = 300,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the folder for a look, with everything stopped.")] = False,
    as_json: AsJson = False,
) -> None:
    """Lose everything on purpose, in a farm of its own, and come back from a backup.

    Starts a farm in a folder and on ports of its own, measures, backs up, measures on, loses the disks of the tier (both unless
    --tier says which), restores, and compares with a ledger from before. Exit code 0 only when nothing is gone. The farm that
    runs on this machine is not touched.
    """
    import msgspec

    from farmiq.backup.drill_report import Drilled
    from farmiq.cli.backup_drill import run_drill, show_drill, show_restorable
    from farmiq.cli.backup_places import chosen, tiers_to_read

    if source is not None:
        tiers_to_read(source, tier)
    tell = (lambda _: None) if as_json else say
    done = run_drill(chosen(tier), source, seconds=seconds, patience_seconds=patience, is_kept=keep, tell=tell)
    if as_json:
        say_json(msgspec.to_builtins(done))
    elif isinstance(done, Drilled):
        show_drill(done)
    else:
        show_restorable(done)
    raise typer.Exit(exits.OK if done.has_held else exits.FAILED)


def _confirm(folder: Path, tiers: Sequence[str]) -> None:
    import sys

    if not sys.stdin.isatty():
        raise BadUsage(
            f"replacing what the {' and the '.join(tiers)} holds needs a yes",
            why="Nobody can be asked here: the input is not a terminal.",
            fix=f"farmiq backup restore {folder} --replace --yes",
        )
    typer.confirm(f"Replace everything that the database of the {' and of the '.join(tiers)} holds?", abort=True)


def _without_files(manifest: dict[str, object]) -> dict[str, object]:
    """They are in the folder, and there are many of them."""
    return {name: value for name, value in manifest.items() if name != "files"}


def _show_made(manifest: "Manifest") -> None:
    rows, objects = sum(manifest.database.rows.values()), manifest.objects
    say(
        f"{manifest.tier}: {rows} rows as of {manifest.database.taken_at:%Y-%m-%d %H:%M:%S} UTC, {objects.objects} pictures"
    )
    if objects.damaged_count:
        say(
            f"  The store had {objects.damaged_count} pictures with other bytes than the database speaks of, for instance:"
        )
        for key in objects.damaged[:5]:
            say(f"    {key}")
    if objects.missing_count:
        say(f"  The store did not have {objects.missing_count} pictures that the database speaks of, for instance:")
        for key in objects.missing[:5]:
            say(f"    {key}")


def _show_verified(verified: "Verified") -> None:
    what = f"{verified.files} files, {verified.objects} pictures, {verified.rows} rows"
    if verified.problems:
        say(f"{verified.tier}: not sound ({what})")
        for problem in verified.problems:
            say(f"  {problem}")
    else:
        say(f"{verified.tier}: sound{', and restored into a database of its own' if verified.is_deep else ''} ({what})")
    for warning in verified.warnings:
        say(f"  {warning}")


def _show_restored(restored: "Restored") -> None:
    before = ", restored by an earlier command, and unchanged since" if restored.was_restored else ""
    say(f"{restored.tier}: {restored.rows} rows as of {restored.taken_at}{before}")
    say(f"  pictures: {restored.pictures.stored} brought back, {restored.pictures.kept} were still there")
    if restored.pictures.damaged:
        say(
            f"  pictures: {restored.pictures.damaged} of the backup have other bytes than the database speaks of: not restored"
        )
    if restored.pictures.mended:
        say(f"  pictures: {restored.pictures.mended} had other bytes in the store, and have those of the backup again")
    if restored.migrated:
        say(f"  schema brought to this version: {', '.join(restored.migrated)}")
    for kind, count in restored.repaired.items():
        say(f"  pictures, {kind.replace('_', ' ')}: {count} repaired")
    say(f"  epoch: {restored.life.epoch}, before {restored.life.epoch_before}")
    if restored.life.resend_since is not None:
        say(
            f"  each edge sends again what it was acknowledged since {restored.life.resend_since:%Y-%m-%d %H:%M:%S} UTC"
        )
    else:
        say("  nodes and weigh stations send again what they still have")
    _show_lacking(restored)


def _show_lacking(restored: "Restored") -> None:
    lacking = restored.not_in_backup
    if lacking is None:
        say("  What it held before could not be read. When everything runs again, farmiq audit says what is gone.")
        return
    for device, count in lacking.samples.items():
        say(f"  not in the backup: {count} samples of {device}")
    for session in lacking.sessions:
        say(f"  not in the backup: the weighing {session}")
    for name in lacking.speakers:
        what = "device" if restored.tier == "edge" else "edge"
        say(f"  not in the backup: the {what} {name}. Add it again before the services start, or it is refused.")
    if lacking.samples or lacking.sessions:
        say("  When everything runs again, farmiq audit says what of it is gone for good.")
