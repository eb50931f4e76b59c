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


class BadSetting(CommandFailed):
    """An environment variable has a value that is not allowed."""

    code = "bad_settings"
    exit_code = exits.BAD_SETTINGS
