"""What each service of the cloud may do to which table. `farmiq migrate` puts it into the database."""

from typing import Final

from farmiq.kit.database_roles import ALL, CHANGE, READ, UPDATE, Writers

EVERYONE: Final = {
    READ: ("alembic_version", "cloud_identity", "drains", "bus_users", "dead_letters"),
    CHANGE: ("job_runs",),
}
"""What jobs, ids of events, publishing and the metrics of dead letters take, in every service."""

WRITERS: Final[Writers] = {
    "cloud-ingestion": {
        READ: ("device_moves", "edge_grants", "weight_sessions"),
        UPDATE: ("edges", "edge_tokens", "device_owners_version"),
        CHANGE: (
            "device_owners", "dead_letter_actions", "edge_answers", "streams", "stream_losses", "station_losses",
        ),
        ALL: (
            "edge_answer_marks", "empty_bus_queues", "ingest_dedupe", "ingest_dedupe_default", "held_deliveries",
            "session_owners", "dead_letters", "discarded_letters",
        ),
    },
    "cloud-telemetry-service": {
        READ: ("retired_samples", "tenant_erasures", "media_objects"),
        UPDATE: ("viewer_tokens",),
        CHANGE: ("streams", "stream_content", "stream_losses", "station_losses"),
        ALL: (
            "telemetry_raw", "telemetry_raw_default", "telemetry_agg", "telemetry_agg_unsent", "received_buckets",
            "weight_sessions", "recorded_weights",
            "captured_images", "inference_results", "sync_batches", "device_events", "device_events_default",
        ),
    },
    "cloud-analytics-service": {
        READ: ("streams", "stream_losses", "telemetry_raw", "telemetry_agg"),
        UPDATE: ("viewer_tokens",),
        ALL: (
            "analytics_anomalies", "analytics_hours", "analytics_inferences", "analytics_kpis", "analytics_losses",
            "analytics_marks", "analytics_series", "analytics_sessions", "analytics_weights",
        ),
    },
    "cloud-media-store": {
        UPDATE: ("edges", "edge_tokens", "viewer_tokens"),
        ALL: ("media_objects",),
    },
}  # fmt: skip
