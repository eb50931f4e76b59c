"""The other half of `farmiq doctor`: the farm of this home, running or not."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from farmiq.cli.checks import Check, Verdict, good
from farmiq.cli.running import is_running
from farmiq.stack.processes import Process
from farmiq.stack.state import ChildState, StackState


def check_supervisor(state: StackState) -> Check:
    if is_running(state):
        return good("supervisor", f"runs as process {state.supervisor_pid} ({state.phase})")
    if state.problem:
        return Check("supervisor", Verdict.FAILED, state.problem, "farmiq down, then farmiq up")
    return good("supervisor", "does not run: nothing was started, or it was stopped")


def check_children(state: StackState) -> list[Check]:
    """One for each, while there is somebody who would heal it."""
    return [check_child(child) for child in state.children] if is_running(state) else []


def check_child(child: ChildState) -> Check:
    place = f"process {child.pid}" + (f", port {child.port}" if child.port else "")
    if child.state != "healthy":
        reason = child.problem or child.last_exit or "no answer yet"
        return Check(child.name, Verdict.FAILED, f"{child.state}: {reason}", f"farmiq logs {child.name}")
    if child.restarts:
        found = f"{place}, restarted {child.restarts} times, last after {child.last_exit}"
        return Check(child.name, Verdict.WARNING, found, f"farmiq logs {child.name}")
    return good(child.name, place)


def check_leftovers(state: StackState, processes: Sequence[Process]) -> Check:
    """Processes that carry this home's mark although no supervisor is there to answer for them."""
    if is_running(state) or not processes:
        return good(
            "leftovers", "none" if not is_running(state) else f"none: {len(processes)} processes are supervised"
        )
    shown = ", ".join(f"{process.pid} ({Path(process.command).name})" for process in processes[:5])
    return Check(
        "leftovers", Verdict.FAILED, f"{len(processes)} processes without a supervisor: {shown}", "farmiq down"
    )


def check_limits(remark: str | None) -> Check:
    if remark is None:
        return good("edge limits", "no device was over a limit in the last hour")
    return Check("edge limits", Verdict.WARNING, f"{remark}: the devices keep it", "farmiq logs edge-ingress-gateway")


def check_tenants(commands: Mapping[str, str]) -> Check:
    """`commands`: by tenant whose batches the cloud refuses, what lets this edge deliver for it."""
    if not commands:
        return good("tenants", "the cloud refuses none of this edge's")
    found = f"the cloud takes nothing of {', '.join(commands)} from this edge: what devices send waits here"
    return Check("tenants", Verdict.WARNING, found, "; ".join(commands.values()))


def check_intake(remark: str | None) -> Check:
    if remark is None:
        return good("cloud intake", "takes events")
    return Check("cloud intake", Verdict.WARNING, remark, "farmiq cloud resume")


def check_canary(remark: str | None) -> Check:
    if remark is None:
        return good("canary", "test messages come back from the gateway")
    fix = "docs/operations/runbook.md#farmiqcanarylost"
    return Check("canary", Verdict.FAILED, f"devices' messages may be vanishing: {remark}", fix)


def check_database_roles(tier: str, missing_sql: Sequence[str]) -> Check:
    name = f"{tier} database roles"
    if not missing_sql:
        return good(name, "each service writes its own tables only, and queries see the tenants of the request only")
    found = "roles are missing: a service without its own may do everything in this database"
    fix = f"as a superuser of PostgreSQL: {' '.join(missing_sql)} then farmiq migrate {tier}"
    return Check(name, Verdict.WARNING, found, fix)


def check_ports(state: StackState, remembered: Mapping[str, int], is_free: Callable[[int], bool]) -> Check:
    if not remembered:
        return good("ports", "chosen free at the first start")
    if is_running(state):
        return good("ports", f"{len(remembered)} chosen")
    taken = {name: port for name, port in remembered.items() if not is_free(port)}
    if not taken:
        return good("ports", f"{len(remembered)} remembered, all free")
    shown = ", ".join(f"{port} ({name})" for name, port in taken.items())
    found = f"taken by somebody else: {shown}; the next start takes others, and the URLs change"
    return Check("ports", Verdict.WARNING, found, f"ss -ltnp 'sport = :{next(iter(taken.values()))}'")


def remembered_ports(path: Path) -> dict[str, int]:
    try:
        ports: dict[str, int] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return ports
