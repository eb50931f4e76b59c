"""What to make of a look that failed. Nothing here looks for itself."""

from typing import Final

from msgspec import Struct

from farmiq.edge.vision_inference.seen import AnswerUnusable
from farmiq.kit.errors import FarmiqError, Rejected, Transient
from farmiq.kit.s3 import StoreRefused

AWAY_SECONDS: Final = 2.0
PAUSE_SECONDS_MAX: Final = 300.0
ABANDONED: Final = "abandoned"


class BytesChanged(Rejected):
    """The object is no longer the picture that was verified."""

    code = "checksum_mismatch"


class ModelNotAtWork(Rejected):
    """The picture was to be looked at by a model that another one has replaced since. Ask again for the one at work."""

    code = "model_not_at_work"


class Trouble(Struct, frozen=True):
    """Why, as an operator reads it. The code is a label of metrics too."""

    code: str
    message: str


class Again(Struct, frozen=True):
    """`is_free`: it says nothing about the picture, and costs it no attempt."""

    seconds: float
    is_free: bool


class GivenUp(Struct, frozen=True):
    pass


def trouble_of(error: Exception) -> Trouble:
    if isinstance(error, FarmiqError):
        return Trouble(error.code, str(error))
    return Trouble("internal_error", f"{type(error).__name__}: {error}")


def judge(error: Exception, attempt: int, attempts_max: int) -> Again | GivenUp:
    """`attempt` is which one this was, from 1."""
    if isinstance(error, Transient | StoreRefused):
        return Again(AWAY_SECONDS, is_free=True)
    # The same bytes and the same model would say the same once more.
    if isinstance(error, Rejected | AnswerUnusable) or attempt >= attempts_max:
        return GivenUp()
    return Again(min(2.0 ** (attempt - 1), PAUSE_SECONDS_MAX), is_free=False)


def after_lease(attempt: int, attempts_max: int) -> Again | GivenUp:
    """Whoever had it is gone. At once, unless it has taken that many with it."""
    return GivenUp() if attempt >= attempts_max else Again(0.0, is_free=False)
