"""Which spool a command is about, and why it can't be looked at."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from farmiq.cli.errors import BadUsage, CommandFailed, NotRunning


def find_folder(given: Path | None) -> Path:
    if given is not None:
        return given
    from farmiq.cli.running import this_home
    from farmiq.stack.demo_farm import DEVICE_ID

    return this_home().spool_folder(DEVICE_ID)


@contextmanager
def explained(place: Path, *, is_given: bool) -> Iterator[None]:
    from farmiq.spool.errors import NotASpool, UnknownFormat
    from farmiq.stack.binaries import as_root

    try:
        yield
    except NotASpool as error:
        if not is_given:
            raise NotRunning(str(error), why="No farm was ever started there.", fix="farmiq up") from error
        raise BadUsage(
            str(error),
            why="A spool's folder holds segments, and the files `stream`, `synced`, `acked` and `losses`.",
            fix="farmiq spool ls FOLDER, with the folder that NODE_FORWARDER_SPOOL_DIR names on that node",
        ) from error
    except UnknownFormat as error:
        raise CommandFailed(
            f"{place}: {error}",
            why="A newer version of FarmIQ wrote it.",
            fix="run this with that version or a newer one",
        ) from error
    except PermissionError as error:
        raise CommandFailed(
            f"{error.filename or place} can't be read by this user",
            why="Only the user of node-forwarder, and its group, may look into a spool.",
            fix=f"run this as that user or as root: {as_root(f'farmiq spool ls {place}')}",
        ) from error
