"""Every SQL statement of this service on top of those that it shares with the cloud."""

from collections.abc import Sequence
from datetime import datetime

from farmiq.edge.telemetry_timeseries.liveness import Heard
from farmiq.kit.postgres import Connection

_HEAR = """
    INSERT INTO device_liveness AS known
           (device_id, tenant_id, farm_id, barn_id, last_rx_at, last_sample_ts, reported_state, reported_at, status_json)
    SELECT device_id, tenant_id, farm_id, barn_id,
           -- "offline" is the broker's word, or a goodbye: not a sign of life.
           CASE WHEN state = 'offline' AND sample_at IS NULL THEN NULL ELSE $1::timestamptz END,
           sample_at, state, CASE WHEN state IS NULL THEN NULL ELSE $1::timestamptz END, status
      FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::text[], $8::jsonb[])
           AS heard (device_id, tenant_id, farm_id, barn_id, sample_at, state, status)
    ON CONFLICT (device_id) DO UPDATE
       SET last_rx_at = greatest(known.last_rx_at, excluded.last_rx_at),
           last_sample_ts = greatest(known.last_sample_ts, excluded.last_sample_ts),
           reported_state = coalesce(excluded.reported_state, known.reported_state),
           reported_at = coalesce(excluded.reported_at, known.reported_at),
           status_json = coalesce(excluded.status_json, known.status_json)
"""


async def save_liveness(connection: Connection, signs: Sequence[Heard], received_at: datetime) -> None:
    if not signs:
        return
    await connection.execute(
        _HEAR,
        received_at,
        [sign.origin.device_id for sign in signs],
        [sign.origin.tenant_id for sign in signs],
        [sign.origin.farm_id for sign in signs],
        [sign.origin.barn_id for sign in signs],
        [sign.last_sample_at for sign in signs],
        [sign.status.state if sign.status else None for sign in signs],
        [sign.status for sign in signs],
    )
