"""Everything together: captured = stored + declared lost + in flight, or not. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from farmiq.audit.device_hours import explained
from farmiq.audit.device_reading import DeviceReading, Situation
from farmiq.audit.devices import DeviceBalance, balance_device
from farmiq.audit.erasures import HalfErased
from farmiq.audit.findings import MISSING, Finding, found, lasting
from farmiq.audit.held import HeldEvents
from farmiq.audit.records import RecordReading, balance_hours, balance_records
from farmiq.audit.streams import BusRoom, Place
from farmiq.audit.weighings import WeighingBalance, WeighingReading, balance_weighings

T = TypeVar("T", bound=str)


class DeadLetters(Struct, frozen=True):
    service: str
    count: int


class TenantReading(Struct, frozen=True, kw_only=True):
    """`elsewhere`: devices that only the cloud has, and of which this edge knows nothing: they are another edge's.

    `strangers`: devices of this machine that are not registered, and how many samples they hold that nobody has taken over."""

    situation: Situation
    devices: list[DeviceReading]
    weighings: WeighingReading | None = None
    records: list[RecordReading] = []
    hours: RecordReading | None = None
    """Of the cloud's aggregates, those that analytics has not or has otherwise."""
    forgotten: list[str] = []
    """Devices of this edge, as the cloud has it, that the edge does not know."""
    dead_letters: list[DeadLetters] = []
    events_waiting: dict[str, int] = {}
    """In the edge's outbox by type, without samples, which the devices' figures have."""
    events_dead: dict[str, int] = {}
    held: list[HeldEvents] = []
    elsewhere: list[str] = []
    strangers: dict[str, int] = {}
    quiet: list[str] = []
    """Devices of the edge that were not judged: nothing was measured, or nothing since the time that was asked for."""
    half_erased: HalfErased | None = None
    """With it there is nothing else here: what the cloud was told to forget can't be compared."""


class Reading(Struct, frozen=True, kw_only=True):
    asked_at: datetime
    since: datetime
    until: datetime
    tenants: list[TenantReading]
    bus_messages: int = 0
    """On the bus, for the service that stores samples and sessions."""
    duplicates_removed: int = 0
    notes: list[str] = []


class Balance(Struct, frozen=True, kw_only=True):
    """captured = stored + lost + in_flight + dead_lettered + unexplained. It balances when nothing was found: then the last two
    are 0, and every tier has the rows that it says it has."""

    balanced: bool
    captured: int
    stored: int
    lost: int
    in_flight: int
    in_flight_at: dict[Place, int]
    dead_lettered: int
    unexplained: int
    duplicates_removed: int
    stored_twice: int
    asked_at: datetime
    since: datetime
    until: datetime
    devices: list[DeviceBalance]
    weighings: list[WeighingBalance]
    findings: list[Finding]
    events_waiting: dict[str, int]
    elsewhere: list[str]
    notes: list[str]
    quiet: list[str] = []
    held: list[HeldEvents] = []
    """What waits for a person. It is in flight, and in the other figures."""


def balance(reading: Reading, before: Sequence[Finding] | None = None) -> Balance:
    """`before` is what was wrong each time it was asked until now. What is not among it has only moved."""
    devices = []
    weighings: list[WeighingBalance] = []
    findings: list[Finding] = []
    bus = BusRoom(reading.bus_messages)
    for tenant in reading.tenants:
        for one in tenant.devices:
            judged = settled(balance_device(one, tenant.situation, bus), before)
            devices.append(judged)
            findings += judged.findings
        if tenant.weighings is not None:
            weighed = balance_weighings(tenant.weighings, bus)
            lasted = weighed.findings if before is None else lasting(before, weighed.findings)
            weighings.append(replace(weighed, findings=lasted))
            findings += lasted
        tenant_id = tenant.situation.tenant_id
        recorded = balance_records(tenant_id, tenant.records, bus)
        if tenant.hours is not None:
            recorded += balance_hours(tenant_id, tenant.hours)
        findings += recorded if before is None else lasting(before, recorded)
        findings += [found("device_forgotten", tenant_id, name, 1, device_id=name) for name in tenant.forgotten]
        findings += [
            found("not_registered", tenant_id, name, held, device_id=name) for name, held in tenant.strangers.items()
        ]
        if tenant.half_erased is not None:
            findings.append(_half_erased(tenant_id, tenant.half_erased))
        findings += [_letters(tenant_id, one) for one in tenant.dead_letters if one.count]
        findings += [found("dead_event", tenant_id, name, count) for name, count in tenant.events_dead.items()]
    places = _added(device.in_flight for device in devices)
    return Balance(
        balanced=not findings,
        captured=sum(device.captured for device in devices),
        stored=sum(device.stored for device in devices),
        lost=sum(device.lost for device in devices),
        in_flight=sum(places.values()),
        in_flight_at=places,
        dead_lettered=sum(device.dead_lettered for device in devices),
        unexplained=sum(device.missing for device in devices),
        duplicates_removed=reading.duplicates_removed,
        stored_twice=sum(device.stored_twice for device in devices),
        asked_at=reading.asked_at,
        since=reading.since,
        until=reading.until,
        devices=devices,
        weighings=weighings,
        findings=findings,
        events_waiting=_added(tenant.events_waiting for tenant in reading.tenants),
        elsewhere=[name for tenant in reading.tenants for name in tenant.elsewhere],
        notes=reading.notes,
        quiet=[name for tenant in reading.tenants for name in tenant.quiet],
        held=[one for tenant in reading.tenants for one in tenant.held],
    )


def with_more(verdict: Balance, findings: Sequence[Finding], notes: Sequence[str]) -> Balance:
    """With what was found elsewhere."""
    everything = [*verdict.findings, *findings]
    return replace(verdict, balanced=not everything, findings=everything, notes=[*verdict.notes, *notes])


def settled(device: DeviceBalance, before: Sequence[Finding] | None) -> DeviceBalance:
    """With only those findings that were there each time; what else looked missing was on its way."""
    if before is None:
        return device
    findings = lasting(before, device.findings)
    missing = sum(finding.count for finding in findings if is_missing(finding))
    moving = device.missing - missing
    in_flight = device.in_flight | ({"moving": device.in_flight.get("moving", 0) + moving} if moving else {})
    hours = device.hours
    if any(hour.unexplained for hour in hours):
        hours = explained(hours, in_flight, device.dead_lettered)
    return replace(device, findings=findings, missing=missing, in_flight=in_flight, hours=hours)


def is_missing(finding: Finding) -> bool:
    return finding.kind in MISSING or finding.kind in ("single_missing", "aggregates_missing")


def _added(parts: Iterable[Mapping[T, int]]) -> dict[T, int]:
    sums: dict[T, int] = {}
    for part in parts:
        for name, count in part.items():
            sums[name] = sums.get(name, 0) + count
    return sums


def _half_erased(tenant_id: str, one: HalfErased) -> Finding:
    devices = ", ".join(one.device_ids[:5])
    subject = (
        f"tenant {tenant_id}, erased in the cloud {one.erased_at:%Y-%m-%d %H:%M:%S}Z by {one.erased_by}; here {devices}"
    )
    return found("half_erased", tenant_id, subject, len(one.device_ids))


def _letters(tenant_id: str, letters: DeadLetters) -> Finding:
    return found("cloud_dead_letter", tenant_id, letters.service, letters.count)
