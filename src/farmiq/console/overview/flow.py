"""What moves and what waits at each hop from the sensor to the cloud. Pure."""

from typing import Literal

from msgspec import Struct

from farmiq.console.overview.completeness import GRACE_SECONDS
from farmiq.console.overview.sentence import moment
from farmiq.console.overview.situation import CLOUD_STORE, ENTRANCE, GATEWAY, Situation
from farmiq.console.wording import count, decimal, duration

Kind = Literal["good", "busy", "warn", "bad", "none"]


class Hop(Struct, frozen=True, kw_only=True):
    """An arrow of the picture. `oldest` and `rate` are as they are shown; a dash is what is not known."""

    key: str
    way: str
    kind: Kind
    word: str
    rate: str
    waiting: str
    oldest: str
    is_moving: bool = False


def hops(now: Situation) -> list[Hop]:
    return [_from_devices(now), _to_cloud(now), _pictures(now), _into_database(now)]


def hop_of(found: list[Hop], key: str) -> Hop:
    return next(hop for hop in found if hop.key == key)


def _from_devices(now: Situation) -> Hop:
    fleet, rate = now.figures.fleet, now.rates.edge_samples
    if now.is_away(GATEWAY):
        kind, word = _state("bad", "edge away")
    elif fleet is None:
        kind, word = _state("none", "not known")
    elif fleet.oldest_seconds >= GRACE_SECONDS and fleet.unacked_samples:
        kind, word = _state("busy", "catching up")
    elif fleet.online == 0:
        kind, word = _state("none", "no device here")
    else:
        kind, word = _state("good", "up")
    waits = bool(fleet and fleet.unacked_samples)
    return Hop(
        key="devices",
        way="Devices to edge",
        kind=kind,
        word=word,
        rate=_rate(rate, "samples/s"),
        waiting=f"{count(fleet.unacked_samples)} on devices" if fleet else "\u2013",
        # Devices say how they are every ten seconds: it was this old at most.
        oldest=f"oldest \u2264 {duration(fleet.oldest_seconds)}" if fleet and waits else "",
        is_moving=bool(rate),
    )


def _to_cloud(now: Situation) -> Hop:
    link, outbox = now.link, now.outbox
    is_late = (outbox.oldest_seconds or 0.0) >= GRACE_SECONDS
    since = f" since {moment(link.since, now.now)}" if link.since else ""
    kind, word = {
        "up": _state("busy", "catching up") if is_late and outbox.events else _state("good", "up"),
        "down": _state("bad", f"down{since}"),
        "refused": _state("bad", f"refused{since}"),
        "stuck": _state("warn", f"no answer{since}"),
        "unknown": _state("none", "not known"),
    }[link.state]
    return Hop(
        key="cloud",
        way="Edge to cloud",
        kind=kind,
        word=word,
        rate=_rate(now.rates.sent_events, "events/s"),
        waiting=f"{count(outbox.events)} wait",
        oldest=f"oldest {duration(outbox.oldest_seconds)}" if outbox.events else "",
        is_moving=bool(now.rates.sent_events) and link.state == "up",
    )


def _pictures(now: Situation) -> Hop:
    pictures, rate = now.figures.pictures, now.figures.pictures_per_second
    if pictures is None:
        kind, word = _state("none", "not known")
    elif pictures.failed_count:
        kind, word = _state("warn", f"{count(pictures.failed_count)} given up")
    elif now.link.state in {"down", "refused", "stuck"}:
        kind, word = _state("bad", "waiting for the link" if pictures.waiting else "cut, and nothing waits")
    else:
        kind, word = _state("busy", "sending") if pictures.waiting else _state("good", "all sent")
    age = (now.now - pictures.oldest_at).total_seconds() if pictures and pictures.oldest_at else None
    return Hop(
        key="pictures",
        way="Pictures to cloud",
        kind=kind,
        word=word,
        rate=_rate(None if rate is None else rate * 60, "pictures/min"),
        waiting=f"{count(pictures.waiting)} wait" if pictures else "\u2013",
        oldest=f"oldest {duration(age)}" if age is not None else "",
        is_moving=bool(rate) and now.link.state == "up",
    )


def _into_database(now: Situation) -> Hop:
    bus, rate = now.figures.bus, now.rates.cloud_samples
    if now.is_away(CLOUD_STORE):
        kind, word = _state("bad", "not storing")
    elif bus.waiting is None:
        kind, word = _state("none", "not known")
    else:
        kind, word = _state("busy", "storing") if bus.waiting > 1000 else _state("good", "up")
    return Hop(
        key="database",
        way="Bus to cloud database",
        kind=kind,
        word=word,
        rate=_rate(rate, "samples/s"),
        waiting=f"{count(bus.waiting)} in queues",
        oldest="",
        is_moving=bool(rate),
    )


class Station(Struct, frozen=True):
    """A box of the picture."""

    key: str
    title: str
    kind: Kind
    lines: tuple[str, ...]


def stations(now: Situation) -> list[Station]:
    fleet = now.figures.fleet
    edge, cloud = now.figures.day.edge, now.figures.day.cloud
    return [
        Station("devices", "Devices", _fleet_kind(now), _fleet_lines(now) if fleet else ("not known",)),
        Station(
            "edge",
            "Edge",
            "bad" if now.is_away(GATEWAY) else "good",
            (f"{count(edge.stored if edge else None)} in 24 h", f"room {duration(now.edge_room_seconds)}"),
        ),
        Station(
            "bus",
            "Cloud entrance",
            "bad" if now.is_away(ENTRANCE) else "good",
            ("and RabbitMQ", f"{count(now.figures.bus.dead)} dead letters"),
        ),
        Station(
            "database",
            "Cloud database",
            "bad" if now.is_away(CLOUD_STORE) else "good",
            (f"{count(cloud.stored if cloud else None)} in 24 h", f"{count(now.lost)} lost"),
        ),
    ]


def _fleet_kind(now: Situation) -> Kind:
    fleet = now.figures.fleet
    if fleet is None or fleet.online == 0:
        return "none"
    return "warn" if fleet.quiet else "good"


def _fleet_lines(now: Situation) -> tuple[str, ...]:
    fleet = now.figures.fleet
    return () if fleet is None else (f"{count(fleet.online)} online", f"{count(fleet.quiet)} quiet")


def _state(kind: Kind, word: str) -> tuple[Kind, str]:
    return kind, word


def _rate(rate: float | None, unit: str) -> str:
    if rate is None:
        return "\u2013"
    return f"{count(rate) if rate >= 100 else decimal(rate)} {unit}"
