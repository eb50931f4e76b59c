"""The statements of the cloud's two services. No edge sends aggregates here, so what `received.py` keeps of them is never there.

`dedupe`: (tenant, event) -> True
"""

from collections.abc import Mapping, Sequence
from typing import Any

from farmiq.cloud import bus_users, drain
from farmiq.cloud.ingestion import store
from farmiq.cloud.telemetry_service import received, unsent
from simulation.database import Database, Row, Statement, Tables


def dedupe_tables() -> Tables:
    return {"dedupe": {}}


def _add(database: Database, *columns: Sequence[Any]) -> list[Row]:
    added = [key for key in sorted(zip(*columns, strict=True)) if key not in database.tables["dedupe"]]
    database.tables["dedupe"].update(dict.fromkeys(added, True))
    return [Row(tenant_id=tenant_id, event_id=event_id) for tenant_id, event_id in added]


def _forget(database: Database, *columns: Sequence[Any]) -> int:
    for key in zip(*columns, strict=True):
        database.tables["dedupe"].pop(key, None)
    return len(columns[0])


def _nothing(_database: Database, *_given: Any) -> list[Row]:
    return []


# Nobody drains this cloud, and nobody reads along.
DEDUPE_STATEMENTS: Mapping[str, Statement] = {
    store._ADD: _add,
    store._FORGET: _forget,
    drain._ENTER: _nothing,
    drain._IS_DRAINED: _nothing,
    bus_users._TENANTS: _nothing,
}
SERVICE_STATEMENTS: Mapping[str, Statement] = {
    received._LOCK_DEVICES: _nothing,
    received._AGGREGATING: _nothing,
    unsent._MARK: _nothing,
}
