"""The links that can be broken, in how many ways, and what that means in words."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from farmiq.cli.errors import CommandFailed

if TYPE_CHECKING:
    from farmiq.stack.relay.faults import RouteFaults
    from farmiq.stack.relay.protocol import RouteState


class LinkName(StrEnum):
    WAN = "wan"
    BROKER = "broker"
    EDGE_DB = "edge-db"


class How(StrEnum):
    DOWN = "down"
    TIMEOUT = "timeout"
    SLOW = "slow"


@dataclass(frozen=True)
class Words:
    between: str
    kept: str


WORDS = {
    LinkName.WAN: Words(
        "the edge and the cloud",
        "The edge goes on taking samples, and keeps what the cloud has not taken in its outbox.",
    ),
    LinkName.BROKER: Words(
        "the devices and the edge's broker", "The node goes on measuring, and keeps everything in its spool."
    ),
    LinkName.EDGE_DB: Words(
        "the edge's services and their database",
        "Nothing can be committed, so nothing is acknowledged: the node keeps everything in its spool.",
    ),
}

_HOW = {
    How.DOWN: "cut: connections are reset, and new ones refused",
    How.TIMEOUT: "half-open: connections stay, and every byte vanishes",
    How.SLOW: "slow: a second late, four kilobytes a second",
}


def faults_of(how: How) -> "RouteFaults":
    from farmiq.stack.relay.faults import Bandwidth, Faults, Latency, RouteFaults, Timeout, both_ways

    match how:
        case How.DOWN:
            return RouteFaults(down=True)
        case How.TIMEOUT:
            return both_ways(Faults(timeout=Timeout()))
        case How.SLOW:
            slow = Latency(seconds=1.0, jitter_seconds=0.3)
            return both_ways(Faults(latency=slow, bandwidth=Bandwidth(bytes_per_second=4000)))


def told(link: LinkName, how: How) -> str:
    return f"The link between {WORDS[link].between} is {_HOW[how]}.\n{WORDS[link].kept}"


def require(link: LinkName, routes: "list[RouteState]") -> None:
    if link not in {route.name for route in routes}:
        raise CommandFailed(
            f"the link {link} is not this farm's to break",
            why="The environment names the server at its end, so the farm reaches it directly and not through its relay.",
            fix="start the farm without that variable: farmiq down, then farmiq up",
        )
