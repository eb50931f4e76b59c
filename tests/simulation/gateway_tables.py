"""The statements of `edge/ingress_gateway/store.py`, and of the edge's liveness, which has no part in the promise.

`identity`: "epoch" -> UUID · `devices`: device -> place · `dedupe`: (tenant, event) -> (device, fingerprint)
`rejected`: number -> code and detail · `boots`: (tenant, stream, boot) -> first and last sequence, last time
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from farmiq.edge import alerts, own_events
from farmiq.edge.ingress_gateway import store
from farmiq.edge.telemetry_timeseries import boots
from farmiq.edge.telemetry_timeseries import store as liveness
from simulation.database import Database, Row, Statement, Tables


def tables(epoch: UUID, devices: Mapping[str, tuple[str, str, str, str]]) -> Tables:
    return {"identity": {"epoch": epoch}, "devices": dict(devices), "dedupe": {}, "rejected": {}, "boots": {}}


def _door(database: Database, device_ids: Sequence[str]) -> list[Row]:
    epoch, known = database.tables["identity"]["epoch"], database.tables["devices"]
    places = [known[one] for one in device_ids if one in known and one not in database.unregistered] or [
        (None, None, None, None)
    ]
    names = ("tenant_id", "farm_id", "barn_id", "device_id")
    return [
        Row(epoch=epoch, commits=0, **dict(zip(names, place, strict=True)), station_id=place[3]) for place in places
    ]


def _naming(_database: Database) -> list[Row]:
    return [Row(id_secret=b"the same in every life", ids_keyed_since=None)]


def _see(database: Database, *given: Any) -> list[Row]:
    *columns, _at = given
    fresh = []
    for tenant_id, event_id, device_id, fingerprint in zip(*columns, strict=True):
        if (tenant_id, event_id) not in database.tables["dedupe"]:
            database.tables["dedupe"][tenant_id, event_id] = (device_id, fingerprint)
            fresh.append(Row(tenant_id=tenant_id, event_id=event_id))
    return fresh


def _seen_for(database: Database, *columns: Sequence[Any]) -> list[Row]:
    seen = database.tables["dedupe"]
    keys = {key: seen[key] for key in zip(*columns, strict=True) if key in seen}
    return [
        Row(tenant_id=tenant_id, event_id=event_id, device_id=device_id, content_hash=fingerprint)
        for (tenant_id, event_id), (device_id, fingerprint) in keys.items()
    ]


def _forget(database: Database, *columns: Sequence[Any]) -> int:
    for key in zip(*columns, strict=True):
        database.tables["dedupe"].pop(key, None)
    return len(columns[0])


def _reject(database: Database, *row: Any) -> int:
    kept = database.tables["rejected"]
    kept[len(kept)] = (row[2], row[3])
    return 1


def _kept_lately(_database: Database, *_given: Any) -> list[Row]:
    return []


def _no_alerts(_database: Database, _kind: str) -> list[Row]:
    return []


def _raise_alert(_database: Database, *_alert: Any) -> int:
    return 1


def _notify(database: Database, _channel: str) -> list[Row]:
    for wake in database.notified:
        wake()
    return []


def _hear(_database: Database, *_signs: Any) -> int:
    return 0


def _note_boots(database: Database, *columns: Sequence[Any]) -> int:
    known = database.tables["boots"]
    for tenant_id, stream_id, boot_id, first, last, last_t in zip(*columns, strict=True):
        key = (tenant_id, stream_id, boot_id)
        before = known.get(key, (first, 0, 0))
        known[key] = (min(first, before[0]), *max((last, last_t), before[1:]))
    return len(columns[0])


def _newest_boots(database: Database, tenant_ids: Sequence[str], stream_ids: Sequence[UUID], limit: int) -> list[Row]:
    names = ("tenant_id", "stream_id", "boot_id", "first_seq", "last_seq", "last_t")
    rows = []
    for wanted in zip(tenant_ids, stream_ids, strict=True):
        held = [(*key, *figures) for key, figures in database.tables["boots"].items() if key[:2] == wanted]
        newest = sorted(sorted(held, key=lambda row: -row[4])[:limit], key=lambda row: row[3])
        rows += [Row(zip(names, row, strict=True)) for row in newest]
    return rows


def _stored_boots(
    database: Database, tenant_ids: Sequence[str], stream_ids: Sequence[UUID], seqs: Sequence[int], *_ids: Any
) -> list[Row]:
    """The simulation keeps no times of samples: their boots speak for them, as they do when retention has taken them."""
    rows = []
    for number, (tenant_id, stream_id, seq) in enumerate(zip(tenant_ids, stream_ids, seqs, strict=True), 1):
        held = [
            key[2]
            for key, (first, last, _) in database.tables["boots"].items()
            if key[:2] == (tenant_id, stream_id) and first <= seq <= last
        ]
        rows.append(Row(number=number, device_at=None, metric_value=None, boot_id=held[0] if held else None))
    return rows


STATEMENTS: Mapping[str, Statement] = {
    store._DOOR: _door,
    own_events._NAMING: _naming,
    store._SEE: _see,
    store._SEEN_FOR: _seen_for,
    store._FORGET: _forget,
    store._REJECT: _reject,
    store._KEPT_LATELY: _kept_lately,
    alerts._OF_KIND: _no_alerts,
    alerts._RAISE: _raise_alert,
    liveness._HEAR: _hear,
    boots._NOTE: _note_boots,
    boots._NEWEST: _newest_boots,
    boots._STORED: _stored_boots,
    "SELECT pg_notify($1, '')": _notify,
}
