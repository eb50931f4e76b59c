"""A device as a person wants to see it: is it there, is its data new, and how far is it safe."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from farmiq.contracts.status import DeviceStatus
from farmiq.edge.telemetry_timeseries import store
from farmiq.edge.telemetry_timeseries.liveness import Clocks, is_fresh, is_online
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
    """`status` holds the figures that the device sent last, at `status_at`: spool, runway, replay, faults."""

    device_id: str
    tenant_id: str
    farm_id: str
    barn_id: str
    online: bool
    fresh: bool
    last_rx_at: datetime | None
    last_sample_ts: datetime | None
    reported_state: str | None
    reported_at: datetime | None
    marks: Marks | None
    sensors: list[SensorView]
    status: DeviceStatus | None
    status_at: datetime | None


async def list_devices(
    connection: Connection, *, tenant_id: str, after: str, limit: int, now: datetime, timeouts: Timeouts
) -> list[DeviceView]:
    """Those that were ever heard, in the order of their ids."""
    rows = await store.devices(connection, tenant_id, after, limit)
    return await _views(connection, tenant_id, [dict(row) for row in rows], now, timeouts)


async def find_device(
    connection: Connection, *, tenant_id: str, device_id: str, now: datetime, timeouts: Timeouts
) -> DeviceView | None:
    rows = await store.device(connection, tenant_id, device_id)
    found = await _views(connection, tenant_id, [dict(row) for row in rows], now, timeouts)
    return found[0] if found else None


async def _views(
    connection: Connection, tenant_id: str, rows: Sequence[dict[str, Any]], now: datetime, timeouts: Timeouts
) -> list[DeviceView]:
    device_ids = [row["device_id"] for row in rows]
    if not device_ids:
        return []
    sensors = await store.sensors(connection, tenant_id, device_ids)
    streams = await streams_of(connection, tenant_id=tenant_id, device_ids=device_ids)
    return [
        _view(
            row,
            [dict(sensor) for sensor in sensors if sensor["device_id"] == row["device_id"]],
            [stream for stream in streams if stream.device_id == row["device_id"]],
            now,
            timeouts,
        )
        for row in rows
    ]


def _view(
    row: Mapping[str, Any],
    sensors: Sequence[Mapping[str, Any]],
    streams: Sequence[StreamRow],
    now: datetime,
    timeouts: Timeouts,
) -> DeviceView:
    status = None if row["status_json"] is None else msgspec.json.decode(row["status_json"], type=DeviceStatus)
    clocks = Clocks(row["last_rx_at"], row["said_ts"], row["gone_at"], row["gone_ts"])
    return DeviceView(
        device_id=row["device_id"],
        tenant_id=row["tenant_id"],
        farm_id=row["farm_id"],
        barn_id=row["barn_id"],
        online=is_online(clocks, now, timeouts.online),
        fresh=is_fresh(row["last_sample_ts"], now, timeouts.freshness),
        last_rx_at=row["last_rx_at"],
        last_sample_ts=row["last_sample_ts"],
        reported_state=row["reported_state"],
        reported_at=row["reported_at"],
        marks=_marks(status, streams),
        sensors=[_sensor(sensor, status, now, timeouts) for sensor in sensors],
        status=status,
        status_at=row["status_at"],
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
