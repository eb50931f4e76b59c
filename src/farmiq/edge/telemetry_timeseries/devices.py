"""A device as a person wants to see it: is it there, is its data new, and how far is it safe."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from farmiq.contracts.status import DeviceStatus
from farmiq.edge.ingress_gateway import register
from farmiq.edge.telemetry_timeseries import store
from farmiq.edge.telemetry_timeseries.liveness import Clocks, State, is_fresh, is_online, state_of
from farmiq.kit.postgres import Connection
from farmiq.timeseries.completeness import StreamRow, streams_of


class Timeouts(msgspec.Struct, frozen=True):
    online: timedelta
    freshness: timedelta


class SensorView(msgspec.Struct, frozen=True):
    metric_type: str
    sensor: str
    fresh: bool
    faulty: bool
    last_rx_at: datetime | None
    last_sample_ts: datetime | None


class Marks(msgspec.Struct, frozen=True):
    """How far the present stream is safe: on the device's own disk (as it said last), and in this database."""

    stream_id: UUID
    captured_seq: int | None
    edge_contiguous_seq: int
    edge_highest_seq: int
    edge_missing: int
    lost: int


class DeviceView(msgspec.Struct, frozen=True):
    """`status` holds the figures that the device sent last, at `status_at`: spool, runway, replay, faults.

    `time_quality` is of its newest sample: 0 not known, 1 running on from an earlier synchronisation, 2 synchronised, 3 corrected
    by the edge's time."""

    device_id: str
    tenant_id: str
    farm_id: str
    barn_id: str
    kind: str | None
    state: State
    online: bool
    fresh: bool
    created_at: datetime | None
    credential_at: datetime | None
    revoked_at: datetime | None
    last_rx_at: datetime | None
    last_sample_ts: datetime | None
    reported_state: str | None
    reported_at: datetime | None
    time_quality: int | None
    marks: Marks | None
    sensors: list[SensorView]
    status: DeviceStatus | None
    status_at: datetime | None


class DeviceCounts(msgspec.Struct, frozen=True):
    """`registered` is all of them together, without the revoked ones. `idle` devices have no schedule: nobody expects them."""

    registered: int
    online: int
    quiet: int
    never_heard: int
    revoked: int
    idle: int


class Wanted(msgspec.Struct, frozen=True):
    """Which devices of a tenant. `part_of_name` may stand anywhere in the name."""

    tenant_id: str
    part_of_name: str | None = None
    state: State | None = None
    after: str = ""
    limit: int = 100


async def list_devices(connection: Connection, wanted: Wanted, now: datetime, timeouts: Timeouts) -> list[DeviceView]:
    """Every device of the register, heard or not, in the order of their names."""
    if wanted.state is None:
        rows = await register.registered(
            connection,
            tenant_id=wanted.tenant_id,
            part_of_name=wanted.part_of_name,
            after=wanted.after,
            limit=wanted.limit,
        )
        device_ids = [row.device_id for row in rows]
    else:
        states = await _states(connection, wanted, now, timeouts)
        device_ids = [name for name, state in states.items() if state == wanted.state][: wanted.limit]
    return await devices_of(connection, wanted.tenant_id, device_ids, now, timeouts)


async def count_devices(connection: Connection, tenant_id: str, now: datetime, timeouts: Timeouts) -> DeviceCounts:
    found = Counter((await _states(connection, Wanted(tenant_id), now, timeouts)).values())
    return DeviceCounts(
        registered=found.total() - found["revoked"],
        online=found["online"],
        quiet=found["quiet"],
        never_heard=found["never_heard"],
        revoked=found["revoked"],
        idle=found["idle"],
    )


async def devices_of(
    connection: Connection, tenant_id: str, device_ids: Sequence[str], now: datetime, timeouts: Timeouts
) -> list[DeviceView]:
    """Those of them that the tenant has, in the order in which they were asked for."""
    if not device_ids:
        return []
    registered = await register.registrations_of(connection, tenant_id=tenant_id, device_ids=device_ids)
    heard = {row["device_id"]: dict(row) for row in await store.devices(connection, tenant_id, device_ids)}
    newest_at = {name: row["last_sample_ts"] for name, row in heard.items() if row["last_sample_ts"] is not None}
    seen = _Seen(
        registered,
        heard,
        [dict(row) for row in await store.sensors(connection, tenant_id, device_ids)],
        await streams_of(connection, tenant_id=tenant_id, device_ids=device_ids),
        await store.time_qualities(connection, tenant_id, newest_at),
    )
    known = [name for name in device_ids if name in registered or name in heard]
    return [_view(tenant_id, name, seen, now, timeouts) for name in known]


async def _states(connection: Connection, wanted: Wanted, now: datetime, timeouts: Timeouts) -> dict[str, State]:
    """Of every device of the tenant: a name and four times each, so ten thousand of them are a small answer."""
    names = await register.names(
        connection, tenant_id=wanted.tenant_id, part_of_name=wanted.part_of_name, after=wanted.after
    )
    clocks = {row[0]: Clocks(*row[1:]) for row in await store.clocks(connection, wanted.tenant_id)}
    return {
        name: state_of(clocks.get(name), is_revoked=is_revoked, now=now, online_timeout=timeouts.online)
        for name, is_revoked in names.items()
    }


class _Seen(msgspec.Struct, frozen=True):
    """What the tables say of some devices."""

    registered: Mapping[str, register.Registration]
    heard: Mapping[str, Mapping[str, Any]]
    sensors: Sequence[Mapping[str, Any]]
    streams: Sequence[StreamRow]
    time_qualities: Mapping[str, int | None]


def _view(tenant_id: str, device_id: str, seen: _Seen, now: datetime, timeouts: Timeouts) -> DeviceView:
    registered, heard = seen.registered.get(device_id), seen.heard.get(device_id, {})
    status = heard.get("status_json") and msgspec.json.decode(heard["status_json"], type=DeviceStatus)
    clocks = Clocks(*(heard[name] for name in Clocks.__struct_fields__)) if heard else None
    is_revoked = registered is not None and registered.revoked_at is not None
    state = state_of(clocks, is_revoked=is_revoked, now=now, online_timeout=timeouts.online)
    return DeviceView(
        device_id=device_id,
        tenant_id=tenant_id,
        farm_id=registered.farm_id if registered else heard["farm_id"],
        barn_id=registered.barn_id if registered else heard["barn_id"],
        kind=registered.kind if registered else None,
        state=state,
        online=clocks is not None and is_online(clocks, now, timeouts.online),
        fresh=is_fresh(heard.get("last_sample_ts"), now, timeouts.freshness),
        created_at=registered.created_at if registered else None,
        credential_at=registered.credential_at if registered else None,
        revoked_at=registered.revoked_at if registered else None,
        last_rx_at=heard.get("last_rx_at"),
        last_sample_ts=heard.get("last_sample_ts"),
        reported_state=heard.get("reported_state"),
        reported_at=heard.get("reported_at"),
        time_quality=seen.time_qualities.get(device_id),
        marks=_marks(status, [stream for stream in seen.streams if stream.device_id == device_id]),
        sensors=[_sensor(row, status, now, timeouts) for row in seen.sensors if row["device_id"] == device_id],
        status=status,
        status_at=heard.get("status_at"),
    )


def _sensor(row: Mapping[str, Any], status: DeviceStatus | None, now: datetime, timeouts: Timeouts) -> SensorView:
    return SensorView(
        metric_type=row["metric_type"],
        sensor=row["sensor"],
        fresh=is_fresh(row["last_sample_ts"], now, timeouts.freshness),
        faulty=status is not None and row["sensor"] in status.faulty_sensors,
        last_rx_at=row["last_rx_at"],
        last_sample_ts=row["last_sample_ts"],
    )


def _marks(status: DeviceStatus | None, streams: Sequence[StreamRow]) -> Marks | None:
    """Of the stream that the device says it is writing; of the one heard last when it says nothing."""
    named = [stream for stream in streams if status is not None and stream.stream_id == status.stream_id]
    present = max(named or streams, key=lambda stream: stream.last_seen_at, default=None)
    if present is None:
        return None
    return Marks(
        stream_id=present.stream_id,
        captured_seq=status.last_captured_seq if status is not None and named else None,
        edge_contiguous_seq=present.contiguous_seq,
        edge_highest_seq=present.highest_seq,
        edge_missing=present.missing,
        lost=present.lost,
    )
