"""Orders and answers on the relay's socket: one JSON object a line, one answer to each order, in turn.

    {"do": "look"}
    {"do": "change", "route": "wan", "faults": {"down": true}}
    {"do": "change", "route": "wan", "faults": {"upstream": {"latency": {"seconds": 0.2}}}}
    {"do": "heal"}                      all routes
    {"do": "heal", "route": "wan"}      one

An answer is `{"routes": [...]}`, or `{"error": {"code": ..., "message": ...}}`. `change` says all that is wrong with a route from
now on: what it does not name is well again."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from farmiq.stack.relay.faults import RouteFaults

LINE_BYTES_MAX: Final = 64 * 1024

Name = Annotated[str, Meta(min_length=1, max_length=64)]


class Look(Struct, frozen=True, tag_field="do", tag="look", forbid_unknown_fields=True):
    pass


class Change(Struct, frozen=True, tag_field="do", tag="change", forbid_unknown_fields=True):
    route: Name
    faults: RouteFaults


class Heal(Struct, frozen=True, tag_field="do", tag="heal", omit_defaults=True, forbid_unknown_fields=True):
    route: Name | None = None


Order = Look | Change | Heal


class RouteState(Struct, frozen=True, kw_only=True):
    """The counts are since this process of the relay started."""

    name: str
    ports: list[int]
    faults: RouteFaults
    connections: int
    accepted: int
    turned_away: int
    upstream_bytes: int
    downstream_bytes: int

    @property
    def is_healthy(self) -> bool:
        return self.faults.is_healthy


class Problem(Struct, frozen=True):
    code: str
    message: str


class Answer(Struct, frozen=True, omit_defaults=True):
    routes: list[RouteState] = []
    error: Problem | None = None


def read_order(line: bytes) -> Order:
    order: Order = msgspec.json.decode(line, type=Order)
    return order


def as_line(message: Order | Answer) -> bytes:
    return msgspec.json.encode(message) + b"\n"
