from farmiq.kit.errors import FarmiqError


class BackupError(FarmiqError):
    """The backup could not be made, read or restored."""

    code = "backup"

    def __init__(self, what: str, *, fix: str | None = None) -> None:
        super().__init__(what)
        self.fix = fix


class NotABackup(BackupError):
    """A backup counts once its manifest is written, which is the last thing that `farmiq backup create` does."""


class FolderTaken(BackupError):
    """A finished backup is never written over. Each has a folder of its own."""


class BackupDamaged(BackupError):
    """What lies in the folder is not what was backed up. Nothing was changed anywhere: take an older backup."""


class ToolFailed(BackupError):
    """PostgreSQL's own tool ended with an error. Its last words are above."""


class TargetHoldsData(BackupError):
    """A restore takes the place of everything in the database. It does so only when it is told to."""


class ServicesRunning(BackupError):
    """Services that go on writing while their database is replaced would mix two lives of it. They have to be stopped first."""


class OtherTier(BackupError):
    """The backup, or the database, belongs to the other tier."""
