"""A farm at work as lines of text: each hop with its rate, what waits there, since when and how safe, and what is cut."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from farmiq.cli.flow import Flow
from farmiq.cli.flow_sums import Backlog, Balance, Rates, at_devices, at_edge, balance, marks
from farmiq.cli.tables import duration

if TYPE_CHECKING:
    from rich.console import RenderableType

    from farmiq.stack.relay.protocol import RouteState

# Samples take a moment from hop to hop: what is on its way for a second or two does not wait for anything.
MOVING_SECONDS = 5.0


@dataclass(frozen=True)
class View:
    """Everything that is shown, in figures."""

    flow: Flow
    rates: Rates
    devices: Backlog
    edge: Backlog
    total: Balance | None
    duplicates: int

    @property
    def cuts(self) -> "list[RouteState]":
        return [route for route in self.flow.routes if not route.is_healthy]


def view_of(flow: Flow, rates: Rates, duplicates: int) -> View:
    return View(flow, rates, at_devices(flow), at_edge(flow), balance(flow, marks(flow)), duplicates)


def sentence(view: View, now: datetime) -> str:
    """The one that answers: is anything missing?"""
    cuts = "; ".join(cut_text(route, now) for route in view.cuts)
    return f"{_answer(view)} {cuts}." if cuts else _answer(view)


def _answer(view: View) -> str:
    if view.total is None:
        return "The cloud does not say what it has."
    lost = f"{view.total.lost:,} declared lost" if view.total.lost else "nothing is lost"
    if view.total.under_way == 0:
        return f"Everything captured is in the cloud; {lost}."
    if not view.cuts and _is_moving(view.devices) and _is_moving(view.edge):
        return f"Everything is on its way to the cloud; {lost}."
    return f"{view.total.under_way:,} samples wait; {lost}."


def _is_moving(backlog: Backlog) -> bool:
    return backlog.oldest_seconds is None or backlog.oldest_seconds < MOVING_SECONDS


def cut_text(route: "RouteState", now: datetime) -> str:
    names = route.faults.names
    what = "is cut" if names == ["down"] else f"suffers from {', '.join(names)}"
    since = f" since {duration((now - route.faults.since).total_seconds())}" if route.faults.since else ""
    return f"{route.name} {what}{since}"


_ERRORS = {"NETWORK_ERROR": "no connection to the cloud", "TIMEOUT": "no response from the cloud in time"}


def reason(view: View, now: datetime) -> str:
    """Why events wait at the edge, the last error and the next try. Empty when they do not, or wait for nothing."""
    hold, outbox = view.flow.hold, view.flow.outbox
    if hold is None or outbox is None or not (outbox.pending or outbox.claimed):
        return ""
    if hold.failures:
        times = f", {hold.failures} times in a row" if hold.failures > 1 else ""
        return f"{_ERRORS.get(hold.error, hold.error)}{times}{_next_try(hold.next_try_at, now)}"
    held_seconds = (now - hold.in_flight_since).total_seconds() if hold.in_flight_since else 0.0
    if held_seconds < MOVING_SECONDS or not outbox.claimed:
        return ""
    lease = f", their lease ends in {_until(hold.lease_expires_at, now)}" if hold.lease_expires_at else ""
    return f"{outbox.claimed:,} events have been in a request for {duration(held_seconds)}{lease}"


def _next_try(at: datetime | None, now: datetime) -> str:
    return f", next try in {_until(at, now)}" if at is not None and at > now else ", next try now"


def _until(at: datetime, now: datetime) -> str:
    return duration((at - now).total_seconds())


def rows(view: View) -> list[tuple[str, str, str, str, str]]:
    """Hop, rate, what waits, since when, where it is safe."""
    broken = {route.name for route in view.cuts}
    marked = {"devices": broken & {"broker", "edge-db"}, "edge": broken & {"wan"}}
    return [
        _row("devices → edge", view.rates.captured, view.devices, marked["devices"]),
        _row("edge → cloud", view.rates.at_edge, view.edge, marked["edge"]),
        ("cloud", _rate(view.rates.in_cloud), _stored(view), "", ""),
    ]


def _row(hop: str, rate: float | None, backlog: Backlog, cut: set[str]) -> tuple[str, str, str, str, str]:
    name = f"{hop}  ✂ {', '.join(sorted(cut))}" if cut else hop
    waits = "waits: not known" if backlog.samples is None else f"{backlog.samples:,} wait"
    oldest = f"oldest {duration(backlog.oldest_seconds)}" if backlog.oldest_seconds is not None else ""
    return name, _rate(rate), waits, oldest, f"safe: {backlog.safe}" if backlog.samples != 0 else ""


def _rate(rate: float | None) -> str:
    return "" if rate is None else f"{rate:,.1f}/s"


def _stored(view: View) -> str:
    return "does not answer" if view.total is None else f"{view.total.stored:,} of {view.total.captured:,} captured"


def tail(view: View) -> str:
    lost = "not known" if view.total is None else f"{view.total.lost:,}"
    dead = (
        f"{_known(view.flow.outbox.dead if view.flow.outbox else None)} edge, {_known(view.flow.dead_in_cloud)} cloud"
    )
    return f"lost {lost} · duplicates removed {view.duplicates:,} · dead letters {dead}"


def _known(count: int | None) -> str:
    return "?" if count is None else f"{count:,}"


def as_line(view: View, now: datetime) -> str:
    """For a pipe: one look, one line."""
    total = view.total
    first = f"captured {total.captured:,} · stored {total.stored:,}" if total else "the cloud does not answer"
    parts = [first, *_waiting(view, now), *(cut_text(route, now) for route in view.cuts), tail(view)]
    return f"{now.astimezone(UTC).strftime('%H:%M:%S')}  {' · '.join(parts)}"


def as_short_line(view: View, seconds: float, now: datetime) -> str:
    """Only what waits and why, and the seconds since it was broken or healed."""
    waiting = " · ".join(_waiting(view, now)) or "nothing waits"
    return f"{seconds:5.0f} s  {waiting}"


def _waiting(view: View, now: datetime) -> list[str]:
    parts = []
    for place, backlog in (("at devices", view.devices), ("at the edge", view.edge)):
        if backlog.samples is None:
            parts.append(f"{place}: not known")
        elif backlog.samples:
            oldest = f", oldest {duration(backlog.oldest_seconds)}" if backlog.oldest_seconds is not None else ""
            parts.append(f"{backlog.samples:,} wait {place}{oldest} · safe: {backlog.safe}")
    if why := reason(view, now):
        parts.append(f"why: {why}")
    return parts


def as_data(view: View, now: datetime) -> dict[str, Any]:
    return {
        "at": now.isoformat(),
        "captured": view.total.captured if view.total else None,
        "stored": view.total.stored if view.total else None,
        "lost": view.total.lost if view.total else None,
        "duplicates_removed": view.duplicates,
        "rates": {
            "captured_per_second": view.rates.captured,
            "edge_per_second": view.rates.at_edge,
            "cloud_per_second": view.rates.in_cloud,
        },
        "devices": _backlog_data(view.devices),
        "edge": {**_backlog_data(view.edge), "why": reason(view, now) or None},
        "dead_letters": {
            "edge": view.flow.outbox.dead if view.flow.outbox else None,
            "cloud": view.flow.dead_in_cloud,
        },
        "routes": {route.name: route.faults.names for route in view.flow.routes},
        "problems": dict(view.flow.problems),
    }


def _backlog_data(backlog: Backlog) -> Mapping[str, Any]:
    return {"samples": backlog.samples, "oldest_seconds": backlog.oldest_seconds, "safe": backlog.safe}


def as_picture(view: View, title: str, now: datetime) -> "RenderableType":
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 3, 0, 0))
    for hop, rate, waits, oldest, safe in rows(view):
        style = "red" if "✂" in hop else ""
        table.add_row(Text(hop, style=style), Text(rate, justify="right"), waits, oldest, Text(safe, style="green"))
    style = "yellow" if view.cuts or (view.total and view.total.under_way) else "bold green"
    why = reason(view, now)
    problems = [Text(f"{name}: {problem}", style="dim") for name, problem in view.flow.problems.items()]
    clock = now.astimezone(UTC).strftime("%H:%M:%S UTC")
    return Group(
        Text(f"{title} · {clock}", style="bold"),
        Text(sentence(view, now), style=style),
        table,
        *([Text(f"edge → cloud waits because: {why}", style="yellow")] if why else []),
        Text(tail(view)),
        *problems,
    )
