"""Which databases and object stores a backup is about: those that the environment names, else those of this machine's farm."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from farmiq.cli.backup import Tiers
from farmiq.cli.errors import BadUsage, CommandFailed
from farmiq.cli.migrate import Tier, database_url
from farmiq.cli.object_store import DATABASE, with_object_store
from farmiq.cli.terminal import say

if TYPE_CHECKING:
    from farmiq.backup.manifest import Tier as TierName
    from farmiq.backup.tiers import Place
    from farmiq.stack.home import Home


def chosen(tier: Tiers) -> "list[TierName]":
    if tier is Tiers.BOTH:
        return ["edge", "cloud"]
    return ["edge" if tier is Tiers.EDGE else "cloud"]


def tiers_to_read(folder: Path, tier: Tiers) -> "list[TierName]":
    """Those that the folder has; one that was asked for by name must be there."""
    from farmiq.backup.manifest import read_manifest, tier_folder, tiers_in

    found = tiers_in(folder.absolute())
    wanted = chosen(tier)
    if tier is Tiers.BOTH and found:
        return found
    for one in wanted:
        read_manifest(tier_folder(folder.absolute(), one))
    return wanted


@contextmanager
def places_of(
    tiers: "Sequence[TierName]", environ: Mapping[str, str], command: str, *, is_restoring: bool = False
) -> "Iterator[list[Place]]":
    """For a restore on this machine the farm's servers run meanwhile, and none of its services."""
    if any(environ.get(name) for name in DATABASE):
        if len(tiers) != 1:
            raise BadUsage(
                "which tier?",
                why="DATABASE_URL names one database, and each tier has its own.",
                fix=f"farmiq {command} --tier {' or '.join(tiers)}",
            )
        yield [_place(tier, environ, command) for tier in tiers]
    elif is_restoring:
        from farmiq.backup.servers import servers_only
        from farmiq.cli.running import this_home

        home = this_home(environ)
        _refuse_running(home)
        with servers_only(home, environ):
            yield [_place(tier, environ, command) for tier in tiers]
    else:
        yield [_place(tier, environ, command) for tier in tiers]


def progress(is_quiet: bool) -> Callable[[str], None]:
    return (lambda _: None) if is_quiet else (lambda text: say(f"  {text}"))


def _place(tier: "TierName", environ: Mapping[str, str], command: str) -> "Place":
    from farmiq.backup.tiers import Place
    from farmiq.kit import logging
    from farmiq.kit.s3_settings import ObjectStoreSettings
    from farmiq.kit.settings import load

    logging.configure("ERROR")
    url = database_url(Tier(tier), environ, command)
    return Place(tier, url, load(ObjectStoreSettings, with_object_store(environ, tier)))


def _refuse_running(home: "Home") -> None:
    from farmiq.cli.running import is_running
    from farmiq.stack.control import read_state

    state = read_state(home)
    if is_running(state) and any(child.kind == "service" for child in state.children):
        raise CommandFailed(
            f"the farm in {home.path} runs",
            why="Its services would go on writing while their database is replaced.",
            fix="farmiq down, then the same command again; its servers are started for the time of the restore",
        )
