"""The statements of the cloud's two services. No edge sends aggregates here, so what `received.py` keeps of them is never there.

`dedupe`: (tenant, event) -> digest of the content · `owners`: (tenant, device) -> edge
"""

from collections.abc import Mapping, Sequence
from typing import Any

from farmiq.cloud import bus_users, drain
from farmiq.cloud.ingestion import ownership, store
from farmiq.cloud.telemetry_service import received, unsent
from simulation.database import Database, Row, Statement, Tables


def dedupe_tables() -> Tables:
    return {"dedupe": {}, "owners": {}}


def _add(database: Database, *columns: Sequence[Any]) -> list[Row]:
    given = {(tenant_id, event_id): digest for tenant_id, event_id, _edge, digest in sorted(zip(*columns, strict=True))}
    added = {key: digest for key, digest in given.items() if key not in database.tables["dedupe"]}
    database.tables["dedupe"].update(added)
    return [Row(tenant_id=tenant_id, event_id=event_id) for tenant_id, event_id in added]


def _content(database: Database, *columns: Sequence[Any]) -> list[Row]:
    known = database.tables["dedupe"]
    keys = [key for key in zip(*columns, strict=True) if key in known]
    return [Row(tenant_id=key[0], event_id=key[1], content_hash=known[key]) for key in keys]


def _forget(database: Database, *columns: Sequence[Any]) -> int:
    for key in zip(*columns, strict=True):
        database.tables["dedupe"].pop(key, None)
    return len(columns[0])


def _version(database: Database) -> list[Row]:
    return [Row(version=0, now=database.now)]


def _owners(database: Database, *columns: Sequence[Any]) -> list[Row]:
    known = database.tables["owners"]
    keys = [key for key in zip(*columns, strict=True) if key in known]
    return [Row(tenant_id=key[0], device_id=key[1], edge_cluster_id=known[key], former=None) for key in keys]


def _claim_devices(database: Database, *columns: Sequence[Any]) -> list[Row]:
    known = database.tables["owners"]
    given = {(tenant_id, device_id): edge for tenant_id, device_id, edge, _came_by in zip(*columns, strict=True)}
    added = {key: edge for key, edge in given.items() if key not in known}
    known.update(added)
    return [Row(tenant_id=tenant_id) for tenant_id, _ in added]


def _nothing(_database: Database, *_given: Any) -> list[Row]:
    return []


# Nobody drains this cloud, and nobody reads along.
DEDUPE_STATEMENTS: Mapping[str, Statement] = {
    store._ADD: _add,
    store._CONTENT: _content,
    store._FORGET: _forget,
    ownership._VERSION: _version,
    ownership._DEVICES: _owners,
    ownership._CLAIM_DEVICES: _claim_devices,
    drain._ENTER: _nothing,
    drain._IS_DRAINED: _nothing,
    bus_users._TENANTS: _nothing,
}
SERVICE_STATEMENTS: Mapping[str, Statement] = {
    received._LOCK_DEVICES: _nothing,
    received._AGGREGATING: _nothing,
    unsent._MARK: _nothing,
}
