"""Which epoch of the cloud's database speaks in an answer. Pure, and without a clock: what counts is what was known when the
question set out."""

from enum import Enum
from typing import Final
from uuid import UUID

from msgspec import Struct

from farmiq.contracts.sync import CloudEpoch, HeardAnswer
from farmiq.kit.errors import Transient


class Speaker(Enum):
    SAME = "same"
    NEW = "new"
    STALE = "stale"


class KnownEpoch(Struct, frozen=True):
    """What a tenant's answers come from, and the last of them that is known to stand in one row with all that were heard before.
    None before the first; without a token, the cloud does not count."""

    epoch: UUID | None = None
    answer: int = 0
    token: int | None = None

    @property
    def as_heard(self) -> HeardAnswer | None:
        if self.epoch is None or self.token is None:
            return None
        return HeardAnswer(epoch=self.epoch, answer=self.answer, token=self.token)

    def after(self, said: CloudEpoch) -> "KnownEpoch":
        """When the cloud has said something under this epoch. An answer in whose row the last one does not stand proves nothing
        of it: then the last one stays what the next question tells, and the cloud finds out. So it has already where the last
        one lies too far back to be named: it was in the question."""
        if said.answer is None or not said.tokens or said.answer <= self.answer:
            return self
        place = len(said.tokens) - 1 - (said.answer - self.answer)
        is_confirmed = self.token is None or place < 0 or said.tokens[place] == self.token
        return KnownEpoch(self.epoch, said.answer, said.tokens[-1]) if is_confirmed else self


UNKNOWN: Final = KnownEpoch()


class StaleEpochResponse(Transient):
    """An answer that may have come from an epoch of the cloud which has ended since: what it acknowledged may be gone with it."""

    code = "stale_epoch_response"


def judge(known: KnownEpoch, asked_under: KnownEpoch, said: CloudEpoch) -> Speaker:
    """`known`: now, and nobody else changes it meanwhile; `asked_under`: when the question set out.

    Whoever was asked while the known epoch was known, and answers as another, follows it. Where the known one was heard of only
    after the question set out, nobody can tell which of the two is the older: the events are sent again, and the answer to that
    tells."""
    if known.epoch == said.epoch:
        return Speaker.SAME
    return Speaker.NEW if known.epoch in {None, asked_under.epoch} else Speaker.STALE
