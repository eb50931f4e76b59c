"""Grafana dashboards: which panels there are. `grafana` makes the files of them.

Age comes first and depth second: how long data takes to get through is what a person wants to know.
"""

from typing import Final

from farmiq.alerting.grafana import Dashboard, Panel, Query, as_json

RATE: Final = "[$__rate_interval]"


def quantiles(histogram: str, *wanted: float, labels: str = "") -> tuple[Query, ...]:
    buckets = f"sum by (le) (rate({histogram}_bucket{labels}{RATE}))"
    return tuple(Query(f"histogram_quantile({quantile:g}, {buckets})", f"{quantile:.0%}") for quantile in wanted)


OVERVIEW: Final = Dashboard(
    "farmiq-overview",
    "FarmIQ: is anything missing?",
    (
        Panel(
            "Samples lost in the last day",
            "short",
            (Query("max by (cause) (increase(farmiq_samples_lost_total[1d]))", "{{cause}}"),),
            kind="stat",
            about="Declared lost, by cause. Nothing here means that nothing was lost.",
        ),
        Panel("Oldest event at the edge", "s", (Query("max(oldest_pending_age_seconds)", "age"),), kind="stat"),
        Panel(
            "Oldest sample on a device",
            "s",
            (Query("max(farmiq_spool_oldest_sample_age_seconds)", "age"),),
            kind="stat",
        ),
        Panel(
            "Room left on devices that can't deliver",
            "s",
            (Query("min(farmiq_spool_runway_seconds)", "runway"),),
            kind="stat",
        ),
        Panel("Devices", "short", (Query("max by (state) (farmiq_devices)", "{{state}}"),), kind="stat"),
        Panel(
            "Dead letters",
            "short",
            (
                Query("max(outbox_dlq_total)", "edge"),
                Query('sum(farmiq_bus_queue_messages{queue=~".+[.]dlq[.]queue"})', "cloud"),
            ),
            kind="stat",
        ),
        Panel(
            "Samples a second, in and through",
            "short",
            (
                Query(f"sum(rate(farmiq_ingress_samples_stored_total{RATE}))", "stored at the edge"),
                Query(f"sum(rate(farmiq_cloud_samples_stored_total{RATE}))", "stored in the cloud"),
            ),
            about="Two lines that coincide while the link is up. What is between them is on its way.",
        ),
        Panel(
            "From sensor to cloud, live",
            "s",
            quantiles("farmiq_end_to_end_delay_seconds", 0.5, 0.95, 0.99, labels='{lane="live"}'),
        ),
        Panel("Open alerts", "short", (Query("sum by (status, severity) (farmiq_alerts)", "{{status}} {{severity}}"),)),
        Panel(
            "Services that answer", "short", (Query('max by (job) (up{job=~"(edge|cloud)-.+|console"})', "{{job}}"),)
        ),
        Panel("Free on disk", "percentunit", (Query("min by (path) (farmiq_disk_free_ratio)", "{{path}}"),)),
    ),
)

SYNC: Final = Dashboard(
    "farmiq-sync",
    "FarmIQ: from the edge to the cloud",
    (
        Panel("Oldest event that waits", "s", (Query("max(oldest_pending_age_seconds)", "age"),)),
        Panel(
            "Events in the outbox",
            "short",
            (
                Query("max(outbox_pending_total)", "waiting"),
                Query("max(outbox_claimed_total)", "being sent"),
                Query("max(outbox_dlq_total)", "given up"),
            ),
        ),
        Panel(
            "Events a second",
            "short",
            (
                Query(f"sum(rate(farmiq_sync_events_acked_total{RATE}))", "in the cloud"),
                Query(f"sum(rate(farmiq_sync_events_failed_total{RATE}))", "refused"),
            ),
        ),
        Panel(
            "Requests a second",
            "short",
            (
                Query(f"sum(rate(sync_send_success_total{RATE}))", "answered"),
                Query(f"sum(rate(sync_send_failure_total{RATE}))", "failed"),
            ),
        ),
        Panel(
            "From claim to settlement",
            "ms",
            quantiles("sync_batch_latency_ms", 0.5, 0.99),
        ),
        Panel(
            "Tenants that wait for the cloud",
            "short",
            (Query("max by (code) (farmiq_sync_tenants_paused)", "{{code}}"),),
        ),
        Panel(
            "Rows that changed hands",
            "short",
            (
                Query(f"sum(rate(farmiq_sync_leases_lost_total{RATE}))", "leases lost"),
                Query(f"sum(rate(farmiq_sync_rows_rescued_total{RATE}))", "rows rescued"),
            ),
        ),
        Panel(
            "Pictures",
            "short",
            (
                Query("max(farmiq_media_sync_pending)", "waiting"),
                Query("max(farmiq_media_sync_failed)", "given up"),
            ),
        ),
        Panel(
            "Bytes of pictures a second",
            "Bps",
            (Query(f"sum(rate(farmiq_media_sync_sent_bytes_total{RATE}))", "sent"),),
        ),
    ),
)

DEVICES: Final = Dashboard(
    "farmiq-devices",
    "FarmIQ: devices and the way in",
    (
        Panel("Devices", "short", (Query("max by (state) (farmiq_devices)", "{{state}}"),)),
        Panel("Oldest sample on a device", "s", (Query("max(farmiq_spool_oldest_sample_age_seconds)", "age"),)),
        Panel(
            "Samples on devices and not at the edge", "short", (Query("max(farmiq_spool_unacked_samples)", "samples"),)
        ),
        Panel("In the spools", "bytes", (Query("max(farmiq_spool_bytes)", "bytes"),)),
        Panel("Room left on devices that can't deliver", "s", (Query("min(farmiq_spool_runway_seconds)", "runway"),)),
        Panel(
            "Messages a second",
            "short",
            (Query(f"sum by (outcome) (rate(farmiq_ingress_messages_total{RATE}))", "{{outcome}}"),),
        ),
        Panel(
            "Rejected, by reason",
            "short",
            (Query(f"sum by (reason) (rate(farmiq_ingress_rejected_total{RATE}))", "{{reason}}"),),
        ),
        Panel(
            "From sensor to edge, live",
            "s",
            quantiles("farmiq_edge_delay_seconds", 0.5, 0.99, labels='{lane="live"}'),
        ),
        Panel("Samples lost, in all", "short", (Query("max by (cause) (farmiq_samples_lost_total)", "{{cause}}"),)),
        Panel("Noted for a person", "short", (Query("max by (kind) (farmiq_ops_alerts_open)", "{{kind}}"),)),
        Panel(
            "Pictures a second",
            "short",
            (
                Query(f"sum(rate(farmiq_media_stored_total{RATE}))", "stored"),
                Query(f"sum(rate(farmiq_media_refused_total{RATE}))", "refused"),
                Query(f"sum(rate(farmiq_inference_completed_total{RATE}))", "weighed"),
            ),
        ),
    ),
)

BUS: Final = Dashboard(
    "farmiq-bus",
    "FarmIQ: the cloud and its bus",
    (
        Panel("Waiting in the queues", "short", (Query("max by (queue) (farmiq_bus_queue_messages)", "{{queue}}"),)),
        Panel(
            "Messages a second",
            "short",
            (Query(f"sum by (queue) (rate(farmiq_bus_messages_done_total{RATE}))", "{{queue}}"),),
        ),
        Panel(
            "Dead letters, added",
            "short",
            (Query("sum by (queue) (increase(farmiq_dead_letters_total[1h]))", "{{queue}}"),),
        ),
        Panel(
            "Sent to wait for another try",
            "short",
            (Query(f"sum by (queue, reason) (rate(farmiq_bus_messages_retried_total{RATE}))", "{{queue}} {{reason}}"),),
        ),
        Panel(
            "Batches that waited for a neighbour",
            "short",
            (Query(f"sum by (queue, reason) (rate(farmiq_bus_batches_held_total{RATE}))", "{{queue}} {{reason}}"),),
        ),
        Panel(
            "From taking to acknowledgement, 99 %",
            "s",
            (
                Query(
                    f"histogram_quantile(0.99, sum by (le, queue) (rate(farmiq_bus_batch_seconds_bucket{RATE})))",
                    "{{queue}}",
                ),
            ),
        ),
        Panel(
            "Events that edges delivered",
            "short",
            (Query(f"sum by (status) (rate(farmiq_ingestion_events_total{RATE}))", "{{status}}"),),
        ),
        Panel("Connected", "short", (Query("max by (queue) (farmiq_bus_connected)", "{{queue}}"),)),
        Panel("Days of barns to be computed", "short", (Query("max(farmiq_analytics_marks_waiting)", "marks"),)),
        Panel(
            "Pictures that are announced and not here",
            "s",
            (Query("max by (state) (farmiq_cloud_media_waiting_oldest_seconds)", "{{state}}"),),
        ),
    ),
)

DASHBOARDS: Final = (OVERVIEW, SYNC, DEVICES, BUS)


def dashboard_files() -> dict[str, str]:
    return {f"{dashboard.uid}.json": as_json(dashboard) for dashboard in DASHBOARDS}
