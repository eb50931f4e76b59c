"""What there was before the disaster and what there is after it. The judge reads the tables itself, and asks no service."""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from msgspec import Struct

from farmiq.backup.manifest import Tier
from farmiq.kit.postgres import Connection

# Only sequences that were captured before the disaster: those that come in meanwhile must not stand in for a missing one.
_STREAMS: Final = """
SELECT given.stream_id, sizes.uncovered, greatest(sizes.received - counts.distinct_rows, 0) AS not_stored,
       counts.rows, counts.rows - counts.distinct_rows AS rows_twice, sizes.lost
  FROM unnest($1::uuid[], $2::bigint[]) AS given (stream_id, captured)
  LEFT JOIN streams USING (stream_id)
 CROSS JOIN LATERAL (SELECT int8multirange(int8range(1, given.captured + 1)) AS wanted,
                            coalesce(streams.received, '{}') AS received, coalesce(streams.lost, '{}') AS lost) AS spans
 CROSS JOIN LATERAL (SELECT
    (SELECT coalesce(sum(upper(part) - lower(part)), 0)::bigint
       FROM unnest(spans.wanted - spans.received - spans.lost) AS part) AS uncovered,
    (SELECT coalesce(sum(upper(part) - lower(part)), 0)::bigint FROM unnest(spans.wanted * spans.received) AS part) AS received,
    (SELECT coalesce(sum(upper(part) - lower(part)), 0)::bigint
       FROM unnest(spans.wanted * (spans.lost - spans.received)) AS part) AS lost) AS sizes
 CROSS JOIN LATERAL (SELECT count(*) AS rows, count(DISTINCT seq) AS distinct_rows FROM telemetry_raw AS raw
                      WHERE raw.stream_id = given.stream_id AND raw.seq <= given.captured) AS counts
"""
_SESSIONS: Final = "SELECT id FROM weight_sessions"
_PICTURES: Final = "SELECT session_id, sha256 FROM media_objects WHERE state = 'stored' AND sha256 IS NOT NULL"


class StreamSum(Struct, frozen=True, kw_only=True):
    """Of what was captured: covered by nothing; covered, and in no row; in two rows; declared lost."""

    stream_id: UUID
    uncovered: int
    not_stored: int
    rows: int
    rows_twice: int
    lost: int


class TierSum(Struct, frozen=True, kw_only=True):
    """`pictures` are named by what they show: their checksum, and the session that they belong to."""

    tier: Tier
    streams: dict[UUID, StreamSum]
    sessions: set[UUID]
    pictures: list[tuple[UUID | None, str]]

    @property
    def samples(self) -> int:
        return sum(stream.rows for stream in self.streams.values())

    @property
    def lost(self) -> int:
        return sum(stream.lost for stream in self.streams.values())


class Ledger(Struct, frozen=True, kw_only=True):
    """What must be there again: captured sequences by stream, sessions, pictures."""

    captured: dict[UUID, int]
    sessions: set[UUID]
    pictures: set[tuple[UUID | None, str]]


class Missing(Struct, frozen=True, kw_only=True):
    """Of one tier. A picture that is there twice was sent again by a station whose edge had lost it: nothing is missing then,
    and its session names both."""

    tier: Tier
    samples: dict[str, int]
    sessions: list[str]
    pictures: list[str]
    rows_twice: int
    pictures_twice: int

    @property
    def is_nothing(self) -> bool:
        return not (any(self.samples.values()) or self.sessions or self.pictures or self.rows_twice)


async def sum_up(connection: Connection, tier: Tier, captured: Mapping[UUID, int]) -> TierSum:
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        rows = await connection.fetch(_STREAMS, list(captured), list(captured.values()))
        return TierSum(
            tier=tier,
            streams={row["stream_id"]: StreamSum(**dict(row.items())) for row in rows},
            sessions={row["id"] for row in await connection.fetch(_SESSIONS)},
            pictures=[(row["session_id"], row["sha256"]) for row in await connection.fetch(_PICTURES)],
        )


def ledger_of(captured: Mapping[UUID, int], tiers: Sequence[TierSum]) -> Ledger:
    """Whatever any of them had. The captured sequences are the devices' own word."""
    return Ledger(
        captured=dict(captured),
        sessions={session for tier in tiers for session in tier.sessions},
        pictures={picture for tier in tiers for picture in tier.pictures},
    )


def missing_from(ledger: Ledger, now: TierSum) -> Missing:
    """There is no third outcome: a sequence that is covered and in no row is as much missing as one that is not covered."""
    return Missing(
        tier=now.tier,
        samples={str(stream.stream_id): stream.uncovered + stream.not_stored for stream in now.streams.values()},
        sessions=sorted(str(session) for session in ledger.sessions - now.sessions),
        pictures=sorted(
            f"{sha256} of session {session or '-'}" for session, sha256 in ledger.pictures - set(now.pictures)
        ),
        rows_twice=sum(stream.rows_twice for stream in now.streams.values()),
        pictures_twice=len(now.pictures) - len(set(now.pictures)),
    )
