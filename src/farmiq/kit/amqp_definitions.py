"""A topology as RabbitMQ writes it down, and what differs between the two. Pure.

The document is that of `rabbitmqctl import_definitions` and `export_definitions`, and of the management API. It names no users
and no permissions: those belong to whoever runs the broker.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from farmiq.kit.amqp_topology import Binding, Exchange, Queue, Topology

Definitions = dict[str, Any]
State = Literal["missing", "different", "unexpected"]


class Finding(msgspec.Struct, frozen=True):
    """`missing`: `apply` makes it. `different`: a person has to. `unexpected`: nothing here needs it."""

    kind: Literal["exchange", "queue", "binding"]
    name: str
    state: State
    detail: str = ""


def definitions(topology: Topology, virtual_host: str) -> Definitions:
    return {
        "vhosts": [{"name": virtual_host}],
        "exchanges": [
            {"vhost": virtual_host, "name": exchange.name, "internal": False} | _exchange_settings(exchange)
            for exchange in topology.exchanges
        ],
        "queues": [{"vhost": virtual_host, "name": queue.name} | _queue_settings(queue) for queue in topology.queues],
        "bindings": [
            {
                "vhost": virtual_host,
                "source": binding.exchange,
                "destination": binding.queue,
                "destination_type": "queue",
                "routing_key": binding.routing_key,
                "arguments": {},
            }
            for binding in topology.bindings
        ],
    }


def compare(topology: Topology, found: Mapping[str, Any], virtual_host: str, own: Sequence[str] = ()) -> list[Finding]:
    """`own`: beginnings of the names of queues that nobody but us makes. A document of one virtual host names none."""
    here = {
        part: [one for one in found.get(part) or [] if one.get("vhost", virtual_host) == virtual_host]
        for part in ("exchanges", "queues", "bindings")
    }
    return [
        *_compare_settings(
            "exchange", {one.name: _exchange_settings(one) for one in topology.exchanges}, here["exchanges"]
        ),
        *_compare_settings("queue", {one.name: _queue_settings(one) for one in topology.queues}, here["queues"]),
        *_compare_bindings(topology, here["bindings"]),
        *_unexpected_queues(topology, here["queues"], own),
    ]


def _compare_settings(
    kind: Literal["exchange", "queue"], wanted: Mapping[str, Mapping[str, Any]], found: Sequence[Mapping[str, Any]]
) -> Iterator[Finding]:
    known = {one["name"]: one for one in found}
    for name, settings in wanted.items():
        if name not in known:
            yield Finding(kind, name, "missing")
        elif detail := _difference(settings, known[name]):
            yield Finding(kind, name, "different", detail)


def _difference(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    mine, theirs = _flat(wanted), _flat({name: found.get(name) for name in wanted})
    return "; ".join(
        f"{name} is {_said(theirs.get(name))} and should be {_said(mine.get(name))}"
        for name in sorted(mine | theirs)
        if mine.get(name) != theirs.get(name)
    )


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    arguments = settings.get("arguments") or {}
    return {name: value for name, value in settings.items() if name != "arguments"} | dict(arguments)


def _said(value: object) -> str:
    return "not set" if value is None else str(value)


def _compare_bindings(topology: Topology, found: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    queues = {queue.name for queue in topology.queues}
    # Every queue is bound to the default exchange under its own name; some documents say so and some do not.
    there = {
        Binding(one["source"], one["destination"], one["routing_key"])
        for one in found
        if one["source"] and one["destination_type"] == "queue"
    }
    for binding in topology.bindings:
        if binding not in there:
            yield Finding("binding", _binding_name(binding), "missing")
    extra = [binding for binding in there if binding.queue in queues and binding not in topology.bindings]
    for binding in sorted(extra, key=_binding_name):
        yield Finding("binding", _binding_name(binding), "unexpected")


def _unexpected_queues(topology: Topology, found: Sequence[Mapping[str, Any]], own: Sequence[str]) -> Iterator[Finding]:
    known = {queue.name for queue in topology.queues}
    for name in sorted(one["name"] for one in found):
        if name not in known and name.startswith(tuple(own)):
            yield Finding("queue", name, "unexpected")


def _binding_name(binding: Binding) -> str:
    return f"{binding.exchange} -> {binding.queue} ({binding.routing_key})"


def _exchange_settings(exchange: Exchange) -> Definitions:
    return {"type": exchange.kind, "durable": True, "auto_delete": False, "arguments": {}}


def _queue_settings(queue: Queue) -> Definitions:
    return {"durable": True, "auto_delete": False, "arguments": queue.arguments()}
