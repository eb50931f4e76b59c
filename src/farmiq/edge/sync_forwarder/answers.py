"""What the cloud's answer means for the events that were sent."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, TypeVar
from uuid import UUID

import msgspec
from msgspec import Struct

from farmiq.contracts.decoding import MalformedMessage, parse
from farmiq.contracts.sync import CloudEpoch, EdgeBatchAnswer, EventResult
from farmiq.outbox.event import Lease
from farmiq.outbox.verdicts import Failure, Held, Outcome, RetryPolicy, acked, failed, held

# Somewhere between here and the cloud nobody could answer for it. 511 is a captive portal; 520 and up are what proxies
# in front of a service say when it is gone.
_UNREACHED: Final = frozenset({408, 425, 429, 502, 503, 504, 511, *range(520, 531)})
# About this edge's credential, its URL, its proxy or its encoding, not about its events: they are as good as before once a
# person has put it right.
_WRONG_SETTINGS: Final = frozenset({401, 403, 404, 405, 407, 415})
# What counts against the events whoever says it. A 500 without words is the cloud's rule of requirement 001; a proxy that takes
# no request of this size will take none of it later either.
_WITHOUT_WORDS: Final = frozenset({413, 500})
_TOO_LARGE: Final = "HTTP_413"
FAILING: Final = "HTTP_500"
_SHOWN_LENGTH: Final = 300


L = TypeVar("L", bound=Lease)


class Away(Struct, frozen=True):
    """The cloud has not judged the events. They wait, and it costs them nothing."""

    failure: Failure
    retry_after_seconds: float | None = None
    needs_person: bool = False


class Refused(Struct, frozen=True):
    """The cloud refused the request as a whole: there is something wrong with at least one of its events, or with the cloud."""

    failure: Failure

    @property
    def is_too_large(self) -> bool:
        return self.failure.code == _TOO_LARGE


class Judged(Struct, frozen=True):
    """One by one: None for an event that the cloud has, else why not."""

    by_event: dict[UUID, Failure | None]
    """`Held` is a failure that is no fault of the event."""
    epoch: CloudEpoch | None = None


Answer = Away | Refused | Judged

NO_RESULT: Final = Failure("NO_RESULT", "the cloud's answer does not mention this event")


def read_answer(status: int, retry_after: str | None, body: bytes, now: datetime) -> Answer:
    return _judged(body) if status == 200 else not_judged(status, retry_after, body, now)


def not_judged(status: int, retry_after: str | None, body: bytes, now: datetime) -> Away | Refused:
    """What any status but 200 means."""
    words = own_words(body)
    failure = Failure(f"HTTP_{status}", words or _beginning(body))
    if status in _UNREACHED:
        return Away(failure, retry_after_seconds(retry_after, now))
    if status in _WRONG_SETTINGS:
        return Away(failure, retry_after_seconds(retry_after, now), needs_person=True)
    if status < 400 or not (words or status in _WITHOUT_WORDS):
        # A redirect, an empty success, the page of a proxy, of a SIM card's portal or of a provider: that was not the cloud.
        return Away(Failure("NOT_THE_CLOUD", f"HTTP {status}: {_beginning(body)}"), needs_person=True)
    return Refused(failure)


def outcomes(
    leases: Sequence[L],
    answer: Refused | Judged,
    policy: RetryPolicy,
    jitter: Callable[[], float],
    hold_seconds: Callable[[L, Held], float],
) -> list[Outcome]:
    """What is written to each row. An event that the answer does not mention has not been acknowledged."""
    if isinstance(answer, Refused):
        return [failed(lease, answer.failure, policy, jitter()) for lease in leases]
    return [_outcome(lease, answer.by_event.get(lease.id, NO_RESULT), policy, jitter, hold_seconds) for lease in leases]


def retry_after_seconds(text: str | None, now: datetime) -> float | None:
    """Both forms of the header, seconds and a date. None for anything else."""
    if not text:
        return None
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds())


def _outcome(
    lease: L,
    why: Failure | None,
    policy: RetryPolicy,
    jitter: Callable[[], float],
    hold_seconds: Callable[[L, Held], float],
) -> Outcome:
    if why is None:
        return acked(lease)
    if isinstance(why, Held):
        return held(lease, why, hold_seconds(lease, why))
    return failed(lease, why, policy, jitter())


def _judged(body: bytes) -> Answer:
    try:
        answer = parse(EdgeBatchAnswer, body)
    except MalformedMessage as error:
        # A captive portal answers 200 with its login page. Nothing but the cloud's own words may acknowledge an event.
        return Away(Failure("NOT_THE_CLOUD", f"{error.detail}: {_beginning(body)}"), needs_person=True)
    return Judged(
        {result.event_id: _failure(result) for result in answer.results if result.event_id is not None},
        answer.life,
    )


def _failure(result: EventResult) -> Failure | None:
    match result.status:
        case "accepted" | "duplicate":
            return None
        case "held":
            return Held(result.code or "held", result.message or "the cloud holds the event until a person decides")
        case "rejected":
            return Failure(result.code or "rejected", result.message or "the cloud rejected the event")


class _Detail(Struct):
    code: str
    message: str = ""


class _ErrorBody(Struct):
    error: _Detail


def own_words(body: bytes) -> str:
    """The cloud's own error shape in words; empty for anything else."""
    try:
        error = msgspec.json.decode(body, type=_ErrorBody).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return f"{error.code}: {error.message}"[:_SHOWN_LENGTH]


def _beginning(body: bytes) -> str:
    return body[:_SHOWN_LENGTH].decode("utf-8", "replace")
