"""The judge's questions to a tier's database, past every service and its code."""

from collections.abc import Mapping, Sequence
from typing import Final

from farmiq.contracts import event_types

# What of a device's outbox is its own event, passed on as it came. Everything else has a table of its own.
_OTHER_TYPES: Final = (
    event_types.TELEMETRY_INGESTED,
    event_types.TELEMETRY_BATCH_INGESTED,
    event_types.DEVICE_REGISTERED,
)
_PLACE: Final = "tenant_id, farm_id, barn_id, device_id"

# $2: the disk was set back, so that sequences are no longer the numbers of the samples; their values are.
SAMPLES: Final = """
    SELECT CASE WHEN $2 THEN metric_value::bigint ELSE seq END AS number, metric_value, sensor,
           coalesce(device_occurred_at, occurred_at) AS occurred_at, metric_type, unit, time_quality, tenant_id, farm_id, barn_id,
           device_id, ingested_at
      FROM telemetry_raw WHERE device_id = $1 AND stream_id IS NOT NULL ORDER BY number
"""
# By how much the sequences of a stream lie behind the numbers of its samples, just before a sequence.
SHIFT: Final = """
    SELECT metric_value::bigint - seq FROM telemetry_raw
     WHERE device_id = $1 AND stream_id = $2 AND seq < $3 ORDER BY seq DESC LIMIT 1
"""
LOSSES: Final = f"""
    SELECT event_id, {_PLACE}, stream_id, first_seq, last_seq, count, first_ts, last_ts, reason, dropped_at
      FROM stream_losses WHERE device_id = ANY($1)
"""  # noqa: S608 - our own constants
TWICE: Final = """
    SELECT stream_id, seq, count(*) AS times FROM telemetry_raw
     WHERE stream_id IS NOT NULL AND device_id <> ALL($1)
     GROUP BY tenant_id, stream_id, seq HAVING count(*) > 1 LIMIT 20
"""


def _events(
    rows: str,
    event_id: str,
    event_type: str,
    *,
    at: str = "occurred_at",
    value: str = "NULL",
    session: str = "session_id",
    media: str = "NULL",
    named: str = "NULL::text AS metric, NULL::text AS unit",
) -> str:
    """One kind of event: in which rows of a tier it is, and in which of their columns."""
    return f"""
        SELECT {event_id} AS event_id, {event_type} AS event_type, {_PLACE}, {at} AS occurred_at, ({value})::float8 AS value,
               ({session})::uuid AS session_id, ({media})::uuid AS media_id, {named}
          FROM {rows} AND device_id = ANY($1)
    """  # noqa: S608 - our own constants


_READINGS: Final = _events(
    "telemetry_raw WHERE stream_id IS NULL", "id", f"'{event_types.TELEMETRY_READING}'",
    value="metric_value", session="NULL", named="metric_type AS metric, unit",
)  # fmt: skip
_CREATED: Final = _events(
    "weight_sessions WHERE created_event_id IS NOT NULL", "created_event_id", f"'{event_types.SESSION_CREATED}'",
    at="start_at", session="id",
)  # fmt: skip
# At the edge these rows have no place of their own.
_OF_SESSION: Final = """
    (SELECT {columns}, session_id, s.tenant_id, s.farm_id, s.barn_id, s.device_id
       FROM {table} AS own JOIN weight_sessions AS s ON (s.tenant_id, s.id) = (own.tenant_id, session_id)) AS own WHERE true
"""
EVENTS: Final[Mapping[str, Sequence[str]]] = {
    "edge": (
        _READINGS,
        _CREATED,
        _events(
            "weight_sessions WHERE ended_event_id IS NOT NULL", "ended_event_id", f"'{event_types.SESSION_FINALIZED}'",
            at="end_at", value="given_final_weight_kg", session="id",
        ),
        _events(
            _OF_SESSION.format(table="session_weights", columns="event_id, occurred_at, weight_kg"), "event_id",
            f"'{event_types.WEIGHT_RECORDED}'", value="weight_kg",
        ),
        _events(
            _OF_SESSION.format(table="session_pictures", columns="announced_event_id, announced_at, media_id")
            + " AND announced_event_id IS NOT NULL",
            "announced_event_id", f"'{event_types.IMAGE_CAPTURED}'", at="announced_at", media="media_id",
        ),
        _events(
            f"sync_outbox WHERE session_id IS NULL AND event_type <> ALL ('{{{','.join(_OTHER_TYPES)}}}')", "id",
            "event_type", value="payload_json->>'number'",
        ),
    ),
    "cloud": (
        _READINGS,
        _CREATED,
        _events(
            f"device_events WHERE event_type <> '{event_types.DEVICE_REGISTERED}'", "event_id", "event_type",
            value="payload->>'number'",
        ),
        _events(
            "recorded_weights WHERE true", "event_id", f"'{event_types.WEIGHT_RECORDED}'", value="weight_kg"
        ),
        _events(
            "captured_images WHERE true", "event_id", f"'{event_types.IMAGE_CAPTURED}'", media="media_id"
        ),
    ),
}  # fmt: skip
# Everything of the station, whether or not anybody knows of it; and what is known, also under another station's name.
SESSIONS: Final = f"""
    SELECT id, {_PLACE}, status, start_at, end_at, batch_id, initial_weight_kg, final_weight_kg, image_count,
           inference_result_id
      FROM weight_sessions WHERE device_id = $1 OR id = ANY($2)
"""  # noqa: S608 - our own constants
PICTURES: Final[Mapping[str, str]] = {
    "edge": f"""
        SELECT id, {_PLACE}, session_id, state, bucket, object_key, mime_type, size_bytes, captured_at
          FROM media_objects WHERE device_id = $1 OR id = ANY($2)
    """,  # noqa: S608 - our own constants
    "cloud": """
        SELECT id, media.tenant_id, media.farm_id, media.barn_id, media.device_id,
               coalesce(media.session_id, captured.session_id) AS session_id, state, bucket, object_key, mime_type,
               media.size_bytes, captured_at
          FROM media_objects AS media
          LEFT JOIN captured_images AS captured ON captured.tenant_id = media.tenant_id AND captured.media_id = media.id
         WHERE media.device_id = $1 OR media.id = ANY($2)
    """,
}
RESULTS: Final = f"""
    SELECT id, {_PLACE}, session_id, media_id, predicted_weight_kg, predicted_size, confidence, model_version, occurred_at
      FROM inference_results WHERE device_id = $1
"""  # noqa: S608 - our own constants
MODELS: Final = "SELECT count(*) FROM inference_models"

# One statement is one moment: rows, coverage and aggregates are written in one transaction.
COVERAGE: Final = """
    WITH held AS (
      SELECT tenant_id, stream_id, min(device_id) AS device_id, range_agg(int8range(seq, seq + 1)) AS rows
        FROM telemetry_raw WHERE stream_id IS NOT NULL GROUP BY tenant_id, stream_id
    ), compared AS (
      SELECT stream_id, coalesce(streams.device_id, held.device_id) AS device_id, coalesce(received, '{}') AS received,
             coalesce(lost, '{}') AS lost, coalesce(rows, '{}') AS rows
        FROM streams FULL JOIN held USING (tenant_id, stream_id)
    )
    SELECT stream_id, device_id, nullif(received - rows, '{}')::text AS without_rows,
           nullif(rows - received, '{}')::text AS without_coverage, nullif(lost * rows, '{}')::text AS stored_and_lost
      FROM compared
"""
# Sums of the same numbers in another order differ in their last digits.
AGGREGATES: Final = """
    WITH widths ("window", width) AS (
      VALUES ('1m', interval '1 minute'), ('1h', interval '1 hour'), ('1d', interval '1 day')
    ), minutes AS (
      SELECT tenant_id, device_id, metric_type, coalesce(sensor, '') AS sensor, coalesce(unit, '') AS unit,
             date_bin('1 minute', occurred_at, 'epoch'::timestamptz) AS minute_at, count(*) AS count,
             sum(metric_value) AS total, sum(abs(metric_value)) AS size, min(metric_value) AS low, max(metric_value) AS high,
             min(farm_id) AS farm_id, min(barn_id) AS barn_id
        FROM telemetry_raw GROUP BY 1, 2, 3, 4, 5, 6
    ), counted AS (
      SELECT tenant_id, device_id, metric_type, sensor, unit, "window",
             date_bin(width, minute_at, 'epoch'::timestamptz) AS bucket_start_at, width, sum(count)::bigint AS count,
             sum(total) AS total, sum(size) AS size, min(low) AS low, max(high) AS high,
             min(farm_id) AS farm_id, min(barn_id) AS barn_id
        FROM minutes CROSS JOIN widths GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
    )
    SELECT concat_ws('/', tenant_id, device_id, metric_type, sensor, unit, "window", bucket_start_at) AS bucket,
           CASE WHEN counted.count IS NOT NULL THEN
             concat_ws(' ', counted.count, total, low, high, counted.farm_id, counted.barn_id) END AS counted,
           CASE WHEN shown.count IS NOT NULL THEN
             concat_ws(' ', shown.count, sum_value, min_value, max_value, shown.farm_id, shown.barn_id) END AS shown,
           coalesce(counted.count = shown.count AND low = min_value AND high = max_value
                    AND abs(total - sum_value) <= 1e-9 * greatest(size, 1e-9) AND bucket_end_at = bucket_start_at + width
                    AND counted.farm_id = shown.farm_id AND counted.barn_id = shown.barn_id, false) AS is_equal
      FROM counted
      FULL JOIN telemetry_agg AS shown
           USING (tenant_id, device_id, metric_type, sensor, unit, "window", bucket_start_at)
"""
