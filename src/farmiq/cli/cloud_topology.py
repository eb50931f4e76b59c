"""The bus as it should be and as it is."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from farmiq.cli.cloud_bus import Bus
from farmiq.cli.errors import BadUsage
from farmiq.cloud.topology import WORK_QUEUES, topology
from farmiq.kit.amqp_definitions import Definitions, Finding, compare, definitions
from farmiq.kit.amqp_inspection import connected, inspect_over_amqp, inspect_over_management, virtual_host_of
from farmiq.kit.amqp_topology import declare, without

NAME = "farmiq-cloud-topology"
# Queues that begin so are made by us and by nobody else.
OWN = tuple(f"farmiq.{service}." for service in WORK_QUEUES)

_ADVICE = {
    "missing": "farmiq cloud topology apply makes it",
    "different": "FarmIQ never deletes one. Let its consumers empty it, delete it (rabbitmqctl delete_queue, or on the management"
    " page), then: farmiq cloud topology apply",
    "unexpected": "Nothing here needs it. If nothing of yours does: let it run empty, and delete it on the management page",
}


@dataclass(frozen=True)
class Look:
    findings: list[Finding]
    has_bindings: bool


async def apply_topology(bus: Bus) -> tuple[list[Finding], list[Finding]]:
    """What was made, and what could not be: it exists with other settings."""
    async with connected(bus.amqp_url, NAME) as connection:
        findings = await inspect_over_amqp(connection, topology())
        clashes = [one for one in findings if one.state == "different"]
        await declare(await connection.channel(), without(topology(), {one.name for one in clashes}))
    return [one for one in findings if one.state == "missing"], clashes


async def look_at_bus(bus: Bus) -> Look:
    if bus.management_url is not None:
        virtual_host = virtual_host_of(bus.amqp_url)
        return Look(await inspect_over_management(bus.management_url, topology(), virtual_host, OWN), has_bindings=True)
    async with connected(bus.amqp_url, NAME) as connection:
        return Look(await inspect_over_amqp(connection, topology()), has_bindings=False)


def look_at_file(file: Path, virtual_host: str) -> Look:
    return Look(compare(topology(), _read(file), virtual_host, OWN), has_bindings=True)


def exported(virtual_host: str) -> str:
    return msgspec.json.format(msgspec.json.encode(definitions(topology(), virtual_host)), indent=2).decode()


def advice_for(finding: Finding) -> str:
    return _ADVICE[finding.state]


def as_data(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = msgspec.to_builtins(findings)
    return told


def _read(file: Path) -> Definitions:
    try:
        text = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        return msgspec.json.decode(text, type=Definitions)
    except (OSError, msgspec.DecodeError) as error:
        raise BadUsage(
            f"{file} is no file of definitions", why=str(error), fix="rabbitmqctl export_definitions FILE writes one"
        ) from error
