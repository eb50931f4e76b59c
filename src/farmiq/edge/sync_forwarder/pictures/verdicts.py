"""What became of a picture, and what that means for its row. Pure."""

from typing import Final, Literal

from msgspec import Struct

from farmiq.edge.sync_forwarder.answers import Away, Refused
from farmiq.outbox.verdicts import LEASE_EXPIRED, Failure, RetryPolicy, backoff_seconds

EXPIRED: Final = Refused(
    Failure(LEASE_EXPIRED, "the forwarder that was sending it did not finish before its lease was over")
)


class Sent(Struct, frozen=True):
    """The cloud has it, and has compared size and checksum."""


class Gone(Struct, frozen=True):
    """There is nothing to send, and trying again will not bring it back."""

    failure: Failure


Verdict = Sent | Away | Refused | Gone


class Outcome(Struct, frozen=True, kw_only=True):
    """What is written to the row."""

    state: Literal["sent", "pending", "failed"]
    attempt_count: int
    delay_seconds: float = 0.0
    failure: Failure | None = None


def outcome_of(verdict: Verdict, attempt_count: int, policy: RetryPolicy, jitter: float) -> Outcome:
    match verdict:
        case Sent():
            return Outcome(state="sent", attempt_count=attempt_count)
        case Away(failure=failure):
            # It goes behind those that wait, so that a store which refuses one picture in such words stops no other.
            return Outcome(state="pending", attempt_count=attempt_count, failure=failure)
        case Gone(failure=failure):
            return Outcome(state="failed", attempt_count=attempt_count + 1, failure=failure)
        case Refused(failure=failure):
            return _refused(failure, attempt_count + 1, policy, jitter)


def _refused(failure: Failure, attempt_count: int, policy: RetryPolicy, jitter: float) -> Outcome:
    if attempt_count >= policy.attempts_max:
        return Outcome(state="failed", attempt_count=attempt_count, failure=failure)
    delay_seconds = backoff_seconds(attempt_count, policy, jitter)
    return Outcome(state="pending", attempt_count=attempt_count, delay_seconds=delay_seconds, failure=failure)
