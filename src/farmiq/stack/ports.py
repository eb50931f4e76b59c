"""Which port each server and service listens on: chosen free at the first start and remembered, so that URLs stay the same."""

import json
import random
import socket
from collections.abc import Mapping
from pathlib import Path

from farmiq.stack.errors import StackError
from farmiq.stack.port_reservations import THIS_PROCESS, Reservations, reserving
from farmiq.stack.private_files import write_private

_LOWEST = 15000
_TRIES = 1000


class NoFreePort(StackError):
    """Every port that was tried is in use. Something on this machine holds a great many of them."""


def free_port() -> int:
    """For this process, which is to listen there soon. Nobody else is given it meanwhile, nor is this process once more."""
    with reserving(THIS_PROCESS) as reservations:
        port = _any_free(reservations)
        reservations.add(port)
    return port


def is_free(port: int) -> bool:
    """Free on every address: a stranger on 0.0.0.0 would shadow us for clients that do not come over loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("0.0.0.0", port))  # noqa: S104 - bound for an instant and never listened on
        except OSError:
            return False
        return True


def choose_ports(memory: Path, preferred: Mapping[str, int | None]) -> dict[str, int]:
    """A free port for each name: the one remembered, else the preferred one, else any. Call it while nothing of ours runs."""
    remembered: dict[str, int] = json.loads(memory.read_text(encoding="utf-8")) if memory.exists() else {}
    with reserving(str(memory)) as reservations:
        chosen = {
            name: remembered[name]
            for name in preferred
            if name in remembered and _is_ours_to_take(remembered[name], reservations)
        }
        for port in chosen.values():
            reservations.add(port)
        for name, preference in preferred.items():
            if name not in chosen:
                chosen[name] = _first_free(preference, set(chosen.values()), reservations)
                reservations.add(chosen[name])
    if remembered | chosen != remembered:
        write_private(memory, json.dumps(remembered | chosen, indent=2))
    return chosen


def _first_free(preference: int | None, taken: set[int], reservations: Reservations) -> int:
    if preference and preference not in taken and _is_ours_to_take(preference, reservations):
        return preference
    return _any_free(reservations)


def _any_free(reservations: Reservations) -> int:
    """Below the range that the kernel takes for outgoing connections: one of those may be gone before we listen on it."""
    highest = max(_LOWEST + 1000, _first_outgoing_port() - 1)
    for _ in range(_TRIES):
        port = random.randint(_LOWEST, highest)  # noqa: S311 - spreads stacks on one machine, guards nothing
        if not reservations.is_anybodys(port) and is_free(port):
            return port
    raise NoFreePort(f"no free port between {_LOWEST} and {highest}", fix="ss -ltn")


def _is_ours_to_take(port: int, reservations: Reservations) -> bool:
    return is_free(port) and not reservations.is_anothers(port)


def _first_outgoing_port() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    except OSError:
        return 32768
