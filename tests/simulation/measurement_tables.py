"""The statements of `timeseries/store.py`, which edge and cloud share.

`streams`: id -> Stream · `raw`: (stream, sequence) -> value · `agg`: bucket -> count · `losses`: (tenant, event) -> Loss
`content`: (stream, block) -> BlockContent
"""

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Any, NamedTuple
from uuid import UUID

from farmiq.timeseries import store
from farmiq.timeseries.content import BlockContent
from farmiq.timeseries.samples import COLUMNS
from simulation.database import Database, Row, Statement, Tables

_COUNT = Struct(">h")
_LENGTH = Struct(">i")
_BIGINT = Struct(">q")
_DOUBLE = Struct(">d")
_HEAD_BYTES = 19
_STREAM, _SEQ, _VALUE = (COLUMNS.index(name) for name in ("stream_id", "seq", "metric_value"))


class Span(NamedTuple):
    lower: int
    upper: int


class Stream(NamedTuple):
    tenant_id: str
    farm_id: str
    barn_id: str
    device_id: str
    received: tuple[Span, ...] = ()
    lost: tuple[Span, ...] = ()


class DeclaredLoss(NamedTuple):
    device_id: str
    stream_id: UUID
    first_seq: int
    last_seq: int
    reason: str


def tables() -> Tables:
    return {"streams": {}, "raw": {}, "agg": {}, "losses": {}, "content": {}}


def _lock(database: Database, tenant_ids: Sequence[str], stream_ids: Sequence[UUID]) -> list[Row]:
    """One tenant lives in the simulation: streams are named by their id."""
    known = database.tables["streams"]
    wanted = sorted(zip(stream_ids, tenant_ids, strict=True))
    return [Row(stream_id=one, **known[one]._asdict()) for one, _ in wanted if one in known]


def _lock_known(database: Database, tenant_ids: Sequence[str], stream_ids: Sequence[UUID]) -> list[Row]:
    rows = _lock(database, tenant_ids, stream_ids)
    return rows if len(rows) == len(stream_ids) else []


def _create(database: Database, *columns: Sequence[Any]) -> int:
    for tenant_id, stream_id, *place in zip(*columns, strict=True):
        database.tables["streams"].setdefault(stream_id, Stream(tenant_id, *place))
    return len(columns[0])


def _save(database: Database, *columns: Sequence[Any]) -> int:
    contents = database.tables["content"]
    for _tenant_id, stream_id, block, samples, digest in zip(*columns[6:], strict=True):
        known = contents.get((stream_id, block), BlockContent(0, 0))
        contents[stream_id, block] = known.added(BlockContent(samples, digest))
    for _tenant_id, stream_id, received, lost, _boot_id, _channels in zip(*columns[:6], strict=True):
        stream = database.tables["streams"][stream_id]
        saved = stream._replace(received=_spans(received), lost=_spans(lost))
        database.tables["streams"][stream_id] = saved
    return len(columns[0])


def _loss(database: Database, event_id: UUID, tenant_id: str, _farm: str, _barn: str, *rest: Any) -> int:
    device_id, stream_id, first_seq, last_seq, _count, _first_ts, _last_ts, reason, _dropped_at = rest
    loss = DeclaredLoss(device_id, stream_id, first_seq, last_seq, reason)
    database.tables["losses"].setdefault((tenant_id, event_id), loss)
    return 1


def _merge(database: Database, *columns: Sequence[Any]) -> int:
    buckets = database.tables["agg"]
    for row in zip(*columns, strict=True):
        key, count = row[:7], row[9]
        buckets[key] = buckets.get(key, 0) + count
    return len(columns[0])


def _copy_raw(database: Database, data: bytes, _columns: Sequence[str]) -> int:
    raw, at, rows = database.tables["raw"], _HEAD_BYTES, 0
    while (count := _COUNT.unpack_from(data, at)[0]) != -1:
        at += _COUNT.size
        fields = []
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(data, at)
            at += _LENGTH.size
            fields.append(data[at : at + max(0, length)])
            at += max(0, length)
        key = (UUID(bytes=fields[_STREAM]), _BIGINT.unpack(fields[_SEQ])[0])
        if key in raw:
            database.broken.append(f"{database.name}: sequence {key[1]} of {key[0]} was stored twice")
        raw[key] = _DOUBLE.unpack(fields[_VALUE])[0]
        rows += 1
    return rows


def _spans(multirange: str) -> tuple[Span, ...]:
    texts = multirange.strip("{}").replace("),[", ")|[").split("|")
    return tuple(Span(*map(int, text.strip("[)").split(","))) for text in texts if text)


STATEMENTS: Mapping[str, Statement] = {
    store._LOCK: _lock,
    store._READ: _lock,
    store._LOCK_KNOWN: _lock_known,
    store._LOCK_OPENING: lambda _database: 0,  # transactions run one after the other
    store._BEYOND_LIMIT: lambda _database, *_columns: [],  # no node of the simulation opens that many streams
    store._CREATE: _create,
    store._SAVE: _save,
    store._LOSS: _loss,
    store._MERGE: _merge,
    "COPY telemetry_raw": _copy_raw,
}
