"""Which boot of a device each part of its stream comes from, and whether a batch says something else than what is stored.

A device whose disk was set back, or one of two with a copied identity, sends other samples under numbers that are stored already.
Taken for repetitions they would be gone without a trace. The last number that a batch shares with what is stored decides: two
histories of one stream part once, and have nothing in common behind that.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from farmiq.contracts.ack import BootHeld
from farmiq.contracts.timestamps import to_us
from farmiq.kit.ids import first_sample_id, sample_id
from farmiq.kit.postgres import Connection
from farmiq.timeseries.admission import Locked
from farmiq.timeseries.coverage import Span, shared
from farmiq.timeseries.samples import StreamBatch
from farmiq.timeseries.stream import StreamKey

BOOTS_SHOWN: Final = 8
"""In one acknowledgement, the newest. A device that was set back by more boots sends some of them again."""

_NOTE: Final = """
    INSERT INTO stream_boots AS known (tenant_id, stream_id, boot_id, first_seq, last_seq, last_t)
    SELECT * FROM unnest($1::text[], $2::uuid[], $3::uuid[], $4::bigint[], $5::bigint[], $6::bigint[])
    ON CONFLICT (tenant_id, stream_id, boot_id) DO UPDATE
       SET first_seq = least(known.first_seq, excluded.first_seq), last_seq = greatest(known.last_seq, excluded.last_seq),
           last_t = CASE WHEN excluded.last_seq > known.last_seq THEN excluded.last_t ELSE known.last_t END
"""
_NEWEST: Final = """
    SELECT newest.tenant_id, newest.stream_id, newest.boot_id, newest.first_seq, newest.last_seq, newest.last_t
      FROM unnest($1::text[], $2::uuid[]) AS wanted (tenant_id, stream_id)
     CROSS JOIN LATERAL (
       SELECT * FROM stream_boots AS known
        WHERE known.tenant_id = wanted.tenant_id AND known.stream_id = wanted.stream_id
        ORDER BY known.last_seq DESC LIMIT $3) AS newest
     ORDER BY newest.tenant_id, newest.stream_id, newest.first_seq
"""
# Retention may have taken a sample: then its boot speaks for it. A sample of 0.1.0 has an id of another kind.
_STORED: Final = """
    SELECT wanted.number, raw.device_at, raw.metric_value, boot.boot_id
      FROM unnest($1::text[], $2::uuid[], $3::bigint[], $4::uuid[], $5::uuid[]) WITH ORDINALITY
           AS wanted (tenant_id, stream_id, seq, id, first_id, number)
      LEFT JOIN LATERAL (
        SELECT coalesce(device_occurred_at, occurred_at) AS device_at, metric_value FROM telemetry_raw
         WHERE tenant_id = wanted.tenant_id AND id IN (wanted.id, wanted.first_id)
           AND stream_id = wanted.stream_id AND seq = wanted.seq LIMIT 1) AS raw ON true
      LEFT JOIN LATERAL (
        SELECT boot_id FROM stream_boots
         WHERE tenant_id = wanted.tenant_id AND stream_id = wanted.stream_id AND wanted.seq BETWEEN first_seq AND last_seq
         LIMIT 1) AS boot ON true
"""


async def contradicting(connection: Connection, batches: Sequence[StreamBatch], locked: Locked) -> set[int]:
    """Places of batches that are other samples than those stored under their numbers, or in a batch before them. Only of the
    device whose stream it is: another one learns nothing of it."""
    own = [(place, item) for place, item in enumerate(batches) if locked[item.key].origin.is_same_device(item.origin)]
    compared = [
        (place, overlap[-1][1] - 1)
        for place, item in own
        if (overlap := shared(locked[item.key].received, [item.span]))
    ]
    found = await _other_than_stored(connection, batches, compared) if compared else set()
    before: dict[StreamKey, list[StreamBatch]] = defaultdict(list)
    for place, item in own:
        if place in found or any(_contradicts(item, earlier) for earlier in before[item.key]):
            found.add(place)
        else:
            before[item.key].append(item)
    return found


async def note(connection: Connection, stored: Iterable[tuple[StreamBatch, Sequence[Span]]]) -> None:
    """What was stored of each batch, in the transaction that stores it."""
    rows: dict[tuple[str, UUID, UUID], tuple[int, int, int]] = {}
    for item, spans in stored:
        if spans:
            batch = item.batch
            key = (*item.key, batch.boot_id)
            first, last = spans[0][0], spans[-1][1] - 1
            known = rows.get(key, (first, 0, 0))
            newest = max((last, batch.t[last - batch.seq0]), known[1:])
            rows[key] = (min(first, known[0]), *newest)
    if rows:
        ordered = sorted(rows.items())
        keys, figures = zip(*ordered, strict=True)
        await connection.execute(_NOTE, *map(list, zip(*keys, strict=True)), *map(list, zip(*figures, strict=True)))


async def newest(connection: Connection, keys: Sequence[StreamKey]) -> dict[StreamKey, list[BootHeld]]:
    if not keys:
        return {}
    found: dict[StreamKey, list[BootHeld]] = defaultdict(list)
    tenant_ids, stream_ids = map(list, zip(*keys, strict=True))
    for row in await connection.fetch(_NEWEST, tenant_ids, stream_ids, BOOTS_SHOWN):
        held = BootHeld(row["boot_id"], row["first_seq"], row["last_seq"], row["last_t"])
        found[row["tenant_id"], row["stream_id"]].append(held)
    return dict(found)


async def _other_than_stored(
    connection: Connection, batches: Sequence[StreamBatch], compared: Sequence[tuple[int, int]]
) -> set[int]:
    keys = [batches[place].key for place, _ in compared]
    rows = await connection.fetch(
        _STORED,
        [tenant_id for tenant_id, _ in keys],
        [stream_id for _, stream_id in keys],
        [seq for _, seq in compared],
        [sample_id(*key, seq) for key, (_, seq) in zip(keys, compared, strict=True)],
        [first_sample_id(stream_id, seq) for (_, stream_id), (_, seq) in zip(keys, compared, strict=True)],
    )
    found = set()
    for row in rows:
        place, seq = compared[row["number"] - 1]
        batch = batches[place].batch
        if row["device_at"] is not None:
            is_same = _sample(batches[place], seq) == (to_us(row["device_at"]), row["metric_value"])
        else:
            is_same = row["boot_id"] in (None, batch.boot_id)
        if not is_same:
            found.add(place)
    return found


def _contradicts(item: StreamBatch, earlier: StreamBatch) -> bool:
    last = min(item.span[1], earlier.span[1]) - 1
    if last < max(item.span[0], earlier.span[0]):
        return False
    return _sample(item, last) != _sample(earlier, last)


def _sample(item: StreamBatch, seq: int) -> tuple[int, float]:
    at = seq - item.batch.seq0
    return item.batch.t[at], item.batch.v[at]
