"""What is known of one weigh session, as a sum of facts that may come in any order and any number of times.

`join` is commutative, associative and idempotent, so every order of a session's events ends in the same session. Where two
facts speak of the same thing, the station's own times decide and never the order of arrival: the first `created` opens the
session, the last `finalized` or `cancelled` closes it.

The final weight is what the station gave when it finalized; if it gave none, what an operator gave; if nobody did, the last
weight that was recorded: a station weighs on until the animal stands still. The initial weight is what came with `created`, or
else the first weight recorded.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, Protocol, TypeVar
from uuid import UUID

import msgspec

from farmiq.contracts.weighvision import (
    ImageCaptured,
    StationSessionCancelled,
    StationSessionCreated,
    StationSessionFinalized,
    WeightRecorded,
)
from farmiq.edge.weighvision_session.events import SessionEvent

Status = Literal["created", "finalized", "cancelled"]


class _Fact(msgspec.Struct, frozen=True):
    at: datetime
    event_id: UUID

    @property
    def rank(self) -> tuple[object, ...]:
        return self.at, self.event_id


class Created(_Fact, frozen=True):
    batch_id: str | None = None
    initial_weight_kg: float | None = None


class Weight(_Fact, frozen=True):
    weight_kg: float


class Announced(_Fact, frozen=True):
    """The station said over MQTT that it took this picture."""


class Closing(_Fact, frozen=True):
    """The station's last word."""

    status: Literal["finalized", "cancelled"]
    image_count: int | None = None
    final_weight_kg: float | None = None
    reason: str | None = None


class Ruling(_Fact, frozen=True):
    """An operator has finalized the session with what is there: nobody waits for anything any longer.

    It stands in for the station's word, and gives way to it should that still come.
    """

    reason: str
    image_count: int
    final_weight_kg: float | None = None


class Result(msgspec.Struct, frozen=True):
    """The inference result that speaks for the session: of the newest model, the one it is surest of."""

    id: UUID
    model_generation: int
    confidence: float
    occurred_at: datetime

    @property
    def rank(self) -> tuple[object, ...]:
        return self.model_generation, self.confidence, self.occurred_at, self.id


class Picture(msgspec.Struct, frozen=True):
    announced: Announced | None = None
    stored_at: datetime | None = None
    has_result: bool = False

    def join(self, other: "Picture") -> "Picture":
        stored = [at for at in (self.stored_at, other.stored_at) if at is not None]
        return Picture(
            _first(self.announced, other.announced),
            min(stored, default=None),
            self.has_result or other.has_result,
        )


class Missing(msgspec.Struct, frozen=True):
    """What a valid session still needs."""

    created: bool
    weight: bool
    finalized: bool
    pictures: int

    def __bool__(self) -> bool:
        return self.created or self.weight or self.finalized or self.pictures > 0


class Session(msgspec.Struct, frozen=True):
    created: Created | None = None
    first_weight: Weight | None = None
    last_weight: Weight | None = None
    pictures: Mapping[UUID, Picture] = {}
    closing: Closing | None = None
    ruling: Ruling | None = None
    result: Result | None = None

    def join(self, other: "Session") -> "Session":
        return Session(
            _first(self.created, other.created),
            _first(self.first_weight, other.first_weight),
            _last(self.last_weight, other.last_weight),
            _together(self.pictures, other.pictures),
            _last(self.closing, other.closing),
            _last(self.ruling, other.ruling),
            _last(self.result, other.result),
        )

    @property
    def status(self) -> Status:
        if self.closing is not None:
            return self.closing.status
        return "created" if self.ruling is None else "finalized"

    @property
    def ended(self) -> Closing | Ruling | None:
        """What closed it."""
        return self.closing or self.ruling

    @property
    def initial_weight_kg(self) -> float | None:
        if self.created is not None and self.created.initial_weight_kg is not None:
            return self.created.initial_weight_kg
        return None if self.first_weight is None else self.first_weight.weight_kg

    @property
    def final_weight_kg(self) -> float | None:
        if self.status != "finalized":
            return None
        for word in (self.closing, self.ruling):
            if word is not None and word.final_weight_kg is not None:
                return word.final_weight_kg
        return None if self.last_weight is None else self.last_weight.weight_kg

    @property
    def image_count(self) -> int | None:
        """How many pictures there should be, as whoever finalized it said."""
        return None if self.ended is None else self.ended.image_count

    @property
    def pictures_stored(self) -> int:
        return sum(picture.stored_at is not None for picture in self.pictures.values())

    @property
    def missing(self) -> Missing:
        # Whatever the station counted, a session without a single picture is not valid.
        needed = max(1, self.image_count or 0)
        return Missing(
            created=self.created is None,
            weight=self.last_weight is None,
            finalized=self.status == "created",
            pictures=max(0, needed - self.pictures_stored),
        )

    @property
    def is_complete(self) -> bool:
        return self.status == "finalized" and not self.missing

    @property
    def is_awaited(self) -> bool:
        """Something should still come."""
        return self.ruling is None and self.status != "cancelled" and not self.is_complete

    @property
    def is_unheard_of(self) -> bool:
        """Pictures name it, and nobody has said a word about it."""
        words = (self.created, self.first_weight, self.closing, self.ruling)
        is_announced = any(picture.announced is not None for picture in self.pictures.values())
        return not is_announced and self.pictures_stored > 0 and not any(words)

    @property
    def is_settled(self) -> bool:
        """Closed, and nothing is under way that would change how it ended."""
        if self.status == "cancelled":
            return True
        has_results = all(picture.has_result for picture in self.pictures.values() if picture.stored_at is not None)
        return self.status == "finalized" and not self.is_awaited and has_results


def seen(event: SessionEvent) -> Session:
    """The session of which nothing but this event is known."""
    at, event_id = event.at, event.event_id
    match event.said:
        case StationSessionCreated(batch_id=batch_id, initial_weight_kg=initial_weight_kg):
            return Session(created=Created(at, event_id, batch_id, initial_weight_kg))
        case WeightRecorded(weight_kg=weight_kg):
            weight = Weight(at, event_id, weight_kg)
            return Session(first_weight=weight, last_weight=weight)
        case ImageCaptured(media_id=media_id):
            return Session(pictures={media_id: Picture(Announced(at, event_id))})
        case StationSessionFinalized(image_count=image_count, final_weight_kg=final_weight_kg):
            return Session(closing=Closing(at, event_id, "finalized", image_count, final_weight_kg))
        case StationSessionCancelled(reason=reason):
            return Session(closing=Closing(at, event_id, "cancelled", reason=reason))


class _Ranked(Protocol):
    @property
    def rank(self) -> tuple[object, ...]: ...


R = TypeVar("R", bound=_Ranked)


def _first(one: R | None, other: R | None) -> R | None:
    return min((fact for fact in (one, other) if fact is not None), key=_rank, default=None)


def _last(one: R | None, other: R | None) -> R | None:
    return max((fact for fact in (one, other) if fact is not None), key=_rank, default=None)


def _rank(fact: _Ranked) -> tuple[object, ...]:
    return fact.rank


def _together(some: Mapping[UUID, Picture], others: Mapping[UUID, Picture]) -> dict[UUID, Picture]:
    nothing = Picture()
    return {
        media_id: some.get(media_id, nothing).join(others.get(media_id, nothing))
        for media_id in sorted(some.keys() | others.keys())
    }
