"""The statements of the cloud's two services. No edge sends aggregates here, so what `received.py` keeps of them is never there.

`dedupe`: (tenant, event) -> Remembered · `owners`: (tenant, device) -> edge · `answers`: (tenant, edge) -> Answers ·
`marks`: (tenant, edge) -> what was answered when nothing was on the bus · `identity`: the epoch of an edge that is new
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from farmiq.cloud import bus_users, drain
from farmiq.cloud.ingestion import epochs, ownership, store
from farmiq.cloud.telemetry_service import received, unsent
from farmiq.contracts.sync import ANSWER_TOKENS_MAX
from simulation.database import Database, Row, Statement, Tables


class Answers(NamedTuple):
    answered: int
    epoch: UUID
    began_at: datetime
    epoch_answer: int | None = None
    resend_after: int | None = None
    tokens: tuple[int, ...] = ()


class Remembered(NamedTuple):
    content_hash: bytes
    edge: str
    after_answer: int | None


def dedupe_tables(epoch: UUID, now: datetime) -> Tables:
    return {"dedupe": {}, "owners": {}, "answers": {}, "marks": {}, "identity": {"epoch": epoch, "began_at": now}}


def mark(database: Database) -> None:
    """Only when nothing is on the bus: in the product a day is long enough for that."""
    committed = database.committed_tables()
    committed["marks"] = {key: row.answered for key, row in committed["answers"].items()}
    database.tables["marks"] = committed["marks"]


def restored(tables: Tables, epoch: UUID, now: datetime) -> Tables:
    """As `cloud/restore_epoch.py` leaves them."""
    answers = {}
    for key, row in tables["answers"].items():
        safe = _earlier(tables["marks"].get(key, 0), row.resend_after)
        answers[key] = Answers(row.answered, epoch, now, row.answered, safe)
    identity = {"epoch": epoch, "began_at": now, "is_restored": True}
    return {**tables, "answers": answers, "identity": identity}


def _add(database: Database, *given: Any) -> list[Row]:
    *columns, after_answer = given
    rows = {
        (tenant_id, event_id): Remembered(digest, edge, after_answer)
        for tenant_id, event_id, edge, digest in sorted(zip(*columns, strict=True))
    }
    added = {key: row for key, row in rows.items() if key not in database.tables["dedupe"]}
    database.tables["dedupe"].update(added)
    return [Row(tenant_id=tenant_id, event_id=event_id) for tenant_id, event_id in added]


def _known(database: Database, *columns: Sequence[Any]) -> list[Row]:
    known = database.tables["dedupe"]
    keys = [key for key in zip(*columns, strict=True) if key in known]
    return [
        Row(tenant_id=key[0], event_id=key[1], content_hash=known[key].content_hash,
            may_be_lost=_may_be_lost(database, key[0], known[key]))
        for key in keys
    ]  # fmt: skip


def _may_be_lost(database: Database, tenant_id: str, row: Remembered) -> bool:
    answers: Answers | None = database.tables["answers"].get((tenant_id, row.edge))
    if answers is None or answers.epoch_answer is None:
        return False
    return (-1 if row.after_answer is None else row.after_answer) < answers.epoch_answer


def _passed_on(database: Database, *columns: Sequence[Any]) -> int:
    known = database.tables["dedupe"]
    for key in zip(*columns, strict=True):
        if key in known:  # else the bus did not take it
            answered = database.tables["answers"][key[0], known[key].edge].answered
            known[key] = known[key]._replace(after_answer=answered)
    return len(columns[0])


def _forget(database: Database, *columns: Sequence[Any]) -> int:
    for key in zip(*columns, strict=True):
        database.tables["dedupe"].pop(key, None)
    return len(columns[0])


def _count(database: Database, *key: str) -> list[Row]:
    row: Answers | None = database.tables["answers"].get(key)
    return [] if row is None else [Row(epoch=row.epoch, answered=row.answered, tokens=row.tokens)]


def _know(database: Database, tenant_id: str, edge: str, heard: int) -> int:
    identity = database.tables["identity"]
    is_later = bool(heard) or "is_restored" in identity
    epoch = database.new_id() if heard else identity["epoch"]
    new = Answers(heard, epoch, identity["began_at"], heard if is_later else None, 0 if is_later else None)
    database.tables["answers"].setdefault((tenant_id, edge), new)
    return 1


def _went_back(database: Database, tenant_id: str, edge: str, heard_epoch: UUID, heard: int) -> int:
    tables, key = database.tables, (tenant_id, edge)
    row: Answers = tables["answers"][key]
    if row.epoch != heard_epoch:
        return 0
    safe, answered = _earlier(tables["marks"].get(key, 0), row.resend_after), max(heard, row.answered)
    tables["answers"][key] = Answers(answered, database.new_id(), database.now, answered, safe)
    return 1


def _answer(
    database: Database, tenant_id: str, edge: str, epoch: UUID, heard_epoch: UUID | None, heard: int, token: int
) -> list[Row]:
    row: Answers = database.tables["answers"][tenant_id, edge]
    if row.epoch != epoch:
        return []
    resend_after = None if row.epoch == heard_epoch else row.resend_after
    tokens = (*(row.tokens[1 - ANSWER_TOKENS_MAX :] if row.answered >= heard else ()), token)
    row = row._replace(answered=max(row.answered, heard) + 1, resend_after=resend_after, tokens=tokens)
    database.tables["answers"][tenant_id, edge] = row
    since = list(tokens[-1 - (row.answered - heard) :])
    said = Row(epoch=epoch, began_at=row.began_at, resend_since=None, answer=row.answered, tokens=since)
    return [Row(said, resend_after=resend_after)]


def _earlier(one: int, other: int | None) -> int:
    return one if other is None else min(one, other)


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
    store._KNOWN: _known,
    store._PASSED_ON: _passed_on,
    store._FORGET: _forget,
    epochs._COUNT: _count,
    epochs._KNOW: _know,
    epochs._WENT_BACK: _went_back,
    epochs._ANSWER: _answer,
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
