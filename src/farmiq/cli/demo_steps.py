"""What the commands of `farmiq demo` do, apart from what they print."""

import signal
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from farmiq.cli.demo_ledger import LedgerFile
from farmiq.cli.demo_links import How, LinkName, faults_of, require
from farmiq.cli.errors import BadUsage, CommandFailed, near_matches
from farmiq.cli.flow_picture import View, as_short_line, reason
from farmiq.cli.flow_show import Occasional, Show, Watcher, asker_for, shown, whole_line
from farmiq.cli.flow_sums import Balance, balance, is_drained, marks
from farmiq.cli.terminal import is_interactive
from farmiq.cli.terminal import say as print_line
from farmiq.stack.home import Home
from farmiq.stack.processes import Process, leftovers
from farmiq.stack.relay.client import RelayClient
from farmiq.stack.state import ChildState, read_state

# Longer than the longest pause before a child that dies often is started again.
RESTART_SECONDS_MAX = 45.0
# A service whose database is cut can't become healthy. That it runs is what was asked for.
HEALTHY_SECONDS_MAX = 20.0
POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Killed:
    name: str
    killed_pid: int
    runs_again_as: int | None
    is_healthy: bool
    restarts: int
    seconds: float
    problem: str | None


@dataclass(frozen=True)
class Healed:
    """`captured` and `stored` are of everything up to the moment of healing, and None when the cloud did not answer."""

    is_complete: bool
    captured: int | None
    stored: int | None
    lost: int | None
    under_way: int | None
    duplicates_removed: int
    seconds: float
    why: str | None = None
    """What the last request to the cloud ran into and when the next one comes, when something is still on its way."""


def ledger_of(home: Home) -> LedgerFile:
    return LedgerFile(home.server_folder("relay") / "demo.json")


def watcher_of(home: Home) -> Watcher:
    """Goes on counting duplicates where the last command stopped."""
    kept = ledger_of(home).load()
    watcher = Watcher(asker_for(home), since=kept.counters if kept else None)
    watcher.duplicates = kept.duplicates if kept else 0
    return watcher


def break_it(home: Home, link: LinkName, how: How, seconds: float, say_told: Callable[[], None] | None) -> View:
    relay = RelayClient(home.relay_socket)
    routes = relay.look()
    require(link, routes)
    is_first = all(route.is_healthy for route in routes)
    watcher = Watcher(asker_for(home)) if is_first else watcher_of(home)
    watcher.look()
    relay.change(link, faults_of(how))
    if say_told is not None:
        say_told()
    with _shown(is_quiet=say_told is None) as show:
        for view in watcher.looks(seconds):
            show(view)
    ledger_of(home).save(watcher.counters, watcher.duplicates)
    return view


def heal_all(home: Home, seconds_max: float, say: Callable[[str], None] | None) -> Healed:
    relay = RelayClient(home.relay_socket)
    watcher = watcher_of(home)
    broken = [route.name for route in relay.look() if not route.is_healthy]
    relay.heal()
    healed_at = time.monotonic()
    if say is not None:
        say(f"Healed: {', '.join(broken)}. What waited now arrives." if broken else "Nothing was broken. Counting.")
    up_to: dict[str, int] = {}
    with _shown(is_quiet=say is None) as show:
        for view in watcher.looks(seconds_max):
            show(view)
            # The edge may have been unreachable at first, and know of streams that the node does not.
            up_to = up_to or (marks(view.flow) if view.flow.edge is not None else {})
            since = time.monotonic() - healed_at
            if up_to and is_drained(view.flow, up_to, since):
                return _counted(home, watcher, balance(view.flow, up_to), since, is_complete=True)
    total = balance(view.flow, up_to) if up_to else None
    late = _counted(home, watcher, total, time.monotonic() - healed_at, is_complete=False)
    return replace(late, why=reason(view, datetime.now(UTC)) or None)


def kill_it(home: Home, wanted: str) -> Killed:
    child = child_named(wanted, read_state(home).children)
    _settle(home)
    process = _process_of(home, child)
    began_at = time.monotonic()
    process.signal(signal.SIGKILL)
    again = _wait(
        home, child.name, lambda now: now.restarts > child.restarts and now.pid is not None, RESTART_SECONDS_MAX
    )
    took = time.monotonic() - began_at
    runs = again.pid if again.restarts > child.restarts else None
    if runs is not None:
        again = _wait(home, child.name, lambda now: now.state == "healthy", HEALTHY_SECONDS_MAX)
    return Killed(child.name, process.pid, runs, again.state == "healthy", again.restarts, took, again.problem)


def child_named(wanted: str, children: Sequence[ChildState]) -> ChildState:
    """By its whole name, or by its last words where only one name ends so. Never by a beginning: what is killed was named."""
    found = [child for child in children if child.name == wanted]
    found = found or [child for child in children if child.name.endswith(f"-{wanted}")]
    if len(found) == 1:
        return found[0]
    names = [child.name for child in children]
    meant = [child.name for child in found] or near_matches(wanted, names)
    raise BadUsage(
        f"nothing was killed: {wanted!r} is not the name of one service or server",
        why=f"They are called {', '.join(names)}.",
        fix=" or ".join(f"farmiq demo kill {name}" for name in meant) or "farmiq status",
    )


def _process_of(home: Home, child: ChildState) -> Process:
    """Found by the mark that every process of this farm carries: a process id alone may be a stranger's by now."""
    for process in leftovers(home.path):
        if process.pid == child.pid:
            return process
    raise CommandFailed(
        f"{child.name} does not run at this moment",
        why=f"It is {child.state}: {child.problem or child.last_exit or 'no process of it was found'}.",
        fix="farmiq status",
    )


def _settle(home: Home) -> None:
    """A killed service forgets its counters, so they are added up first."""
    if ledger_of(home).load() is not None:
        watcher = watcher_of(home)
        watcher.look()
        ledger_of(home).save(watcher.counters, watcher.duplicates)


def _wait(home: Home, name: str, is_so: Callable[[ChildState], bool], seconds: float) -> ChildState:
    """The child when it is so, or as it is when the time is up."""
    deadline = time.monotonic() + seconds
    while True:
        child = next(child for child in read_state(home).children if child.name == name)
        if is_so(child) or time.monotonic() > deadline:
            return child
        time.sleep(POLL_SECONDS)


def _counted(home: Home, watcher: Watcher, total: Balance | None, seconds: float, *, is_complete: bool) -> Healed:
    ledger_of(home).save(watcher.counters, watcher.duplicates)
    return Healed(
        is_complete=is_complete,
        captured=total.captured if total else None,
        stored=total.stored if total else None,
        lost=total.lost if total else None,
        under_way=total.under_way if total else None,
        duplicates_removed=watcher.duplicates,
        seconds=round(seconds, 2),
    )


def _shown(*, is_quiet: bool) -> AbstractContextManager[Show]:
    """Nothing is shown on the way to `--json`, which has only an end."""
    if is_quiet:
        return nullcontext(lambda _: None)
    if is_interactive():
        return shown("farmiq demo", whole_line)
    occasional, began_at = Occasional(print_line), time.monotonic()

    def show(view: View) -> None:
        seconds = time.monotonic() - began_at
        kind = (
            view.devices.samples is None,
            view.edge.samples is None,
            bool(view.devices.samples),
            bool(view.edge.samples),
        )
        error = view.flow.hold.error if view.flow.hold else ""
        occasional(seconds, (kind, error), as_short_line(view, seconds, datetime.now(UTC)))

    return nullcontext(show)
