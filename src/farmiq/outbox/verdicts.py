"""What becomes of a claimed event. Pure: the clock, the database and chance are elsewhere."""

from typing import Final, Literal

import msgspec
from msgspec import Struct

from farmiq.kit.postgres import storable
from farmiq.outbox.event import Lease

LEASE_EXPIRED: Final = "LEASE_EXPIRED"
MAX_ATTEMPTS_EXCEEDED: Final = "max_attempts_exceeded"
MESSAGE_LENGTH_MAX: Final = 1000


class RetryPolicy(Struct, frozen=True, kw_only=True):
    attempts_max: int = 10
    backoff_base_seconds: float = 1.0
    backoff_cap_seconds: float = 300.0


class Failure(Struct, frozen=True):
    """Why an event did not arrive: a code for queries (`HTTP_500`, `NETWORK_ERROR`), and words for a person.

    Both may come from whoever answered, and are made such that they can be written down: an answer with a NUL in it must not
    end the service that tries to.
    """

    code: str
    message: str

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "code", storable(self.code))
        msgspec.structs.force_setattr(self, "message", storable(self.message))


class Held(Failure, frozen=True):
    """Nothing is wrong with the event: a person decides when the cloud takes it."""


class Outcome(Struct, frozen=True, kw_only=True, gc=False):
    """What `settle` writes to one row."""

    lease: Lease
    status: Literal["acked", "pending", "dlq"]
    attempt_count: int
    delay_seconds: float = 0.0
    failure: Failure | None = None

    @property
    def is_held(self) -> bool:
        return isinstance(self.failure, Held)


_ABANDONED: Final = Failure(
    LEASE_EXPIRED, "the forwarder that had claimed it did not settle it before its lease was over"
)


def acked(lease: Lease) -> Outcome:
    return Outcome(lease=lease, status="acked", attempt_count=lease.attempt_count)


def released(lease: Lease, failure: Failure | None = None) -> Outcome:
    """Nobody has judged the event: it goes back as it came, and may be claimed again at once."""
    return Outcome(lease=lease, status="pending", attempt_count=lease.attempt_count, failure=failure)


def held(lease: Lease, why: Held, delay_seconds: float) -> Outcome:
    """It costs no attempt. The row waits outside the claim, where it stands in nobody's way."""
    return Outcome(
        lease=lease, status="pending", attempt_count=lease.attempt_count, delay_seconds=delay_seconds, failure=why
    )


def abandoned(lease: Lease, policy: RetryPolicy, jitter: float, *, was_alone: bool) -> Outcome:
    """Its forwarder did not settle it before its lease was over. Only an event that was alone in its forwarder's hands is
    charged: of many, nobody knows which of them ended it, or whether it was one of them at all."""
    return failed(lease, _ABANDONED, policy, jitter) if was_alone else released(lease, _ABANDONED)


def failed(lease: Lease, failure: Failure, policy: RetryPolicy, jitter: float) -> Outcome:
    """An attempt was made and did not succeed: wait and try again, or give up and leave it to a person."""
    attempt_count = lease.attempt_count + 1
    if attempt_count >= policy.attempts_max:
        return Outcome(lease=lease, status="dlq", attempt_count=attempt_count, failure=failure)
    return Outcome(
        lease=lease,
        status="pending",
        attempt_count=attempt_count,
        delay_seconds=backoff_seconds(attempt_count, policy, jitter),
        failure=failure,
    )


def backoff_seconds(attempt_count: int, policy: RetryPolicy, jitter: float) -> float:
    """Doubles with every attempt. `jitter` is 0 to 1 second, so that a batch that failed together does not return together."""
    # An exponent of 62 is past every cap, and a float can still hold it.
    grown = 2.0 ** min(attempt_count, 62) * policy.backoff_base_seconds + jitter
    return min(grown, policy.backoff_cap_seconds)
