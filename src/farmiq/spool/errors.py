"""What can go wrong in a spool. Each class's text is what the operator reads."""

from pathlib import Path


class SpoolError(Exception):
    """The spool cannot do what was asked."""


class SpoolLocked(SpoolError):
    """Another process writes this spool folder. Only one may; stop that one first."""

    def __init__(self, folder: Path, holder_pid: int | None) -> None:
        holder = f"process {holder_pid}" if holder_pid else "a process that has not written its id yet"
        super().__init__(f"spool folder {folder} is held by {holder}")
        self.holder_pid = holder_pid


class SpoolFull(SpoolError):
    """There is no room, and nothing left that the policy may drop. What was not taken stays with the producer."""


class SyncFailed(SpoolError):
    """The disk refused to store. The segment was given up at its last synced frame, and nothing after it was kept.

    A second sync would report success over data that the kernel has already thrown away, so none is tried. The producer
    sends again what is above `kept_through`.
    """

    def __init__(self, kept_through: int) -> None:
        super().__init__(f"the disk refused to store what came after sequence {kept_through}")
        self.kept_through = kept_through


class NotBegun(SpoolError):
    """Samples came before the producer said which boot and which channels they belong to."""


class BadSample(SpoolError):
    """A sample does not fit the frame: the message names the field. Nothing of its group was written."""


class BadChannels(SpoolError):
    """The producer's channel table does not fit a segment's header."""


class AckRefused(SpoolError):
    """An acknowledgement names a sequence that this spool never wrote. Believing it would delete data that nobody has."""


class UnknownFormat(SpoolError):
    """A segment was written by a newer version of FarmIQ. Nothing was touched; run that version or newer."""


class NotASpool(SpoolError):
    """There is no spool in this folder: neither a segment nor any of the files that a spool keeps beside them."""
