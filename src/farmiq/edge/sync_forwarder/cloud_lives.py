"""Which life of the cloud's database speaks in an answer. Pure."""

from datetime import datetime
from enum import Enum
from uuid import UUID

from msgspec import Struct

from farmiq.contracts.sync import CloudLife
from farmiq.kit.errors import Transient


class Speaker(Enum):
    SAME = "same"
    NEW = "new"
    DEAD = "dead"


class KnownLife(Struct, frozen=True):
    """What a tenant's last answer came from. None before the first."""

    epoch: UUID | None
    began_at: datetime | None


class DeadAnswer(Transient):
    """An answer that a life of the cloud's database gave which has ended since: what it acknowledged may be gone with it."""

    code = "dead_answer"


def heard(known: KnownLife, said: CloudLife) -> Speaker:
    """The life that began last is the one that counts: what was delayed on its way must not bring a dead one back."""
    if known.epoch == said.epoch:
        return Speaker.SAME
    if known.began_at is None or said.began_at > known.began_at:
        return Speaker.NEW
    return Speaker.DEAD
