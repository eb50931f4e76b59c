"""The statements of `outbox/` and of `sync_state`.

`outbox`: id -> OutboxRow · `sync_state`: tenant -> SyncState
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from farmiq.edge.sync_forwarder import store as sync_store
from farmiq.edge.sync_forwarder.pictures import store as pictures
from farmiq.kit.due_times import AHEAD_SECONDS
from farmiq.outbox import backlog, claim, fencing, recovery, redrive, renew, resend, retire, settle, suspects, verdicts
from farmiq.outbox.event import ClaimedEvent
from simulation.database import Database, Row, Statement, Tables

append = import_module("farmiq.outbox.append")  # the package gives its name to the function

_LATEST = datetime.max.replace(tzinfo=UTC)
_IN_FLIGHT = ("claimed", "sending")


class OutboxRow(NamedTuple):
    id: UUID
    tenant_id: str
    farm_id: str | None
    barn_id: str | None
    device_id: str | None
    session_id: UUID | None
    event_type: str
    occurred_at: datetime | None
    trace_id: str | None
    priority: int
    payload: msgspec.Raw
    size_bytes: int
    created_at: datetime
    next_attempt_at: datetime
    status: str = "pending"
    parked: bool = False
    claim_token: int = 0
    attempt_count: int = 0
    claimed_by: str | None = None
    lease_expires_at: datetime | None = None
    code: str | None = None
    acked_answer: int | None = None


class SyncState(NamedTuple):
    consecutive_failures: int = 0
    paused_until: datetime | None = None
    epoch: UUID | None = None
    answer: int = 0
    heard_answer: int = 0
    heard_token: int | None = None
    heard_at: datetime | None = None
    resend_from: int | None = None
    resend_to: int | None = None
    resend_after: UUID | None = None


def tables() -> Tables:
    return {"outbox": {}, "sync_state": {}}


# Into it


def _insert(database: Database, *columns: Sequence[Any]) -> int:
    rows = list(zip(*columns, strict=True))
    return sum(_add(database, row) for row in rows)


def _copy(database: Database, records: Sequence[Sequence[Any]], _columns: Sequence[str]) -> int:
    """Only `append` copies, and after a conflict it inserts: the result is the same."""
    return sum(_add(database, row) for row in records)


def _add(database: Database, row: Sequence[Any]) -> bool:
    if row[0] in database.tables["outbox"]:
        return False
    database.tables["outbox"][row[0]] = OutboxRow(*row, created_at=database.now, next_attempt_at=database.now)  # type: ignore[misc]  # in the order of its columns
    return True


def _known(database: Database, *columns: Sequence[Any]) -> list[Row]:
    known = database.tables["outbox"]
    return [
        Row(**known[event_id]._asdict(), place=place, payload_json=known[event_id].payload, given_payload=payload)
        for place, (event_id, _, payload) in enumerate(zip(*columns, strict=True), 1)
        if event_id in known
    ]


# Out of it


def _claim(
    database: Database, tenant_id: str, instance_id: str, lease_seconds: float, limit: int, _is_alone: bool, *floor: Any
) -> list[Row]:
    now = database.now
    waiting = [
        row
        for row in database.tables["outbox"].values()
        if row.status == "pending"
        and not row.parked
        and row.tenant_id == tenant_id
        and _is_due(row.next_attempt_at, now)
    ]
    if floor:
        waiting = [
            row for row in waiting if row.priority == floor[0] and row.occurred_at and row.occurred_at >= floor[1]
        ]
    waiting.sort(key=lambda row: (-row.priority, row.occurred_at or _LATEST, row.id))
    claimed = [
        row._replace(
            status="claimed",
            claimed_by=instance_id,
            claim_token=row.claim_token + 1,
            lease_expires_at=now + timedelta(seconds=lease_seconds),
        )
        for row in waiting[:limit]
    ]
    database.tables["outbox"].update({row.id: row for row in claimed})
    return [_claimed(row) for row in claimed]


def _claimed(row: OutboxRow) -> Row:
    told = {
        **row._asdict(),
        "occurred_at": row.occurred_at or row.created_at,
        "is_time_known": row.occurred_at is not None,
        "is_suspect": row.code == verdicts.LEASE_EXPIRED,
    }
    return Row((name, told[name]) for name in ClaimedEvent.__struct_fields__)


def _sending(database: Database, ids: Sequence[UUID], tenants: Sequence[str], tokens: Sequence[int]) -> int:
    held = _held(database, ids, tenants, tokens)
    for row in held:
        _write(database, row._replace(status="sending"))
    return len(held)


def _tenants(database: Database) -> list[Row]:
    waiting = {
        row.tenant_id for row in database.tables["outbox"].values() if row.status == "pending" and not row.parked
    }
    return [Row(tenant_id=tenant_id) for tenant_id in sorted(waiting)]


def _held(database: Database, ids: Sequence[UUID], tenants: Sequence[str], tokens: Sequence[int]) -> list[OutboxRow]:
    """`STILL_OURS`: the rows that nobody has taken back."""
    known = database.tables["outbox"]
    pairs = [(known.get(event_id), fence) for event_id, *fence in zip(ids, tenants, tokens, strict=True)]
    return [row for row, fence in pairs if row is not None and _fence(row) == fence and row.status in _IN_FLIGHT]


def _fence(row: OutboxRow) -> list[Any]:
    return [row.tenant_id, row.claim_token]


def _write(database: Database, row: OutboxRow) -> None:
    if database.tables["outbox"][row.id].status == "acked" != row.status:
        database.broken.append(f"event {row.id} was acked, and was made {row.status}")
    database.tables["outbox"][row.id] = row


def _ours(database: Database, ids: Sequence[UUID], tenants: Sequence[str], tokens: Sequence[int]) -> list[Row]:
    return [Row(id=row.id) for row in _held(database, ids, tenants, tokens)]


def _ack(
    database: Database, ids: Sequence[UUID], tenants: Sequence[str], tokens: Sequence[int], answer: int | None
) -> int:
    held = _held(database, ids, tenants, tokens)
    for row in held:
        _write(database, row._replace(status="acked", lease_expires_at=None, acked_answer=answer))
    return len(held)


def _acked(database: Database, ids: Sequence[UUID], tenants: Sequence[str], tokens: Sequence[int]) -> list[Row]:
    known = database.tables["outbox"]
    pairs = [(known.get(event_id), fence) for event_id, *fence in zip(ids, tenants, tokens, strict=True)]
    return [Row(id=row.id) for row, fence in pairs if row and _fence(row) == fence and row.status == "acked"]


def _return(
    database: Database, ids: Sequence[UUID], tenants: Sequence[str], tokens: Sequence[int], *columns: Any
) -> list[Row]:
    *given, _reason = columns
    outcomes = dict(zip(ids, zip(*given, strict=True), strict=True))
    held = _held(database, ids, tenants, tokens)
    for row in held:
        status, attempts, delay_seconds, code, _message = outcomes[row.id]
        _write(
            database,
            row._replace(
                status=status,
                parked=status == "pending" and delay_seconds > 0,
                attempt_count=attempts,
                next_attempt_at=database.now + timedelta(seconds=delay_seconds),
                claimed_by=None,
                lease_expires_at=None,
                code=code or row.code,
            ),
        )
    return [Row(id=row.id) for row in held]


def _try_once_more(database: Database, tenant_id: str, code: str, attempts_max: int, limit: int) -> int:
    dead = [
        row
        for row in database.tables["outbox"].values()
        if row.status == "dlq" and (row.tenant_id, row.code) == (tenant_id, code) and row.attempt_count <= attempts_max
    ][:limit]
    for row in dead:
        _write(database, row._replace(status="pending", parked=False, next_attempt_at=database.now))
    return len(dead)


def _renew(
    database: Database, ids: Sequence[UUID], tenants: Sequence[str], tokens: Sequence[int], lease_seconds: float
) -> list[Row]:
    held = _held(database, ids, tenants, tokens)
    until = database.now + timedelta(seconds=lease_seconds)
    database.tables["outbox"].update({row.id: row._replace(lease_expires_at=until) for row in held})
    return [Row(id=row.id) for row in held]


def _promote(database: Database, limit: int) -> int:
    rows = database.tables["outbox"].values()
    due = [row for row in rows if row.status == "pending" and row.parked and _is_due(row.next_attempt_at, database.now)]
    due = sorted(due, key=lambda row: row.next_attempt_at)[:limit]
    database.tables["outbox"].update({row.id: row._replace(parked=False) for row in due})
    return len(due)


def _expired(database: Database, limit: int) -> list[Row]:
    rows = [row for row in database.tables["outbox"].values() if row.status in _IN_FLIGHT]
    over = [row for row in rows if row.lease_expires_at is None or _is_due(row.lease_expires_at, database.now)]
    names = ("id", "tenant_id", "claim_token", "attempt_count", "claimed_by")
    return [
        Row(((name, getattr(row, name)) for name in names), was_alone=row.status == "sending") for row in over[:limit]
    ]


def _due(database: Database) -> list[Row]:
    rows = database.tables["outbox"].values()
    moments = [row.next_attempt_at for row in rows if row.status == "pending" and row.parked]
    moments += [row.lease_expires_at or database.now for row in rows if row.status in _IN_FLIGHT]
    return [Row(due=(min(moments) - database.now).total_seconds() if moments else None)]


def _is_due(moment: datetime, now: datetime) -> bool:
    return moment <= now or moment > now + timedelta(seconds=AHEAD_SECONDS)


# Whether a tenant may send


def _breaker(database: Database, state: SyncState) -> dict[str, Any]:
    is_paused = state.paused_until is not None and not _is_due(state.paused_until, database.now)
    return {"consecutive_failures": state.consecutive_failures, "is_paused": is_paused}


def _breakers(database: Database, tenant_ids: Sequence[str]) -> list[Row]:
    known = database.tables["sync_state"]
    return [Row(tenant_id=one, **_breaker(database, known[one])) for one in tenant_ids if one in known]


def _lock_breaker(database: Database, tenant_id: str) -> list[Row]:
    return [Row(_breaker(database, database.tables["sync_state"].setdefault(tenant_id, SyncState())))]


def _take_probe(database: Database, tenant_id: str, seconds: float, is_forced: bool) -> int:
    state = database.tables["sync_state"].get(tenant_id)
    if state is None or not (is_forced or state.paused_until is None or _is_due(state.paused_until, database.now)):
        return 0
    until = database.now + timedelta(seconds=seconds)
    database.tables["sync_state"][tenant_id] = state._replace(paused_until=until)
    return 1


def _answered(database: Database, tenant_id: str, *_figures: Any) -> list[Row]:
    state = database.tables["sync_state"].get(tenant_id, SyncState())
    state = state._replace(consecutive_failures=0, paused_until=None)
    database.tables["sync_state"][tenant_id] = state
    return [Row(epoch=state.epoch, answer=state.heard_answer, token=state.heard_token)]


def _heard(database: Database, tenant_id: str, answer: int, heard: int, token: int) -> int:
    greatest = max(answer, database.tables["sync_state"][tenant_id].answer)
    _change(database, tenant_id, answer=greatest, heard_answer=heard, heard_token=token, heard_at=database.now)
    return 1


def _known_epoch(database: Database, tenant_id: str) -> list[Row]:
    state = database.tables["sync_state"].get(tenant_id)
    return [] if state is None else [Row(epoch=state.epoch, answer=state.heard_answer, token=state.heard_token)]


def _begin_epoch(
    database: Database, tenant_id: str, epoch: UUID, _began_at: datetime, answer: int, after: int | None, is_due: bool,
    token: int,
) -> int:  # fmt: skip
    state = database.tables["sync_state"][tenant_id]
    if state.epoch is not None or state.resend_to is not None or is_due:
        before = after or 0
        state = state._replace(
            resend_from=before if state.resend_from is None else min(before, state.resend_from),
            resend_to=max(state.answer, state.resend_to or 0), resend_after=UUID(int=0),
        )  # fmt: skip
    database.tables["sync_state"][tenant_id] = state._replace(
        epoch=epoch, answer=max(state.answer, answer), heard_answer=answer, heard_token=token, heard_at=database.now
    )
    return 1


def _lock_resending(database: Database) -> list[Row]:
    return [
        Row(tenant_id=key, answers_from=row.resend_from, answers_to=row.resend_to, after=row.resend_after)
        for key, row in database.tables["sync_state"].items()
        if row.resend_to is not None
    ][:1]


def _note_resent(database: Database, tenant_id: str, after: UUID) -> int:
    _change(database, tenant_id, resend_after=after)
    return 1


def _end_resending(database: Database, tenant_id: str) -> int:
    _change(database, tenant_id, resend_from=None, resend_to=None, resend_after=None)
    return 1


def _change(database: Database, tenant_id: str, **changes: Any) -> None:
    state = database.tables["sync_state"]
    state[tenant_id] = state[tenant_id]._replace(**changes)


def _resend(
    database: Database, after: UUID, limit: int, tenant_id: str, answers_from: int, answers_to: int, priority: int
) -> list[Row]:
    rows = database.tables["outbox"]
    page = sorted(event_id for event_id in rows if event_id > after)[:limit]
    gone = [
        row
        for row in (rows[event_id] for event_id in page)
        if (row.tenant_id, row.status) == (tenant_id, "acked")
        and (row.acked_answer is None or answers_from < row.acked_answer <= answers_to)
    ]
    for row in gone:
        rows[row.id] = row._replace(
            status="pending", parked=False, attempt_count=0, claimed_by=None, code=None, next_attempt_at=database.now,
            priority=min(row.priority, priority), acked_answer=None,
        )  # fmt: skip
    return [Row(last_id=page[-1] if page else None, resent=len(gone))]


def _unheard(database: Database, seconds: float) -> list[Row]:
    return [
        Row(tenant_id=key)
        for key, row in database.tables["sync_state"].items()
        if row.epoch is not None and row.consecutive_failures == 0
        and (row.heard_at is None or abs((database.now - row.heard_at).total_seconds()) >= seconds)
    ]  # fmt: skip


def _no_pictures(_database: Database, *_given: Any) -> int:
    return 0


def _nothing_retired(_database: Database, *_given: Any) -> list[Row]:
    """Nothing leaves this outbox, so nothing has to be made anew."""
    return []


def _pause(
    database: Database, tenant_id: str, failures: int, seconds: float, _batch: str, _code: str, is_probe: bool
) -> int:
    until, state = database.now + timedelta(seconds=seconds), database.tables["sync_state"][tenant_id]
    if not is_probe and state.paused_until is not None and not _is_due(state.paused_until, database.now):
        until = max(until, state.paused_until)
    _change(database, tenant_id, consecutive_failures=failures, paused_until=until)
    return 1


def _next_probe(database: Database) -> list[Row]:
    ends = [state.paused_until for state in database.tables["sync_state"].values() if state.paused_until is not None]
    later = [(end - database.now).total_seconds() for end in ends if not _is_due(end, database.now)]
    return [Row(seconds=min(later, default=None))]


STATEMENTS: Mapping[str, Statement] = {
    append._INSERT: _insert,
    append._KNOWN: _known,
    "COPY sync_outbox": _copy,
    claim._CLAIM_ANY: _claim,
    claim._CLAIM_FROM: _claim,
    claim._TENANTS: _tenants,
    fencing._OURS: _ours,
    suspects._SENDING: _sending,
    settle._ACK: _ack,
    settle._ACKED: _acked,
    settle._RETURN: _return,
    redrive._TRY_ONCE_MORE: _try_once_more,
    renew._RENEW: _renew,
    recovery._PROMOTE: _promote,
    recovery._EXPIRED: _expired,
    backlog._DUE: _due,
    sync_store._BREAKERS: _breakers,
    sync_store._TAKE_PROBE: _take_probe,
    sync_store._LOCK: _lock_breaker,
    sync_store._ANSWERED: _answered,
    sync_store._PAUSE: _pause,
    sync_store._NEXT_PROBE: _next_probe,
    sync_store._HEARD: _heard,
    sync_store._KNOWN: _known_epoch,
    sync_store._BEGIN_EPOCH: _begin_epoch,
    sync_store._LOCK_RESENDING: _lock_resending,
    sync_store._NOTE_RESENT: _note_resent,
    sync_store._END_RESENDING: _end_resending,
    sync_store._UNHEARD: _unheard,
    resend._RESEND: _resend,
    retire._RETIRED: _nothing_retired,
    sync_store._LOCK_REBUILDING: _nothing_retired,
    pictures._SEND_AGAIN_AFTER: _no_pictures,
}
