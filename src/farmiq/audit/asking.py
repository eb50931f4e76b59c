"""Asking every tier once, against the stream: the cloud first, then the outbox, the edge, and the nodes last.

A sample moves from the node to the cloud. Whoever asks the cloud first and the node last sees each of them at least once, so what
moves meanwhile is counted as on its way, and the cloud never seems to have something that the edge has not.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from uuid import UUID

from msgspec import Struct

from farmiq.audit import answers
from farmiq.audit.balance import DeadLetters, Reading, TenantReading
from farmiq.audit.devices import DeviceReading, Situation
from farmiq.audit.spools import local_spools
from farmiq.audit.streams import NodeAccount, Packs
from farmiq.audit.weighing_asking import CLOUD_MEDIA, MEDIA, SESSIONS, Scope, ask_cloud, ask_edge
from farmiq.console.fleet.answers import Device, Devices
from farmiq.console.neighbours import Neighbours
from farmiq.contracts import event_types
from farmiq.timeseries.accounts import DeviceAccount
from farmiq.timeseries.coverage import Span

EDGE: Final = "edge-telemetry-timeseries"
CLOUD: Final = "cloud-telemetry-service"
GATEWAY: Final = "edge-ingress-gateway"
SYNC: Final = "edge-sync-forwarder"
ENTRANCE: Final = "cloud-ingestion"

HOURS_MAX: Final = timedelta(days=31)
DEVICES_A_PAGE: Final = 20
WATCHED_QUEUES: Final = frozenset({"cloud-telemetry-service", "cloud-media-store"})
"""Whose dead letters are accepted things that are not stored. What analytics makes of them can be made again."""

SERVICES: Final = (EDGE, SYNC, GATEWAY, SESSIONS, MEDIA, ENTRANCE, CLOUD, CLOUD_MEDIA)
"""Everybody who is asked."""

OnDevices = Callable[[str, int], None]


class Question(Struct, frozen=True, kw_only=True):
    """`rows_max`: at a tier, so many rows are counted; beyond that its aggregates are believed."""

    tenant_id: str | None = None
    own_tenants: Sequence[str] = ()
    """Asked for also when the edge has nothing of them."""
    device_id: str | None = None
    since: datetime | None = None
    rows_max: int
    is_exact: bool = False
    spool_folders: Mapping[str, Path] = {}


class _Tier(Struct, frozen=True):
    devices: dict[str, DeviceAccount]
    retired: int


async def read(neighbours: Neighbours, asked: Question, on_devices: OnDevices = lambda _tier, _count: None) -> Reading:
    """One look at everything. Raises `Away` or `Refused` where a service does not tell."""
    now = datetime.now(UTC)
    until = now + timedelta(hours=1)
    since = max(asked.since or until - HOURS_MAX, until - HOURS_MAX)
    plan = await neighbours.get(GATEWAY, "/api/v1/ingress/sync-plan", answers.SyncPlan)
    names = [asked.tenant_id] if asked.tenant_id else sorted({*asked.own_tenants, *await _tenants(neighbours)})
    bus = (await neighbours.get(ENTRANCE, "/api/v1/bus/queues", answers.BusQueues)).queues
    notes: list[str] = []
    tenants = []
    for tenant_id in names:
        tenant = await _tenant(neighbours, asked, tenant_id, (since, until), plan, bus, on_devices, notes)
        tenants.append(tenant)
    duplicates = [
        await neighbours.get(GATEWAY, "/api/v1/ingress/stats", answers.Stats),
        await neighbours.get(ENTRANCE, "/api/v1/ingestion/stats", answers.Stats),
    ]
    return Reading(
        asked_at=now,
        since=since,
        until=until,
        tenants=tenants,
        duplicates_removed=sum(one.duplicates for one in duplicates),
        notes=notes,
    )


async def _tenants(neighbours: Neighbours) -> list[str]:
    """Those of the edge: the cloud may have others, whose edges are elsewhere."""
    return (await neighbours.get(EDGE, "/api/v1/tenants", answers.Tenants)).tenants


async def _tenant(
    neighbours: Neighbours,
    asked: Question,
    tenant_id: str,
    window: tuple[datetime, datetime],
    plan: answers.SyncPlan,
    bus: list[answers.BusQueue],
    on_devices: OnDevices,
    notes: list[str],
) -> TenantReading:
    scope = Scope(tenant_id, asked.device_id, asked.since or window[0], window[1])
    cloud = await _accounts(neighbours, CLOUD, tenant_id, asked, window, on_devices)
    weighed = await ask_cloud(neighbours, scope)
    letters = await _dead_letters(neighbours, tenant_id) if any(queue.dead for queue in bus) else []
    waiting = await neighbours.get(SYNC, "/api/v1/sync/waiting", answers.Waiting, tenant_id=tenant_id)
    edge = await _accounts(neighbours, EDGE, tenant_id, asked, window, on_devices)
    registered = await _registered(neighbours, tenant_id, asked.device_id)
    bus_waiting = sum(queue.waiting + queue.retrying for queue in bus if queue.service == CLOUD)
    weighings = await ask_edge(neighbours, scope, weighed, waiting, bus_waiting, registered.values())
    nodes, troubles = local_spools(_folders(asked, registered))
    notes += troubles
    situation = Situation(
        tenant_id=tenant_id,
        retired={"edge": edge.retired, "cloud": cloud.retired},
        is_outbox_complete=waiting.is_complete,
        bus_waiting=bus_waiting,
        is_raw_sent=plan.mode != "aggregated",
        are_aggregates_sent=plan.mode != "raw",
    )
    packs, singles = _outbox(waiting)
    here = {*edge.devices, *nodes, *registered}
    devices = [
        DeviceReading(
            device_id=name,
            edge=edge.devices.get(name),
            cloud=cloud.devices.get(name),
            nodes=nodes.get(name) or said_by(registered.get(name)),
            packs=packs,
            single_waiting=singles.get((name, False), 0),
            single_dead=singles.get((name, True), 0),
        )
        for name in sorted(here & {*edge.devices, *cloud.devices, *nodes})
    ]
    wanted = [one for one in devices if asked.since is None or _is_of(one, asked.since)]
    elsewhere = sorted({*cloud.devices} - here)
    return TenantReading(
        situation=situation,
        devices=wanted,
        weighings=weighings,
        dead_letters=letters,
        events_waiting=_others(waiting, is_dead=False),
        events_dead=_others(waiting, is_dead=True),
        elsewhere=elsewhere,
    )


async def _accounts(
    neighbours: Neighbours,
    service: str,
    tenant_id: str,
    asked: Question,
    window: tuple[datetime, datetime],
    on_devices: OnDevices,
) -> _Tier:
    devices: dict[str, DeviceAccount] = {}
    after: str | None = None
    rows_left = asked.rows_max
    while True:
        page = await neighbours.get(
            service,
            "/api/v1/accounts",
            answers.AccountPage,
            tenant_id=tenant_id,
            device_ids=asked.device_id,
            rows_max=rows_left,
            exact=str(asked.is_exact).lower(),
            after=after,
            limit=DEVICES_A_PAGE,
            **{"from": window[0].isoformat(), "to": window[1].isoformat()},
        )
        devices |= {one.device_id: one for one in page.devices if one.samples or one.streams}
        rows_left -= sum(one.samples_in_months for one in page.devices if one.single_rows is not None)
        on_devices(service, len(devices))
        after = page.next
        if after is None:
            return _Tier(devices, page.retired_samples)


async def _registered(neighbours: Neighbours, tenant_id: str, device_id: str | None) -> dict[str, Device]:
    found: dict[str, Device] = {}
    after: str | None = None
    while True:
        page = await neighbours.get(
            EDGE, "/api/v1/devices", Devices, tenant_id=tenant_id, device_ids=device_id, after=after, limit=1000
        )
        found |= {device.device_id: device for device in page.devices}
        after = page.next
        if after is None:
            return found


async def _dead_letters(neighbours: Neighbours, tenant_id: str) -> list[DeadLetters]:
    """Looking takes the letters for a moment, so nobody looks where there are none."""
    found = await neighbours.get(ENTRANCE, "/api/v1/dlq", answers.DeadQueues, tenant_id=tenant_id)
    return [
        DeadLetters(queue.service, sum(group.count for group in queue.groups))
        for queue in found.queues
        if queue.service in WATCHED_QUEUES
    ]


def _folders(asked: Question, registered: Mapping[str, Device]) -> dict[str, Path]:
    return {
        name: folder
        for name, folder in asked.spool_folders.items()
        if name in registered and asked.device_id in (None, name)
    }


def _outbox(waiting: answers.Waiting) -> tuple[dict[UUID, Packs], dict[tuple[str, bool], int]]:
    """Which samples are in packs, by stream; and how many single readings wait, by device and whether they were given up."""
    spans: dict[UUID, tuple[list[Span], list[Span]]] = {}
    singles: dict[tuple[str, bool], int] = {}
    for event in waiting.events:
        if event.event_type == event_types.TELEMETRY_INGESTED and event.device_id is not None:
            key = event.device_id, event.is_dead
            singles[key] = singles.get(key, 0) + 1
        if event.event_type == event_types.TELEMETRY_BATCH_INGESTED and event.stream_id and event.first_seq:
            first = int(event.first_seq)
            both = spans.setdefault(UUID(event.stream_id), ([], []))
            both[event.is_dead].append((first, first + (event.samples or 0)))
    return {
        stream_id: Packs(waiting_spans, dead_spans, waiting.is_complete)
        for stream_id, (waiting_spans, dead_spans) in spans.items()
    }, singles


def _others(waiting: answers.Waiting, *, is_dead: bool) -> dict[str, int]:
    """Events that are no samples, by type."""
    samples = (event_types.TELEMETRY_INGESTED, event_types.TELEMETRY_BATCH_INGESTED)
    others = [event.event_type for event in waiting.events if event.is_dead is is_dead]
    return dict(Counter(name for name in others if name not in samples))


def said_by(device: Device | None) -> dict[UUID, NodeAccount]:
    """What a device said last of the stream that it was writing then."""
    status = device.status if device else None
    if device is None or status is None or status.stream_id is None or status.last_captured_seq is None:
        return {}
    return {
        status.stream_id: NodeAccount(status.last_captured_seq, status.last_acked_seq or 0, said_at=device.status_at)
    }


def _is_of(reading: DeviceReading, since: datetime) -> bool:
    """Whether anything was heard of it since then."""
    accounts = [account for account in (reading.edge, reading.cloud) if account is not None]
    return any(
        account.hours or any(stream.last_seen_at >= since for stream in account.streams) for account in accounts
    ) or any(node.said_at is None for node in reading.nodes.values())
