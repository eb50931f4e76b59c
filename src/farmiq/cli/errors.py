from collections.abc import Iterable

from farmiq.cli import exits
from farmiq.kit.errors import FarmiqError


class CommandFailed(FarmiqError):
    """The command could not do its work. It knows why, and which command or edit helps."""

    code = "command_failed"
    exit_code = exits.FAILED

    def __init__(self, what: str, *, why: str, fix: str) -> None:
        super().__init__(what)
        self.why = why
        self.fix = fix


class NotRunning(CommandFailed):
    """No farm runs from this home."""

    code = "not_running"
    exit_code = exits.NOT_RUNNING


class BadUsage(CommandFailed):
    """The arguments do not fit together."""

    code = "bad_usage"
    exit_code = exits.USAGE


def near_matches(wanted: str, names: Iterable[str]) -> list[str]:
    """The names that a person may have meant: those that contain the word, else those that differ by a few letters."""
    from difflib import get_close_matches

    names = list(names)
    return [name for name in names if wanted and wanted in name] or get_close_matches(wanted, names)


class BadSetting(CommandFailed):
    """An environment variable has a value that is not allowed."""

    code = "bad_settings"
    exit_code = exits.BAD_SETTINGS
