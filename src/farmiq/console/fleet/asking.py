"""Asking the services about devices. One that is away leaves its part of the answer unknown, and the reason beside it."""

import asyncio
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from farmiq.console.desk import Desk
from farmiq.console.fleet.answers import AllTotals, Coverage, DeadLetters, Devices, DeviceState, Streams, Totals
from farmiq.console.neighbours import Away, Refused

EDGE: Final = "edge-telemetry-timeseries"
CLOUD: Final = "cloud-telemetry-service"
GATEWAY: Final = "edge-ingress-gateway"
SYNC: Final = "edge-sync-forwarder"

DEVICES_AT_ONCE_MAX: Final = 100
"""What the services take in one question that names devices."""
TOTALS_AT_ONCE: Final = 20_000
TOTALS_PAGES_MAX: Final = 10
DEAD_LETTERS_MAX: Final = 1000

_PART_OF_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")

T = TypeVar("T")


class Told(Struct, Generic[T], frozen=True):
    """`value` is None when it is not known. `trouble` says why, also where something else stands in."""

    service: str
    value: T | None
    trouble: str = ""


async def ask(desk: Desk, service: str, path: str, kind: type[T], **parameters: Any) -> Told[T]:
    try:
        return Told(service, await desk.neighbours.get(service, path, kind, **parameters))
    except Away as error:
        return Told(service, None, error.reason)
    except Refused as error:
        return Told(service, None, str(error))


async def coverage(
    desk: Desk, tenant: str, device_ids: Sequence[str], since: datetime, until: datetime, window: str
) -> tuple[Told[Coverage], Told[Coverage]]:
    """At the edge and in the cloud."""
    if not device_ids:
        return Told(EDGE, Coverage()), Told(CLOUD, Coverage())
    question = {
        "tenant_id": tenant,
        "device_ids": list(device_ids),
        "window": window,
        "from": stamp(since),
        "to": stamp(until),
    }
    edge, cloud = await asyncio.gather(
        ask(desk, EDGE, "/api/v1/coverage", Coverage, **question),
        ask(desk, CLOUD, "/api/v1/coverage", Coverage, **question),
    )
    return edge, cloud


async def devices_like(
    desk: Desk,
    tenant: str,
    part_of_name: str | None,
    *,
    state: DeviceState | None = None,
    after: str | None,
    limit: int,
) -> Told[Devices]:
    """A page of them. What can stand in no name is in none."""
    if part_of_name is not None and _PART_OF_NAME.fullmatch(part_of_name) is None:
        return Told(EDGE, Devices())
    return await ask(
        desk, EDGE, "/api/v1/devices", Devices,
        tenant_id=tenant, q=part_of_name, status=state, after=after, limit=limit,
    )  # fmt: skip


async def devices_named(desk: Desk, tenant: str, device_ids: Sequence[str]) -> Told[Devices]:
    if not device_ids:
        return Told(EDGE, Devices())
    return await ask(desk, EDGE, "/api/v1/devices", Devices, tenant_id=tenant, device_ids=list(device_ids))


async def streams_of(desk: Desk, service: str, tenant: str, device_ids: Sequence[str]) -> Told[Streams]:
    if not device_ids:
        return Told(service, Streams())
    return await ask(desk, service, "/api/v1/streams", Streams, tenant_id=tenant, device_ids=list(device_ids))


async def dead_letters(desk: Desk, tenant: str) -> Told[DeadLetters]:
    return await ask(desk, SYNC, "/api/v1/sync/dlq", DeadLetters, tenant_id=tenant, limit=DEAD_LETTERS_MAX)


async def all_totals(desk: Desk, service: str, tenant: str) -> Told[dict[str, Totals]]:
    """Of every device that numbers its samples."""
    found: dict[str, Totals] = {}
    after: str | None = None
    for _ in range(TOTALS_PAGES_MAX):
        path = "/api/v1/coverage/devices"
        page = await ask(desk, service, path, AllTotals, tenant_id=tenant, after=after, limit=TOTALS_AT_ONCE)
        if page.value is None:
            return Told(service, None, page.trouble)
        found |= {one.device_id: one for one in page.value.devices}
        after = page.value.next
        if after is None:
            break
    return Told(service, found)


def stamp(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def troubles(*told: Told[Any]) -> list[Told[Any]]:
    """One for each service that did not answer."""
    return list({one.service: one for one in told if one.trouble}.values())
