"""Asking every tier once, against the stream: the cloud first, then the outbox, the edge, and the nodes last.

A sample moves from the node to the cloud. Whoever asks the cloud first and the node last sees each of them at least once, so what
moves meanwhile is counted as on its way, and the cloud never seems to have something that the edge has not.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from farmiq.audit import answers
from farmiq.audit.balance import DeadLetters, Reading, TenantReading
from farmiq.audit.buckets import Pair, read_buckets
from farmiq.audit.content import DeviceContent, Tiers, read_content
from farmiq.audit.device_reading import DeviceReading, Situation
from farmiq.audit.erasures import read_half_erased
from farmiq.audit.held import GATEWAY, held_answer, held_of, known, read_kept_out
from farmiq.audit.outbox import SYNC, Outbox, acknowledged, outbox
from farmiq.audit.records import ANALYTICS, KINDS, READINGS, Asked, RecordReading, read_hours, read_records
from farmiq.audit.spools import local_spools
from farmiq.audit.streams import NodeAccount
from farmiq.audit.weighing_asking import CLOUD_MEDIA, MEDIA, SESSIONS, Scope, ask_cloud, ask_edge
from farmiq.console.fleet.answers import Device, Devices
from farmiq.console.neighbours import Neighbours
from farmiq.contracts.timestamps import EARLIEST, LATEST
from farmiq.timeseries.accounts import DeviceAccount
from farmiq.timeseries.coverage import count, without

EDGE: Final = "edge-telemetry-timeseries"
CLOUD: Final = "cloud-telemetry-service"
ENTRANCE: Final = "cloud-ingestion"

HOURS_MAX: Final = timedelta(days=31)
"""So many are shown. Those before are compared as well."""
DEVICES_A_PAGE: Final = 20
SECONDS_UNKNOWN: Final = 1e9
"""For how long a message has been on the bus of a cloud that does not tell: everything that the outbox still has may be there."""
WATCHED_QUEUES: Final = frozenset({"cloud-telemetry-service", "cloud-media-store"})
"""Whose dead letters are accepted things that are not stored. What analytics makes of them can be made again."""

SERVICES: Final = (EDGE, SYNC, GATEWAY, SESSIONS, MEDIA, ENTRANCE, CLOUD, CLOUD_MEDIA)
"""Everybody who is asked."""

OnDevices = Callable[[str, int], None]


class Question(Struct, frozen=True, kw_only=True):
    """`rows_max`: at a tier, so many rows are counted; beyond that its aggregates are believed. `asked_at` stays the same however
    often it is asked: single readings are compared as far as they were measured before."""

    tenant_id: str | None = None
    own_tenants: Sequence[str] = ()
    """Asked for also when the edge has nothing of them."""
    device_id: str | None = None
    since: datetime | None = None
    asked_at: datetime
    rows_max: int
    is_exact: bool = False
    spool_folders: Mapping[str, Path] = {}
    spool_tenants: Mapping[str, str] = {}
    """Whose the devices of these spools are, as far as it is known; of the others, the first of `own_tenants`."""


class _Tier(Struct, frozen=True):
    devices: dict[str, DeviceAccount]
    retired: int


async def read(neighbours: Neighbours, asked: Question, on_devices: OnDevices = lambda _tier, _count: None) -> Reading:
    """One look at everything. Raises `Away` or `Refused` where a service does not tell."""
    until = asked.asked_at + timedelta(hours=1)
    since = max(asked.since or until - HOURS_MAX, until - HOURS_MAX)
    plan = await neighbours.get(GATEWAY, "/api/v1/ingress/sync-plan", answers.SyncPlan)
    names = [asked.tenant_id] if asked.tenant_id else await _tenants(neighbours, asked)
    bus = {
        queue.service: queue
        for queue in (await neighbours.get(ENTRANCE, "/api/v1/bus/queues", answers.BusQueues)).queues
    }
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
        asked_at=asked.asked_at,
        since=since,
        until=until,
        tenants=tenants,
        bus_messages=_messages(bus.get(CLOUD)),
        duplicates_removed=sum(one.duplicates for one in duplicates),
        notes=notes,
    )


async def _tenants(neighbours: Neighbours, asked: Question) -> list[str]:
    """Those of the edge: the cloud may have others, whose edges are elsewhere."""
    measured = (await neighbours.get(EDGE, "/api/v1/tenants", answers.Tenants)).tenants
    return sorted({*asked.own_tenants, *asked.spool_tenants.values(), *measured})


async def _tenant(
    neighbours: Neighbours,
    asked: Question,
    tenant_id: str,
    window: tuple[datetime, datetime],
    plan: answers.SyncPlan,
    bus: Mapping[str, answers.BusQueue],
    on_devices: OnDevices,
    notes: list[str],
) -> TenantReading:
    scope = Scope(tenant_id, asked.device_id, asked.since or EARLIEST, LATEST)
    cloud = await _accounts(neighbours, CLOUD, tenant_id, asked, window, on_devices)
    weighed = await ask_cloud(neighbours, scope)
    letters = (
        await _dead_letters(neighbours, tenant_id, asked.device_id) if any(queue.dead for queue in bus.values()) else []
    )
    registered = await _registered(neighbours, tenant_id, asked.device_id)
    created = {name: one.created_at for name, one in registered.items()}
    compared = Asked(scope.query(), created, asked.asked_at + timedelta(days=1))
    # Between the accounts of both tiers: whatever moves meanwhile, no more is behind in these than in those.
    buckets = await read_buckets(neighbours, compared, notes)
    waiting = await outbox(neighbours, tenant_id, asked.asked_at, asked.device_id)
    recent = await _recent(neighbours, tenant_id, asked, bus.get(CLOUD), notes)
    held = await held_answer(neighbours, tenant_id)
    edge = await _accounts(neighbours, EDGE, tenant_id, asked, window, on_devices)
    situation = _situation(tenant_id, edge, cloud, plan)
    half_erased = await read_half_erased(neighbours, CLOUD, tenant_id, registered, edge.devices)
    if half_erased is not None:
        return TenantReading(situation=situation, devices=[], half_erased=half_erased)
    contents = {}
    if plan.mode != "aggregated":
        contents = await read_content(
            neighbours, Tiers(EDGE, CLOUD), tenant_id, asked.device_id, edge.devices, cloud.devices, is_deep=asked.is_exact,
            notes=notes,
        )  # fmt: skip
    weighings = await ask_edge(neighbours, scope, weighed, frozenset(waiting.sessions), registered.values())
    records = await _records(neighbours, compared, plan, waiting, recent, notes)
    hours = await read_hours(neighbours, compared, _oldest(bus.get(ANALYTICS)), notes)
    nodes, troubles = local_spools(_folders(asked, tenant_id, registered))
    notes += troubles
    notes += await read_kept_out(neighbours, tenant_id, asked.device_id, asked.asked_at)
    strangers = {name: unacked for name in {*nodes} - {*registered} if (unacked := _unacked(nodes[name]))}
    here = {*edge.devices, *registered, *strangers}
    forgotten = await _forgotten(neighbours, tenant_id, asked.device_id, held, {*registered, *strangers})
    on_disk = {*nodes}
    nodes = {name: nodes.get(name) or said_by(registered.get(name)) for name in {*nodes, *registered}}
    seen = _Seen(edge, cloud, nodes, waiting, recent, records.get(READINGS.name), buckets, contents)
    devices = [seen.device(name) for name in sorted(here & {*edge.devices, *cloud.devices, *on_disk})]
    wanted = [one for one in devices if asked.since is None or _is_of(one, asked.since)]
    return TenantReading(
        situation=situation,
        devices=wanted,
        weighings=replace(weighings, recent_sessions=frozenset(recent.sessions)),
        records=[one for one in records.values() if one.kind is not READINGS],
        hours=None if hours is None else hours.among(here),
        forgotten=forgotten,
        dead_letters=letters,
        strangers=strangers,
        events_waiting=waiting.others(is_dead=False),
        events_dead=waiting.others(is_dead=True),
        held=held_of(held, tenant_id, asked.device_id, waiting.waiting),
        elsewhere=sorted({*cloud.devices} - here - {*forgotten}),
        quiet=sorted(here - {one.device_id for one in wanted}),
    )


class _Seen(Struct, frozen=True):
    """What was read of all devices of a tenant. `readings` and `buckets` are None where they were not compared."""

    edge: _Tier
    cloud: _Tier
    nodes: Mapping[str, Mapping[UUID, NodeAccount]]
    waiting: Outbox
    recent: Outbox
    readings: RecordReading | None
    buckets: Mapping[str, list[Pair]] | None
    contents: Mapping[str, DeviceContent]

    def device(self, name: str) -> DeviceReading:
        return DeviceReading(
            device_id=name,
            edge=self.edge.devices.get(name),
            cloud=self.cloud.devices.get(name),
            nodes=self.nodes.get(name, {}),
            packs=self.waiting.packs(self.recent),
            single_waiting=self.waiting.singles[name, False],
            single_dead=self.waiting.singles[name, True],
            single_old_in_outbox=self.waiting.old_singles[name],
            single_recent=self.recent.singles[name, False],
            readings=self.readings.among([name]) if self.readings is not None else None,
            buckets=self.buckets.get(name, []) if self.buckets is not None else None,
            announced=[*self.waiting.aggregated.get(name, []), *self.recent.aggregated.get(name, [])],
            content=self.contents.get(name),
        )


async def _records(
    neighbours: Neighbours,
    compared: Asked,
    plan: answers.SyncPlan,
    waiting: Outbox,
    recent: Outbox,
    notes: list[str],
) -> dict[str, RecordReading]:
    """By the name of the kind. Single readings end at the edge where the cloud is told of aggregates only."""
    kinds = [kind for kind in KINDS if kind is not READINGS or plan.mode != "aggregated"]
    found = await read_records(
        neighbours, compared, frozenset(waiting.records), frozenset(recent.records), notes, kinds
    )
    return {one.kind.name: one for one in found}


def _situation(tenant_id: str, edge: _Tier, cloud: _Tier, plan: answers.SyncPlan) -> Situation:
    return Situation(
        tenant_id=tenant_id,
        retired={"edge": edge.retired, "cloud": cloud.retired},
        is_raw_sent=plan.mode != "aggregated",
        are_aggregates_sent=plan.mode != "raw",
        windows=plan.windows,
    )


def _messages(queue: answers.BusQueue | None) -> int:
    return queue.waiting + queue.retrying if queue is not None else 0


def _oldest(queue: answers.BusQueue | None) -> float | None:
    """How old a message can be that waits. None: none waits."""
    if not _messages(queue):
        return None
    return SECONDS_UNKNOWN if queue is None or queue.oldest_seconds is None else queue.oldest_seconds


async def _recent(
    neighbours: Neighbours, tenant_id: str, asked: Question, queue: answers.BusQueue | None, notes: list[str]
) -> Outbox:
    """What can be on the bus: what the cloud has acknowledged within the age of its oldest message."""
    seconds = _oldest(queue)
    if seconds is None:
        return Outbox(asked.asked_at)
    recent = await acknowledged(neighbours, tenant_id, asked.asked_at, seconds, asked.device_id)
    if recent is None:
        note = f"{SYNC} does not tell what was acknowledged lately, so messages on the bus explain nothing: update it."
        notes += [note] if note not in notes else []
        return Outbox(asked.asked_at)
    return recent


async def _forgotten(
    neighbours: Neighbours,
    tenant_id: str,
    device_id: str | None,
    held: answers.Held | None,
    registered: Collection[str],
) -> list[str]:
    """Devices of this edge, as the cloud has it, that the edge does not know."""
    path = "/api/v1/device-owners"
    answer = await known(neighbours, ENTRANCE, path, answers.DeviceOwners, tenant_id=tenant_id, device_id=device_id)
    if answer is None or held is None:
        return []
    own = {one.device_id for one in answer.owners if one.edge_cluster_id == held.edge_cluster_id}
    return sorted(own - {*registered})


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
            singles_since=asked.asked_at.isoformat(),
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


async def _dead_letters(neighbours: Neighbours, tenant_id: str, device_id: str | None) -> list[DeadLetters]:
    """Looking takes the letters for a moment, so nobody looks where there are none."""
    found = await neighbours.get(ENTRANCE, "/api/v1/dlq", answers.DeadQueues, tenant_id=tenant_id, device_id=device_id)
    return [
        DeadLetters(queue.service, sum(group.count for group in queue.groups))
        for queue in found.queues
        if queue.service in WATCHED_QUEUES
    ]


def _folders(asked: Question, tenant_id: str, registered: Mapping[str, Device]) -> dict[str, Path]:
    """Of devices that are registered with this tenant, or that should be: an edge that was restored from a backup has forgotten
    those that were added since."""
    owner = next(iter(asked.own_tenants), None)
    return {
        name: folder
        for name, folder in asked.spool_folders.items()
        if (name in registered or asked.spool_tenants.get(name, owner) == tenant_id) and asked.device_id in (None, name)
    }


def _unacked(streams: Mapping[UUID, NodeAccount]) -> int:
    return sum(count(without(node.held or [], [(1, node.acked_seq + 1)])) for node in streams.values())


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
