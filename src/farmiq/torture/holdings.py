"""What the cloud has of a campaign's devices: every row from its database, every picture from its object store."""

from collections.abc import Mapping, Sequence, Set

import asyncpg

from farmiq.contracts import event_types
from farmiq.contracts.timestamps import to_us
from farmiq.kit.errors import FarmiqError
from farmiq.kit.s3 import ObjectStore
from farmiq.torture.judge import (
    ACCEPTED,
    FULL_DISK,
    Declared,
    Found,
    FoundPicture,
    FoundSession,
    Ledger,
    NodeJudge,
    Tally,
    judge_events,
    judge_pictures,
    judge_sessions,
)

ROWS_AT_ONCE = 20_000
PICTURE_BYTES_MAX = 16 << 20

_SAMPLES = """SELECT seq, metric_value, sensor, coalesce(device_occurred_at, occurred_at) AS occurred_at FROM telemetry_raw
               WHERE device_id = $1 AND stream_id IS NOT NULL ORDER BY seq"""
_LOSSES = "SELECT first_seq, last_seq, reason FROM stream_losses WHERE device_id = $1"
_READINGS = """SELECT id AS event_id, device_id, occurred_at, metric_value AS value, NULL::uuid AS session_id,
                      NULL::uuid AS media_id
                 FROM telemetry_raw WHERE device_id = ANY($1) AND stream_id IS NULL"""
_EVENTS = """SELECT event_id, device_id, occurred_at, (payload->>'number')::float8 AS value, session_id, NULL::uuid AS media_id
               FROM device_events WHERE device_id = ANY($1) AND event_type <> $2"""
_WEIGHTS = """SELECT event_id, device_id, occurred_at, weight_kg AS value, session_id, NULL::uuid AS media_id
                FROM recorded_weights WHERE device_id = ANY($1)"""
_IMAGES = """SELECT event_id, device_id, occurred_at, NULL::float8 AS value, session_id, media_id
               FROM captured_images WHERE device_id = ANY($1)"""
# Everything of the stations, whether or not anybody knows of it; and what is known, also under another station's name.
_SESSIONS = """SELECT id, device_id, status, final_weight_kg, image_count FROM weight_sessions
                WHERE device_id = ANY($1) OR id = ANY($2)"""
_PICTURES = """SELECT id, coalesce(media.session_id, captured.session_id) AS session_id, state, bucket, object_key
                 FROM media_objects AS media LEFT JOIN captured_images AS captured
                      ON captured.tenant_id = media.tenant_id AND captured.media_id = media.id
                WHERE media.device_id = ANY($1) OR media.id = ANY($2)"""
_TWICE = """SELECT stream_id, seq, count(*) AS times FROM telemetry_raw
             WHERE stream_id IS NOT NULL AND device_id <> ALL($1)
             GROUP BY stream_id, seq HAVING count(*) > 1 LIMIT 20"""

# What the edge passes on as its own word about the whole session has an id of its own there.
_OF_THE_SESSION = frozenset({event_types.SESSION_CREATED, event_types.SESSION_FINALIZED})


async def judge_samples(url: str, ledger: Ledger, devices: Sequence[str], filled: Set[str]) -> Tally:
    """`filled` are those whose disk was full at times: nobody else has a reason to give samples up."""
    total = Tally()
    connection = await asyncpg.connect(url, timeout=30)
    try:
        for device in devices:
            losses = [Declared(*row) for row in await connection.fetch(_LOSSES, device)]
            reasons = FULL_DISK if device in filled else frozenset[str]()
            judge = NodeJudge(device, ledger.offers.get(device, []), ledger.stored.get(device, 0), losses, reasons)
            async with connection.transaction():
                async for row in connection.cursor(_SAMPLES, device, prefetch=ROWS_AT_ONCE):
                    judge.take(row["seq"], row["metric_value"], row["sensor"], to_us(row["occurred_at"]))
            total.add(judge.finish())
        # Of the nodes that the campaign does not feed, nothing else is known.
        for row in await connection.fetch(_TWICE, list(devices)):
            total.blame("duplicated", f"stream {row['stream_id']} {row['seq']}", row["times"] - 1)
    finally:
        await connection.close(timeout=5)
    return total


async def judge_said(url: str, ledger: Ledger, devices: Sequence[str]) -> Tally:
    """That a device was registered is the edge's word, not the device's."""
    connection = await asyncpg.connect(url, timeout=30)
    try:
        found = [
            _found(row)
            for query, more in (
                (_READINGS, ()),
                (_EVENTS, (event_types.DEVICE_REGISTERED,)),
                (_WEIGHTS, ()),
                (_IMAGES, ()),
            )
            for row in await connection.fetch(query, list(devices), *more)
        ]
    finally:
        await connection.close(timeout=5)
    said = {event_id: event for event_id, event in ledger.said.items() if event.event_type not in _OF_THE_SESSION}
    return judge_events(said, ledger.heard, found)


async def judge_weighed(url: str, ledger: Ledger, devices: Sequence[str]) -> Tally:
    begun = {event.session for event in ledger.said.values() if event.session is not None}
    connection = await asyncpg.connect(url, timeout=30)
    try:
        rows = await connection.fetch(_SESSIONS, list(devices), list(ledger.weighed))
    finally:
        await connection.close(timeout=5)
    return judge_sessions(ledger.weighed, begun, [FoundSession(*row) for row in rows])


async def judge_seen(url: str, ledger: Ledger, devices: Sequence[str], environment: Mapping[str, str]) -> Tally:
    """Pictures whose event was acknowledged, read back byte by byte."""
    announced = {
        event.media
        for event_id, event in ledger.said.items()
        if event.media is not None and ledger.heard.get(event_id) in ACCEPTED
    }
    connection = await asyncpg.connect(url, timeout=30)
    try:
        rows = await connection.fetch(_PICTURES, list(devices), list(ledger.pictures))
    finally:
        await connection.close(timeout=5)
    store = ObjectStore(
        environment["CLOUD_S3_ENDPOINT"],
        access_key=environment["CLOUD_S3_ACCESS_KEY"],
        secret_key=environment["CLOUD_S3_SECRET_KEY"],
    )
    try:
        found = [FoundPicture(row["id"], row["session_id"], row["state"], await _sha256(store, row)) for row in rows]
    finally:
        store.close()
    return judge_pictures(ledger.pictures, announced, found)


async def _sha256(store: ObjectStore, row: "asyncpg.Record") -> str | None:
    if row["object_key"] is None:
        return None
    try:
        return (await store.digest(row["bucket"], row["object_key"], bytes_max=PICTURE_BYTES_MAX)).sha256.hex()
    except FarmiqError:
        return None  # whatever the reason: it can't be had, which is what a lost picture is


def _found(row: "asyncpg.Record") -> Found:
    return Found(
        row["event_id"], row["device_id"], to_us(row["occurred_at"]), row["value"], row["session_id"], row["media_id"]
    )
