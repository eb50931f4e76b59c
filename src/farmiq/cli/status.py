from typing import TYPE_CHECKING, Annotated, Any

import typer

from farmiq import __version__
from farmiq.cli import exits
from farmiq.cli.terminal import console, own_name, put, say, say_json

if TYPE_CHECKING:
    from farmiq.cli.hops import Hop
    from farmiq.stack.home import Home
    from farmiq.stack.state import StackState


def status(as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False) -> None:
    """Show the counts at each hop of a sample, then what runs.

    Exit code 0: everything is healthy; 1: something is not; 3: nothing runs here.
    """
    from farmiq.cli.running import is_running, not_running, this_home
    from farmiq.stack.control import read_state

    home = this_home()
    state = read_state(home)
    if as_json:
        hops, broken = (ask_hops(home), broken_links(home)) if is_running(state) else ([], {})
        remark, limits = (intake_remark(home), limits_remark(home)) if is_running(state) else (None, None)
        more = {"broken_links": broken, "cloud_intake": remark or "open", "edge_limits": limits or "none"}
        say_json(as_data(state, hops) | more)
    elif not is_running(state):
        raise not_running(state)
    else:
        say(f"farmiq {__version__} · {state.phase} · {state.home}\n")
        show(state, ask_hops(home))
        for name, faults in broken_links(home).items():
            say(f"\n✂ {name} was broken on purpose: {', '.join(faults)}. Heal it with: {own_name()} demo heal")
        if remark := intake_remark(home):
            say(f"\n⏸ The cloud is {remark}.")
        if limits := limits_remark(home):
            say(f"\n⏸ The edge does not take everything now: {limits}.")
        if remark := canary_remark(home):
            say(f"\n! Devices' messages may be vanishing: {remark}. Check with: {own_name()} doctor")
    raise typer.Exit(exit_code(state))


def exit_code(state: "StackState") -> int:
    from farmiq.cli.running import is_running

    if not is_running(state):
        return exits.NOT_RUNNING
    return exits.OK if state.is_healthy else exits.FAILED


def ask_hops(home: "Home") -> "list[Hop]":
    from farmiq.cli.hops import ask_all, questions
    from farmiq.stack.control import NeverStarted, environment
    from farmiq.stack.demo_farm import DEVICE_ID

    try:
        known = environment(home)
    except NeverStarted:
        known = {}  # the first start is under way and has not chosen its ports yet
    return ask_all(questions(known, home.spool_folder(DEVICE_ID)))


def broken_links(home: "Home") -> dict[str, list[str]]:
    """What `farmiq demo` has broken. A relay that is away is among the servers, with its reason."""
    from farmiq.stack.relay.client import RelayAway, RelayClient

    try:
        routes = RelayClient(home.relay_socket, timeout_seconds=2.0).look()
    except RelayAway:
        return {}
    return {route.name: route.faults.names for route in routes if not route.is_healthy}


def intake_remark(home: "Home") -> str | None:
    """What cloud-ingestion remarks about its intake."""
    return remark_of(home, "CLOUD_INGESTION_URL", "intake")


def limits_remark(home: "Home") -> str | None:
    """Which devices the gateway limits now, and why."""
    return remark_of(home, "EDGE_INGRESS_GATEWAY_URL", "limits")


def canary_remark(home: "Home") -> str | None:
    """Which test messages of the gateway were not acknowledged."""
    return remark_of(home, "EDGE_INGRESS_GATEWAY_URL", "canary")


def remark_of(home: "Home", variable: str, name: str) -> str | None:
    """What a service remarks at `/api/ready`. One that is away is among the children, with its reason."""
    import json

    from farmiq.cli.hops import fetch
    from farmiq.stack.control import NeverStarted, environment

    try:
        answer = json.loads(fetch(f"{environment(home)[variable]}/api/ready", None))
        remark: str | None = answer.get("remarks", {}).get(name)
    except (NeverStarted, KeyError, OSError, ValueError):
        return None
    return remark


def as_data(state: "StackState", hops: "list[Hop]") -> dict[str, Any]:
    import msgspec

    told: dict[str, Any] = msgspec.to_builtins(state)
    told["is_healthy"] = state.is_healthy
    told["hops"] = [{"name": hop.name, "counts": dict(hop.counts), "problem": hop.problem} for hop in hops]
    return told


def show(state: "StackState", hops: "list[Hop]") -> None:
    from datetime import UTC, datetime

    from farmiq.cli.picture import draw
    from farmiq.cli.tables import children_table

    page = console()
    page.print("[bold]The path of a sample[/]")
    for line in draw(hops):
        page.print(line, markup=False, soft_wrap=True)
    now = datetime.now(UTC)
    for title, kind in (("Services", "service"), ("Servers", "server")):
        page.print()
        put(page, children_table(title, [child for child in state.children if child.kind == kind], now))
    if state.problem:
        page.print(f"\n{state.problem}", markup=False, style="red")
