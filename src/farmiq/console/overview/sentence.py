"""The state of the farm in words, the worst first: is anything missing, since when, where is it now, and what to do. Pure."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, Literal
from urllib.parse import quote

from msgspec import Struct

from farmiq.console.fleet.causes import limit_words
from farmiq.console.overview.completeness import GRACE_SECONDS
from farmiq.console.overview.services import meaning_of
from farmiq.console.overview.situation import FORWARDER, GATEWAY, Situation
from farmiq.console.wording import count, duration

Kind = Literal["good", "busy", "warn", "bad"]

PICTURES_GRACE_SECONDS: Final = 300.0
"""Pictures yield to samples on a narrow line, and are not called late before."""

LIMITED_SECONDS: Final = 180.0

KINDS: Final[tuple[Kind, ...]] = ("good", "busy", "warn", "bad")


class Advice(Struct, frozen=True):
    """What to do: a page to look at, or a command for the machine."""

    text: str
    path: str | None = None
    command: str | None = None


class Finding(Struct, frozen=True):
    kind: Kind
    text: str
    advice: Advice | None = None


class Sentence(Struct, frozen=True):
    """`headline` is the worst that is true, in words that stay the same while it lasts; `rest` has the numbers."""

    kind: Kind
    headline: str
    rest: tuple[str, ...] = ()
    advice: tuple[Advice, ...] = ()

    @property
    def text(self) -> str:
        return " ".join((self.headline, *self.rest))


def sentence(now: Situation) -> Sentence:
    if not now.is_asked:
        return Sentence("busy", "The services are being asked for the first time.")
    found = list(_findings(now))
    worst = max((finding.kind for finding in found), key=KINDS.index, default="good")
    if worst in {"good", "busy"} and not any(finding.kind == "busy" for finding in found):
        found.insert(0, _all_well(now))
    found.sort(key=lambda finding: -KINDS.index(finding.kind))
    headline, *rest = found
    return Sentence(
        headline.kind,
        headline.text,
        tuple(finding.text for finding in rest),
        tuple(finding.advice for finding in found if finding.advice),
    )


def _findings(now: Situation) -> Iterator[Finding]:
    yield from _absences(now)
    yield from _losses(now)
    yield from _link(now)
    yield from _limited(now)
    yield from _gaps(now)
    yield from _weighings(now)
    yield from _dead_letters(now)
    yield from _catching_up(now)
    yield from _devices(now)


def _all_well(now: Situation) -> Finding:
    if now.completeness is None:
        return Finding("warn", "How much of the last 24 h is stored in the cloud is not known just now.")
    if now.completeness.measured == 0:
        return Finding("warn", "Nothing was measured in the last 24 h.", Advice("Add a device", "/devices"))
    return Finding("good", "Everything that was measured in the last 24 h is stored in the cloud.")


def _absences(now: Situation) -> Iterator[Finding]:
    if now.is_edge_away:
        since = min(absence.since for absence in now.absences if absence.service in {GATEWAY, FORWARDER})
        yield Finding(
            "bad",
            f"The edge does not answer since {moment(since, now.now)}. Devices keep what they measure on their own disks.",
            Advice("See what runs on the edge", "/health", "farmiq status"),
        )
        return
    for absence in now.absences:
        meaning = meaning_of(absence.service)
        yield Finding(
            "bad" if absence.service in {GATEWAY, FORWARDER} else "warn",
            f"{absence.service} does not answer since {moment(absence.since, now.now)}. {meaning.away}",
            Advice("Look at its log", "/health", f"farmiq logs {absence.service}"),
        )


def _losses(now: Situation) -> Iterator[Finding]:
    yield from _sample_losses(now)
    lost = now.stations_lost
    if lost is None or lost.losses == 0:
        return
    who = lost.device_id or f"{count(lost.stations)} weigh stations"
    at = f", the last time at {moment(lost.last_at, now.now)}" if lost.last_at else ""
    much = f"{count(lost.lost)} events and pictures" if lost.lost else "something, and can't say how much"
    yield Finding("bad", f"{who} gave up {much}{at}.", Advice("See what, and why", "/losses"))


def _weighings(now: Situation) -> Iterator[Finding]:
    weighings = now.figures.weighings
    if weighings is None or not weighings.sessions:
        return
    number = len(weighings.sessions)
    some = f"{'More than ' if weighings.next else ''}{_some(number, 'weigh session')}"
    since = f" since {moment(weighings.since, now.now)}" if weighings.since else ""
    where = [f"at {weighings.stations[0]}"] if len(weighings.stations) == 1 else []
    text = " ".join([some, *where, f"{_are(number)} incomplete{since}"])
    missing, refused = weighings.pictures_missing, weighings.pictures_refused
    parts = [f"{_some(missing, 'picture')} {_are(missing)} not at the edge"] if missing else []
    parts += [f"{_some(refused, 'picture')} {_were(refused)} refused"] if refused else []
    look = Advice("See which, and where each picture is", "/sessions?status=incomplete&range=1y")
    yield Finding("warn", f"{text}: {', '.join(parts)}." if parts else f"{text}: their end never came.", look)


def _sample_losses(now: Situation) -> Iterator[Finding]:
    day = now.figures.day
    lost = max((tier.lost for tier in (day.edge, day.cloud) if tier), key=lambda one: one.samples, default=None)
    if lost is None or lost.samples == 0:
        return
    latest = lost.latest
    if latest is not None and lost.devices == 1:
        text = (
            f"{_some(lost.samples, 'sample')} of {latest.device_id} {_were(lost.samples)} declared lost,"
            f" the last at {moment(latest.recorded_at, now.now)} ({latest.reason})."
        )
    else:
        text = f"{_some(lost.samples, 'sample')} of {count(lost.devices)} devices were declared lost in the last 24 h."
    yield Finding("bad", text, Advice("See which, and why", "/losses"))


def _link(now: Situation) -> Iterator[Finding]:
    link = now.link
    since = f"since {moment(link.since, now.now)}" if link.since else "and nothing was ever sent"
    look = Advice("See what waits, and when it is tried again", "/sync")
    match link.state:
        case "down":
            yield Finding("warn", f"The link to the cloud is down {since}.", look)
        case "refused":
            yield Finding(
                "bad",
                f"The cloud refuses this edge ({link.code}) {since}. That will not pass by itself.",
                Advice("Give the edge a token that the cloud knows", "/sync", "farmiq edge ls"),
            )
        case "stuck":
            yield Finding("warn", f"Nothing has arrived in the cloud {since}.", look)
        case _:
            return
    yield Finding("good", _waits(now))
    if link.state != "refused" and now.figures.day.edge is not None and _has_lost_nothing(now):
        yield Finding("good", "Nothing is lost.")


def _limited(now: Situation) -> Iterator[Finding]:
    """A device whose messages are not taken asks again every minute or two. What it holds meanwhile, nobody here knows."""
    since = now.now - timedelta(seconds=LIMITED_SECONDS)
    found = [one for one in now.figures.limits.limited if one.last_at is not None and one.last_at >= since]
    if len(found) == 1:
        (one,) = found
        text = f"The edge does not take the messages of {one.device_id}, which keeps them: {limit_words(one.reason)}."
        yield Finding("warn", text, Advice("See what to do", f"/devices/{quote(one.device_id)}"))
    elif found:
        text = f"The edge does not take the messages of {count(len(found))} devices, which keep them."
        yield Finding("warn", text, Advice("See who, and what to do", "/alerts"))


def _has_lost_nothing(now: Situation) -> bool:
    tiers = [tier for tier in (now.figures.day.edge, now.figures.day.cloud) if tier]
    return not any(tier.lost.samples or tier.stations_lost.losses for tier in tiers)


def _waits(now: Situation) -> str:
    events = now.outbox.events
    if not events:
        return "Nothing waits on the edge yet."
    room = now.edge_room_seconds
    has_room = f", room for {duration(room)}" if room is not None else ""
    return f"{_some(events, 'event')} {'waits' if events == 1 else 'wait'} safely on the edge{has_room}."


def _gaps(now: Situation) -> Iterator[Finding]:
    complete = now.completeness
    if complete is None:
        return
    look = Advice("See which, and when they were measured", "/completeness")
    if complete.unexplained:
        missing = _some(complete.unexplained, "sample")
        yield Finding(
            "warn", f"{missing} {_are(complete.unexplained)} missing at the edge, and no device holds them.", look
        )
    is_explained = (now.outbox.oldest_seconds or 0.0) >= GRACE_SECONDS or now.link.state != "up" or _is_storing(now)
    if complete.at_edge and not is_explained:
        missing = _some(complete.at_edge, "sample")
        are = _are(complete.at_edge)
        text = f"{missing} of the last 24 h {are} at the edge and not in the cloud, and nothing waits to be sent."
        yield Finding("warn", text, look)


def _is_storing(now: Situation) -> bool:
    """The cloud has it and has not written it down yet."""
    return bool(now.figures.bus.waiting) or now.figures.bus.waiting is None


def _dead_letters(now: Situation) -> Iterator[Finding]:
    dead = now.dead_letters
    if dead:
        text = f"{_some(dead, 'message')} {_were(dead)} given up and {'waits' if dead == 1 else 'wait'} for a person."
        yield Finding("warn", text, Advice("See the reasons, and send them again", "/dead-letters"))


def _catching_up(now: Situation) -> Iterator[Finding]:
    is_late = (now.outbox.oldest_seconds or 0.0) >= GRACE_SECONDS
    if now.link.state == "up" and now.outbox.events and is_late:
        left = now.outbox.drain_seconds
        when = f", about {duration(left)} to go" if left else ""
        yield Finding("busy", "The cloud is catching up.")
        yield Finding("good", f"{_some(now.outbox.events, 'event')} left{when}.")
    complete = now.completeness
    if complete and complete.on_devices:
        samples = _some(complete.on_devices, "sample")
        yield Finding("busy", f"{samples} {_are(complete.on_devices)} still on the devices that measured them.")
    pictures = now.figures.pictures
    oldest_at = pictures.oldest_at if pictures else None
    if pictures and oldest_at and (now.now - oldest_at).total_seconds() >= PICTURES_GRACE_SECONDS:
        waiting = pictures.waiting
        yield Finding("busy", f"{_some(waiting, 'picture')} {_are(waiting)} at the edge and not in the cloud yet.")


def _devices(now: Situation) -> Iterator[Finding]:
    fleet = now.figures.fleet
    if fleet is None:
        return
    if fleet.quiet:
        quiet = f"{_some(fleet.quiet, 'device')} {_are(fleet.quiet)} quiet."
        yield Finding("good", quiet, Advice("See who, and since when", "/devices?state=quiet"))
    if fleet.never_heard:
        yield Finding("good", f"{_some(fleet.never_heard, 'device')} {_were(fleet.never_heard)} never heard.")


def moment(at: datetime, now: datetime) -> str:
    """The time of day, and the day too when it is not today's."""
    at, now = at.astimezone(UTC), now.astimezone(UTC)
    return at.strftime("%H:%M:%S" if at.date() == now.date() else "%Y-%m-%d %H:%M")


def _some(number: int, thing: str) -> str:
    return f"{count(number)} {thing}{'' if number == 1 else 's'}"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _were(number: int) -> str:
    return "was" if number == 1 else "were"
