"""What to make of what was found in the object store. Nothing here looks for itself."""

from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from farmiq.edge.media_store.picture import Picture

AWAITED_PAUSE_SECONDS_MAX: Final = 60.0
SIZE_MISMATCH: Final = "size_mismatch"
CHECKSUM_MISMATCH: Final = "checksum_mismatch"
EMPTY: Final = "empty"


class Absent(Struct, frozen=True):
    """There is no object under its key."""


class Unfit(Struct, frozen=True):
    """There is one, and it is not taken."""

    code: str
    detail: str
    sha256: str | None = None
    """Of the bytes that were looked at."""


class Sound(Struct, frozen=True):
    """A whole picture of the said type. Whether it is the picture that was said is for `disagreement`."""

    size_bytes: int
    sha256: str
    width_px: int
    height_px: int
    # Of the picture without its camera's notes. None: it has none.
    sent_size_bytes: int | None = None
    sent_sha256: str | None = None


Finding = Absent | Unfit | Sound


class Again(Struct, frozen=True):
    """Look once more, after so long."""

    seconds: float


class GivenUp(Struct, frozen=True):
    """It can no longer come: its URL has expired and nothing that began in time is still under way."""


def disagreement(picture: Picture, sound: Sound) -> Unfit | None:
    """The device said how large it is, or what its checksum is, and the bytes say otherwise."""
    if picture.size_bytes not in (None, sound.size_bytes):
        return Unfit(SIZE_MISMATCH, f"{sound.size_bytes} bytes are there, {picture.size_bytes} were said", sound.sha256)
    if picture.sha256 not in (None, sound.sha256):
        said = f"the SHA-256 of what is there is {sound.sha256}, {picture.sha256} was said"
        return Unfit(CHECKSUM_MISMATCH, said, sound.sha256)
    return None


def may_come_again(picture: Picture, unfit: Unfit) -> bool:
    """The station may have better bytes than those that are here. Not when these are the ones that it announced."""
    return picture.sha256 is None or picture.sha256 != unfit.sha256


def after_absence(picture: Picture, now: datetime, *, sweep_seconds: float, grace_seconds: float) -> Again | GivenUp:
    """Soon for one that somebody says is there, at leisure for one that nobody speaks of."""
    deadline = (picture.expires_at or picture.created_at) + timedelta(seconds=grace_seconds)
    if now >= deadline:
        return GivenUp()
    if picture.announced_at is None:
        pause_seconds = sweep_seconds
    else:
        pause_seconds = min(0.5 * 2.0 ** min(picture.checks, 16), AWAITED_PAUSE_SECONDS_MAX)
    return Again(min(pause_seconds, (deadline - now).total_seconds()))
