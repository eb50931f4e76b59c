"""The rows themselves, counted: whether what coverage says is here is really here, once.

Count and sum of the sequences of a stream cost one pass over its rows and almost never agree by accident. Only where they do not
agree, or where it is asked for, the rows are put in order and compared range by range.
"""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec

from farmiq.kit.postgres import Connection
from farmiq.timeseries.coverage import Span, count, missing, without

_COUNTED: Final = """
    SELECT device_id, stream_id, count(*) AS rows, coalesce(sum(seq), 0)::numeric::text AS seq_sum
      FROM telemetry_raw WHERE tenant_id = $1 AND device_id = ANY ($2::text[])
     GROUP BY device_id, stream_id
"""
_DEVICES_OF: Final = "SELECT stream_id, device_id FROM streams WHERE tenant_id = $1 AND device_id = ANY ($2::text[])"
# Runs of sequences: within one, the distance between a sequence and its place in the order stays the same. This sorts on disk
# where an aggregate of ranges would hold a stream in memory.
_RUNS: Final = """
    SELECT stream_id, min(seq) AS first_seq, max(seq) + 1 AS end_seq
      FROM (SELECT stream_id, seq, seq - row_number() OVER (PARTITION BY stream_id ORDER BY seq) AS run
              FROM (SELECT DISTINCT stream_id, seq FROM telemetry_raw JOIN streams USING (tenant_id, stream_id, device_id)
                     WHERE tenant_id = $1 AND device_id = ANY ($2::text[]) AND stream_id = ANY ($3::uuid[])) AS sequences
           ) AS placed
     GROUP BY stream_id, run
     ORDER BY stream_id, first_seq
"""


class StoredRows(msgspec.Struct, frozen=True):
    """`absent`: covered, and no row has it. `surplus`: a row has it, and it is not covered. `repeated`: rows beyond the first
    of a sequence."""

    rows: int
    absent: list[Span]
    surplus: list[Span]
    repeated: int


class CountedRows(msgspec.Struct, frozen=True):
    """`single` counts, by device, the rows that belong to no stream."""

    streams: dict[UUID, StoredRows]
    single: dict[str, int]


async def stored_rows(
    connection: Connection,
    *,
    tenant_id: str,
    device_ids: Sequence[str],
    received: Mapping[UUID, Sequence[Span]],
    is_exact: bool,
    timeout_seconds: float | None = None,
) -> CountedRows:
    """Of these devices, whose streams have `received`. A row of a stream under another device's name is none of its rows. Several
    statements: the caller holds one snapshot for all."""
    device_of = {
        row["stream_id"]: row["device_id"] for row in await connection.fetch(_DEVICES_OF, tenant_id, device_ids)
    }
    counted: dict[UUID, int] = {}
    single: dict[str, int] = {}
    doubtful: list[UUID] = []
    for row in await connection.fetch(_COUNTED, tenant_id, list(device_ids), timeout=timeout_seconds):
        if row["stream_id"] is None:
            single[row["device_id"]] = row["rows"]
            continue
        stream_id = row["stream_id"]
        if device_of.get(stream_id) not in (None, row["device_id"]):
            continue
        counted[stream_id] = counted.get(stream_id, 0) + row["rows"]
        if is_exact or (row["rows"], int(row["seq_sum"])) != expected_of(received.get(stream_id, ())):
            doubtful.append(stream_id)
    runs: dict[UUID, list[Span]] = {stream_id: [] for stream_id in doubtful}
    placed = (_RUNS, tenant_id, list(device_ids), doubtful)
    for row in await connection.fetch(*placed, timeout=timeout_seconds) if doubtful else ():
        runs[row["stream_id"]].append((row["first_seq"], row["end_seq"]))
    return CountedRows(
        {
            stream_id: compared(
                received.get(stream_id, ()),
                runs.get(stream_id) if stream_id in counted else [],
                counted.get(stream_id, 0),
            )
            for stream_id in {*received, *counted}
        },
        single,
    )


def expected_of(received: Sequence[Span]) -> tuple[int, int]:
    """How many rows, and what their sequences add up to."""
    return count(received), sum((end - first) * (first + end - 1) // 2 for first, end in received)


def compared(received: Sequence[Span], runs: Sequence[Span] | None, rows: int) -> StoredRows:
    """`runs` are the sequences that rows have; None: they are those that were received."""
    if runs is None:
        return StoredRows(rows, [], [], 0)
    absent = [gap for span in received for gap in missing(runs, span)]
    return StoredRows(rows, absent, without(runs, received), rows - count(runs))
