"""What each service of the edge may do to which table. `farmiq migrate` puts it into the database.

The gateway is long because it stores what a message says in one transaction, for all who work on it later."""

from typing import Final

from farmiq.kit.database_roles import ADD, ALL, CHANGE, READ, UPDATE, Writers

EVERYONE: Final = {
    READ: ("alembic_version", "edge_identity", "devices"),
    CHANGE: ("job_runs", "ops_alerts"),
}
"""What jobs, alerts, ids of events and the question whose device it is take, in every service."""

WRITERS: Final[Writers] = {
    "edge-ingress-gateway": {
        READ: ("retired_samples",),
        ADD: ("sync_outbox", "stream_losses", "station_losses", "session_operations"),
        UPDATE: ("edge_identity",),
        CHANGE: (
            "devices", "canary_receipts", "streams", "stream_content", "stream_boots", "telemetry_raw",
            "telemetry_agg", "device_liveness",
            "sensor_liveness", "weight_sessions", "session_pictures", "session_results", "session_weights", "media_objects",
        ),
        ALL: ("broker_refusals", "ingress_dedupe", "ingress_rejected", "telemetry_agg_unsent"),
    },
    "edge-telemetry-timeseries": {
        READ: ("streams", "stream_content", "stream_losses", "station_losses", "sync_state", "tenant_erasures"),
        ADD: ("sync_outbox",),
        UPDATE: ("retired_samples",),
        CHANGE: ("device_liveness", "sensor_liveness"),
        ALL: ("telemetry_raw", "telemetry_raw_default", "telemetry_agg", "telemetry_agg_unsent"),
    },
    "edge-weighvision-session": {
        READ: ("inference_results", "station_losses", "stream_losses", "sync_state"),
        ADD: ("sync_outbox",),
        CHANGE: ("media_objects",),
        ALL: ("weight_sessions", "session_operations", "session_pictures", "session_results", "session_weights"),
    },
    "edge-media-store": {
        READ: ("session_operations", "session_results", "session_weights", "inference_results", "sync_state"),
        ADD: ("sync_outbox", "station_losses"),
        CHANGE: ("inference_jobs", "weight_sessions", "session_pictures"),
        ALL: ("media_objects", "media_bytes_of_day", "media_presign_pace", "media_transfers"),
    },
    "edge-vision-inference": {
        READ: ("media_objects", "session_operations", "session_weights"),
        ADD: ("sync_outbox",),
        CHANGE: ("weight_sessions", "session_pictures", "session_results", "inference_models"),
        ALL: ("inference_jobs", "inference_results"),
    },
    "edge-sync-forwarder": {
        READ: ("media_objects", "telemetry_raw", "telemetry_agg", "streams", "stream_losses"),
        CHANGE: ("outbox_retired", "telemetry_agg_unsent"),
        ALL: ("sync_outbox", "sync_state", "media_transfers"),
    },
}  # fmt: skip
