"""What has to be in a golden farm, table by table: the states of which at least one row has to be there."""

from collections.abc import Mapping, Sequence
from typing import Final

from golden.farm import Farm, NotReached

_SESSIONS: Final = ("status = 'created'", "status = 'finalized'", "status = 'cancelled'")

EDGE: Final[Mapping[str, Sequence[str]]] = {
    "telemetry_raw": ("stream_id IS NOT NULL", "stream_id IS NULL", "tenant_id = 'tenant-1'"),
    "telemetry_agg": ('"window" = \'1m\'', '"window" = \'1h\'', '"window" = \'1d\''),
    "telemetry_agg_unsent": (),
    "streams": ("lost = '{}'", "lost <> '{}'"),
    "stream_losses": (),
    "station_losses": (),
    "device_liveness": (),
    "sensor_liveness": (),
    "devices": ("revoked_at IS NULL", "revoked_at IS NOT NULL"),
    "ingress_dedupe": (),
    "ingress_rejected": (),
    "edge_identity": (),
    "sync_outbox": (
        "status = 'acked'", "status = 'pending' AND NOT parked", "status = 'pending' AND parked", "status = 'claimed'",
        "status = 'dlq'",
    ),
    "sync_state": (),
    "weight_sessions": (*_SESSIONS, "incomplete_since IS NOT NULL", "ruled_at IS NOT NULL"),
    "session_weights": (),
    "session_pictures": (),
    "session_results": (),
    "session_operations": ("action = 'attach'", "action = 'finalize'"),
    "media_objects": ("state = 'presigned'", "state = 'stored'", "state = 'refused'", "state = 'missing'"),
    "media_transfers": ("state = 'pending'", "state = 'sending'", "state = 'sent'", "state = 'failed'"),
    "media_presign_pace": (),
    "inference_models": (),
    "inference_jobs": ("state = 'pending'", "state = 'running'", "state = 'done'", "state = 'failed'"),
    "inference_results": (),
    "ops_alerts": ("status = 'open'", "status = 'acked'", "status = 'closed'"),
    "job_runs": (),
    "retired_samples": (),
}  # fmt: skip
CLOUD: Final[Mapping[str, Sequence[str]]] = {
    "telemetry_raw": ("stream_id IS NOT NULL", "stream_id IS NULL", "tenant_id = 'tenant-1'"),
    "telemetry_agg": ("\"window\" = '1m'", "\"window\" = '1h'", "\"window\" = '1d'"),
    "telemetry_agg_unsent": (),
    "received_buckets": (),
    "streams": ("lost = '{}'", "lost <> '{}'"),
    "stream_losses": (),
    "station_losses": (),
    "edges": (),
    "edge_tokens": ("revoked_at IS NULL", "revoked_at IS NOT NULL", "expires_at IS NOT NULL"),
    "viewer_tokens": ("revoked_at IS NULL", "revoked_at IS NOT NULL", "expires_at IS NOT NULL"),
    "ingest_dedupe": (),
    "weight_sessions": (*_SESSIONS,),
    "recorded_weights": (),
    "captured_images": (),
    "media_objects": ("state = 'announced'", "state = 'stored'", "state = 'missing'"),
    "inference_results": (),
    "sync_batches": (),
    "device_events": (),
    "dead_letter_actions": ("kind = 'replay'", "kind = 'discard'"),
    "discarded_letters": (),
    "job_runs": (),
    "retired_samples": (),
    "cloud_identity": (),
    "analytics_hours": (),
    "analytics_series": (),
    "analytics_sessions": (),
    "analytics_weights": (),
    "analytics_inferences": (),
    "analytics_losses": (),
    "analytics_marks": (),
    "analytics_kpis": ("scope = 'barn'", "scope = 'batch'"),
    "analytics_anomalies": (),
}
_TABLES: Final = """
SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
 WHERE nspname = 'public' AND relkind IN ('r', 'p') AND NOT relispartition"""
_NOT_OURS: Final = frozenset({"alembic_version"})


def check(farm: Farm) -> None:
    """Raises `NotReached` with every kind of row that is not there, and every table that this list does not name."""
    lacking = []
    for tier, wanted in (("edge", EDGE), ("cloud", CLOUD)):
        tables = {row["relname"] for row in farm.fetch(tier, _TABLES)} - _NOT_OURS
        lacking += [f"{tier} {table}: not in golden/kinds.py" for table in sorted(tables - {*wanted})]
        for table, states in wanted.items():
            lacking += [
                f"{tier} {table} where {state}" for state in states or ("true",) if not farm.count(tier, table, state)
            ]
    if lacking:
        raise NotReached("these rows are missing:\n  " + "\n  ".join(lacking))
