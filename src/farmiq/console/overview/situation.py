"""The state of one tenant's farm at one moment: the pulse and the survey put together."""

from datetime import datetime
from math import inf
from typing import Any, Final, Literal

from msgspec import Struct

from farmiq.console.drain import outlook
from farmiq.console.overview.completeness import GRACE_SECONDS, Completeness, completeness
from farmiq.console.overview.figures import Figures, StationsLost
from farmiq.console.overview.runway import edge_runway_seconds
from farmiq.console.pulse import Pulse
from farmiq.kit.due_times import AHEAD_SECONDS

# What the cloud says when it does not want this edge: that will not pass by itself.
REFUSALS: Final = frozenset({"HTTP_401", "HTTP_403", "HTTP_404", "HTTP_405", "HTTP_407", "HTTP_415", "NOT_THE_CLOUD"})

GATEWAY: Final = "edge-ingress-gateway"
EDGE_STORE: Final = "edge-telemetry-timeseries"
FORWARDER: Final = "edge-sync-forwarder"
ENTRANCE: Final = "cloud-ingestion"
CLOUD_STORE: Final = "cloud-telemetry-service"

ANSWER_SECONDS: Final = 10.0
"""With something to send, the cloud takes something more often than that."""

LinkState = Literal["up", "down", "refused", "stuck", "unknown"]


class Absence(Struct, frozen=True):
    service: str
    since: datetime
    reason: str


class LinkNow(Struct, frozen=True):
    """`since` is when something went through last. `stuck`: nothing does, and no request has failed yet."""

    state: LinkState
    since: datetime | None = None
    code: str | None = None
    next_try_at: datetime | None = None


class Outbox(Struct, frozen=True):
    """Events at the edge that the cloud does not have. `drain_seconds` is None when they do not become fewer."""

    events: int | None = None
    oldest_seconds: float | None = None
    dead: int | None = None
    drain_seconds: float | None = None


class Rates(Struct, frozen=True):
    """A second, over the last ten."""

    edge_samples: float | None = None
    cloud_samples: float | None = None
    sent_events: float | None = None


class Situation(Struct, frozen=True, kw_only=True):
    now: datetime
    is_asked: bool = True
    absences: tuple[Absence, ...] = ()
    link: LinkNow = LinkNow("unknown")
    outbox: Outbox = Outbox()
    rates: Rates = Rates()
    figures: Figures = Figures()
    completeness: Completeness | None = None
    edge_room_seconds: float | None = None

    def is_away(self, service: str) -> bool:
        return any(absence.service == service for absence in self.absences)

    @property
    def is_edge_away(self) -> bool:
        return self.is_away(GATEWAY) and self.is_away(FORWARDER)

    @property
    def stations_lost(self) -> StationsLost | None:
        """What weigh stations gave up in the last 24 hours, by the tier that knows of more. None when neither was asked."""
        told = [tier.stations_lost for tier in (self.figures.day.edge, self.figures.day.cloud) if tier]
        return max(told, key=lambda one: one.losses, default=None)

    @property
    def lost(self) -> int | None:
        """Everything that was declared lost in the last 24 hours: samples, and events and pictures of weigh stations."""
        if self.completeness is None or self.stations_lost is None:
            return None
        return self.completeness.lost + max(self.stations_lost.lost, self.stations_lost.losses)

    @property
    def dead_letters(self) -> int | None:
        """At the edge, on the bus, and pictures. None when nobody could be asked."""
        pictures = self.figures.pictures.failed_count if self.figures.pictures else None
        known = [count for count in (self.outbox.dead, self.figures.bus.dead, pictures) if count is not None]
        return sum(known) if known else None


def situation(pulse: Pulse, figures: Figures, now: datetime) -> Situation:
    outbox, rates = _outbox(pulse), _rates(pulse)
    link = link_now(
        figures,
        outbox,
        now,
        is_forwarder_away=_told(pulse, FORWARDER) is None,
        is_entrance_away=any(absence.service == ENTRANCE for absence in _absences(pulse)),
    )
    return Situation(
        now=now,
        is_asked=bool(pulse.names),
        absences=_absences(pulse),
        link=link,
        outbox=outbox,
        rates=rates,
        figures=figures,
        completeness=completeness(
            figures.day,
            figures.fleet,
            outbox_oldest_seconds=outbox.oldest_seconds,
            samples_per_second=rates.edge_samples,
            is_link_up=link.state in {"up", "unknown"},
        ),
        edge_room_seconds=edge_runway_seconds(
            figures.room.disk_free_bytes,
            samples_per_second=rates.edge_samples,
            messages_per_second=pulse.rate(GATEWAY, "messages_received", 60.0),
            picture_bytes_per_second=figures.picture_bytes_per_second,
        ),
    )


def link_now(
    figures: Figures, outbox: Outbox, now: datetime, *, is_forwarder_away: bool, is_entrance_away: bool = False
) -> LinkNow:
    """The edge may still find an entrance that does not answer us: then something went through just now."""
    link = figures.link
    if link is None or is_forwarder_away:
        return LinkNow("unknown")
    if link.consecutive_failures > 0:
        state: LinkState = "refused" if link.last_error_code in REFUSALS else "down"
        return LinkNow(state, link.last_acked_at, link.last_error_code, link.paused_until)
    waits = (outbox.oldest_seconds or 0.0) >= GRACE_SECONDS
    silent_seconds = _silent_seconds(link.last_acked_at, now) if link.last_acked_at else None
    if waits and silent_seconds is not None and silent_seconds >= GRACE_SECONDS:
        return LinkNow("stuck", link.last_acked_at)
    if is_entrance_away and (silent_seconds is None or silent_seconds >= ANSWER_SECONDS):
        return LinkNow("stuck", link.last_acked_at)
    return LinkNow("up", link.last_acked_at)


def _silent_seconds(last_acked_at: datetime, now: datetime) -> float:
    """How long ago that was. Later than now was written by a clock that was ahead, which may have been any time ago."""
    seconds = (now - last_acked_at).total_seconds()
    return seconds if seconds > -AHEAD_SECONDS else inf


def _told(pulse: Pulse, service: str) -> dict[str, Any] | None:
    """What it said just now; None while it is away."""
    beat = pulse.of(service)
    return None if beat is None or beat.away_since is not None else dict(beat.told)


def _absences(pulse: Pulse) -> tuple[Absence, ...]:
    beats = [(name, pulse.of(name)) for name in pulse.names]
    return tuple(Absence(name, beat.away_since, beat.reason) for name, beat in beats if beat and beat.away_since)


def _outbox(pulse: Pulse) -> Outbox:
    told = _told(pulse, FORWARDER)
    if told is None:
        return Outbox()
    events = int(told.get("pending_count", 0)) + int(told.get("claimed_count", 0))
    return Outbox(
        events,
        float(told.get("oldest_pending_age_seconds", 0)) if events else 0.0,
        int(told.get("dlq_count", 0)),
        outlook(pulse.history(FORWARDER, "pending_count")).seconds,
    )


def _rates(pulse: Pulse) -> Rates:
    return Rates(
        edge_samples=_rate(pulse, EDGE_STORE, "samples_stored"),
        cloud_samples=_rate(pulse, CLOUD_STORE, "samples_stored"),
        sent_events=_rate(pulse, ENTRANCE, "accepted"),
    )


def _rate(pulse: Pulse, service: str, field: str) -> float | None:
    return None if _told(pulse, service) is None else pulse.rate(service, field)
