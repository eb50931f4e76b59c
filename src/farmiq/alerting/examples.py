"""What each rule makes of given series. One table for the two who have to agree: promtool, and the evaluator here.

Every series has a sample each `STEP_SECONDS`, from time 0 on, in runs of one value: `((0, 4), (5, 60))` is 0 four times and then
5 sixty times. None is a series that has gone.
"""

from typing import Final

from msgspec import Struct

from farmiq.alerting.alert import Severity

STEP_SECONDS: Final = 15

Runs = tuple[tuple[float | None, int], ...]
Raised = tuple[Severity, dict[str, str]]
MINUTES: Final = 60 // STEP_SECONDS
"""Samples in a minute."""
HOURS: Final = 60 * MINUTES


class Expected(Struct, frozen=True):
    """What is raised of a rule at that time, and nothing else."""

    minute: float
    rule: str
    raised: tuple[Raised, ...] = ()


class Example(Struct, frozen=True):
    tells: str
    series: dict[str, Runs]
    expected: tuple[Expected, ...]


_SYNC: Final = '{job="edge-sync-forwarder"}'
_EDGE: Final = 'job="edge-telemetry-timeseries"'
_CLOUD: Final = 'job="cloud-telemetry-service"'
_GATEWAY: Final = 'job="edge-ingress-gateway"'
_QUEUE: Final = "farmiq.cloud-telemetry-service.telemetry.queue"
_HELD: Final = {"tenant": "demo", "device": "node-1", "edge": "edge-2", "owner": "edge-1"}
_HELD_SERIES: Final = (
    'farmiq_ingestion_held_devices{job="cloud-ingestion",tenant="demo",device="node-1",edge="edge-2",owner="edge-1"}'
)
_DLQ: Final = "farmiq.cloud-telemetry-service.dlq.queue"

WARNING: Final[Raised] = ("warning", {})
CRITICAL: Final[Raised] = ("critical", {})

EXAMPLES: Final = (
    Example(
        "a loss is told at once, by cause, and one ledger that two tiers show is one loss",
        {
            f'farmiq_samples_lost_total{{{_EDGE},cause="cap_reached"}}': ((7, 8), (12, 2 * HOURS)),
            f'farmiq_samples_lost_total{{{_EDGE},cause="damaged"}}': ((3, 2 * HOURS),),
            f'farmiq_samples_lost_total{{{_CLOUD},cause="cap_reached"}}': ((7, 12), (12, 2 * HOURS)),
        },
        (
            Expected(1.75, "FarmiqDataLost"),
            Expected(2, "FarmiqDataLost", (("critical", {"cause": "cap_reached"}),)),
            Expected(61, "FarmiqDataLost", (("critical", {"cause": "cap_reached"}),)),
            Expected(64, "FarmiqDataLost"),
        ),
    ),
    Example(
        "a service that starts again shows the same ledger: nothing was lost",
        {f'farmiq_samples_lost_total{{{_EDGE},cause="damaged"}}': ((3, 8), (None, 4), (3, 20))},
        (Expected(4, "FarmiqDataLost"),),
    ),
    Example(
        "what a weigh station gives up is told at once, by cause, as lost samples are",
        {
            f'farmiq_station_lost_total{{{_EDGE},cause="queue_full"}}': ((0, 8), (3, 2 * HOURS)),
            f'farmiq_station_lost_total{{{_EDGE},cause="too_old"}}': ((2, 2 * HOURS),),
        },
        (
            Expected(1.75, "FarmiqStationDataLost"),
            Expected(2, "FarmiqStationDataLost", (("critical", {"cause": "queue_full"}),)),
            Expected(64, "FarmiqStationDataLost"),
        ),
    ),
    Example(
        "an hour of delay is a warning, a day is critical, and exactly an hour is neither",
        {f"oldest_pending_age_seconds{_SYNC}": ((3600, 4), (3601, 4), (86_400, 4), (86_401, 4), (0, 4))},
        (
            Expected(0.75, "FarmiqDataDelayed"),
            Expected(1, "FarmiqDataDelayed", (WARNING,)),
            Expected(2, "FarmiqDataDelayed", (WARNING,)),
            Expected(3, "FarmiqDataDelayed", (WARNING, CRITICAL)),
            Expected(4, "FarmiqDataDelayed"),
        ),
    ),
    Example(
        "a thousand events may wait, and ten thousand are critical, when it lasts for a minute",
        {f"outbox_pending_total{_SYNC}": ((1000, 4), (1001, 8), (10_000, 4), (10_001, 8), (1000, 4))},
        (
            Expected(0.75, "FarmiqSyncBacklog"),
            Expected(1.75, "FarmiqSyncBacklog"),
            Expected(2, "FarmiqSyncBacklog", (WARNING,)),
            Expected(4.75, "FarmiqSyncBacklog", (WARNING,)),
            Expected(5, "FarmiqSyncBacklog", (WARNING, CRITICAL)),
            Expected(6, "FarmiqSyncBacklog"),
        ),
    ),
    Example(
        "two replicas show one backlog: it is not twice as long",
        {
            'outbox_pending_total{job="edge-sync-forwarder",instance="a"}': ((800, 20),),
            'outbox_pending_total{job="edge-sync-forwarder",instance="b"}': ((800, 20),),
        },
        (Expected(4, "FarmiqSyncBacklog"),),
    ),
    Example(
        "one dead letter of the outbox is enough",
        {f"outbox_dlq_total{_SYNC}": ((0, 4), (1, 4), (0, 4))},
        (
            Expected(0.75, "FarmiqOutboxDeadLetters"),
            Expected(1, "FarmiqOutboxDeadLetters", (CRITICAL,)),
            Expected(2, "FarmiqOutboxDeadLetters"),
        ),
    ),
    Example(
        "dead letters that are added are told by queue; those that were there before are not new, nor is a restart",
        {
            f'farmiq_dead_letters_total{{{_CLOUD},queue="{_QUEUE}"}}': ((4, 4), (5, 100)),
            'farmiq_dead_letters_total{job="edge-sync-forwarder",queue="sync_outbox"}': ((9, 4), (0, 100)),
        },
        (
            Expected(0.75, "FarmiqDlqGrowing"),
            Expected(1, "FarmiqDlqGrowing", (("critical", {"queue": _QUEUE}),)),
            Expected(18, "FarmiqDlqGrowing"),
        ),
    ),
    Example(
        "letters in a DLQ are told; messages in a work queue are work",
        {
            f'farmiq_bus_queue_messages{{{_CLOUD},queue="{_DLQ}"}}': ((0, 4), (2, 12), (0, 4)),
            f'farmiq_bus_queue_messages{{{_CLOUD},queue="{_QUEUE}"}}': ((900, 20),),
        },
        (
            Expected(1.75, "FarmiqBusDeadLetters"),
            Expected(2, "FarmiqBusDeadLetters", (("warning", {"queue": _DLQ}),)),
            Expected(4, "FarmiqBusDeadLetters"),
        ),
    ),
    Example(
        "a cloud that is drained is a warning until it is resumed",
        {'farmiq_ingestion_drained{job="cloud-ingestion"}': ((0, 4), (1, 4), (0, 4))},
        (
            Expected(0.75, "FarmiqCloudDrained"),
            Expected(1, "FarmiqCloudDrained", (WARNING,)),
            Expected(2, "FarmiqCloudDrained"),
        ),
    ),
    Example(
        "a device of which another edge sends something is a warning until it is moved",
        {_HELD_SERIES: ((None, 4), (1, 4), (None, 4))},
        (
            Expected(0.75, "FarmiqDeviceHeld"),
            Expected(1, "FarmiqDeviceHeld", (("warning", _HELD),)),
            Expected(2, "FarmiqDeviceHeld"),
        ),
    ),
    Example(
        "a spool that will be full within a day is a warning, within two hours critical; one that is delivered never",
        {f"farmiq_spool_runway_seconds{{{_EDGE}}}": ((float("inf"), 4), (86_399, 8), (7199, 8), (86_400, 4))},
        (
            Expected(0.75, "FarmiqSpoolFullSoon"),
            Expected(2, "FarmiqSpoolFullSoon", (WARNING,)),
            Expected(4, "FarmiqSpoolFullSoon", (WARNING, CRITICAL)),
            Expected(5, "FarmiqSpoolFullSoon"),
        ),
    ),
    Example(
        "a device that is quiet for ten minutes; one that was never heard is not quiet",
        {
            f'farmiq_devices{{{_EDGE},state="quiet"}}': ((0, 4), (1, 48), (0, 4)),
            f'farmiq_devices{{{_EDGE},state="never_heard"}}': ((5, 56),),
        },
        (
            Expected(10.75, "FarmiqDeviceQuiet"),
            Expected(11, "FarmiqDeviceQuiet", (WARNING,)),
            Expected(13, "FarmiqDeviceQuiet"),
        ),
    ),
    Example(
        "messages over a limit are an alert for a quarter of an hour",
        {f'farmiq_ingress_throttled_total{{{_GATEWAY},reason="rate"}}': ((0, 4), (700, 100))},
        (
            Expected(0.75, "FarmiqDeviceThrottled"),
            Expected(1, "FarmiqDeviceThrottled", (WARNING,)),
            Expected(18, "FarmiqDeviceThrottled"),
        ),
    ),
    Example(
        "a disk below twice its floor is a warning, below the floor critical, and neither when there is room",
        {f"farmiq_edge_disk_floor{{{_GATEWAY}}}": ((0, 4), (1, 4), (2, 4), (0, 20))},
        (
            Expected(0.75, "FarmiqEdgeDiskFloor"),
            Expected(1.5, "FarmiqEdgeDiskFloor", (WARNING,)),
            Expected(2.5, "FarmiqEdgeDiskFloor", (WARNING, CRITICAL)),
            Expected(5, "FarmiqEdgeDiskFloor"),
        ),
    ),
    Example(
        "what the broker refuses for ten minutes without a break is told by kind",
        {
            f'farmiq_broker_refused_devices{{{_GATEWAY},kind="publish_denied"}}': ((0, 4), (2, 48)),
            f'farmiq_broker_refused_devices{{{_GATEWAY},kind="connection_replaced"}}': ((0, 4), (1, 20), (0, 28)),
        },
        (
            Expected(10.75, "FarmiqBrokerRefusals"),
            Expected(11, "FarmiqBrokerRefusals", (("warning", {"kind": "publish_denied"}),)),
        ),
    ),
    Example(
        "three of the last rounds of test messages may have failed, four are critical",
        {
            f"farmiq_canary_recent_failures{{{_GATEWAY}}}": ((0, 4), (3, 4), (4, 4), (3, 4)),
        },
        (
            Expected(1.75, "FarmiqCanaryLost"),
            Expected(2, "FarmiqCanaryLost", (CRITICAL,)),
            Expected(3, "FarmiqCanaryLost"),
        ),
    ),
    Example(
        "rejected messages are told, new and repeated ones are not",
        {
            f'farmiq_ingress_messages_total{{{_GATEWAY},outcome="rejected"}}': ((0, 4), (1, 100)),
            f'farmiq_ingress_messages_total{{{_GATEWAY},outcome="new"}}': ((0, 2), (50, 102)),
        },
        (
            Expected(0.75, "FarmiqMessagesRejected"),
            Expected(1, "FarmiqMessagesRejected", (WARNING,)),
            Expected(18, "FarmiqMessagesRejected"),
        ),
    ),
    Example(
        "an uplink that is away for five minutes is told; it is no refusal",
        {'farmiq_sync_tenants_paused{job="edge-sync-forwarder",code="NETWORK_ERROR"}': ((1, 24), (None, 4))},
        (
            Expected(4.75, "FarmiqCloudUnreachable"),
            Expected(5, "FarmiqCloudUnreachable", (("warning", {"code": "NETWORK_ERROR"}),)),
            Expected(5, "FarmiqCloudRefusesUs"),
            Expected(6, "FarmiqCloudUnreachable"),
        ),
    ),
    Example(
        "a token that the cloud does not know is critical after a minute",
        {'farmiq_sync_tenants_paused{job="edge-sync-forwarder",code="HTTP_401"}': ((2, 8),)},
        (
            Expected(0.75, "FarmiqCloudRefusesUs"),
            Expected(1, "FarmiqCloudRefusesUs", (("critical", {"code": "HTTP_401"}),)),
        ),
    ),
    Example(
        "a picture that was given up is told at once",
        {f"farmiq_media_sync_failed{_SYNC}": ((0, 4), (1, 4), (0, 4))},
        (
            Expected(0.75, "FarmiqPicturesGivenUp"),
            Expected(1, "FarmiqPicturesGivenUp", (WARNING,)),
            Expected(2, "FarmiqPicturesGivenUp"),
        ),
    ),
    Example(
        "what the edge has noted is told by kind",
        {
            f'farmiq_ops_alerts_open{{{_EDGE},kind="weigh_session_incomplete"}}': ((0, 4), (3, 4), (0, 4)),
            f'farmiq_ops_alerts_open{{{_EDGE},kind="picture_missing"}}': ((0, 12),),
        },
        (
            Expected(0.75, "FarmiqAttentionNeeded"),
            Expected(1, "FarmiqAttentionNeeded", (("warning", {"kind": "weigh_session_incomplete"}),)),
            Expected(2, "FarmiqAttentionNeeded"),
        ),
    ),
    Example(
        "a service that does not answer for two minutes; a restart is shorter, and other people's services are not ours",
        {
            'up{job="edge-media-store"}': ((1, 4), (0, 12), (1, 4)),
            'up{job="edge-ingress-gateway"}': ((1, 4), (0, 4), (1, 12)),
            'up{job="node-exporter"}': ((0, 20),),
        },
        (
            Expected(2.75, "FarmiqServiceDown"),
            Expected(3, "FarmiqServiceDown", (("critical", {"job": "edge-media-store"}),)),
            Expected(4, "FarmiqServiceDown"),
        ),
    ),
    Example(
        "one of two replicas is enough",
        {
            'up{job="edge-sync-forwarder",instance="a"}': ((0, 20),),
            'up{job="edge-sync-forwarder",instance="b"}': ((1, 20),),
        },
        (Expected(4, "FarmiqServiceDown"),),
    ),
    Example(
        "a consumer without its bus for five minutes",
        {f'farmiq_bus_connected{{{_CLOUD},queue="{_QUEUE}"}}': ((1, 4), (0, 24), (1, 4))},
        (
            Expected(5.75, "FarmiqBusDisconnected"),
            Expected(6, "FarmiqBusDisconnected", (("critical", {"queue": _QUEUE}),)),
            Expected(7, "FarmiqBusDisconnected"),
        ),
    ),
    Example(
        "figures that nobody has measured for ten minutes",
        {f"farmiq_figures_sampled_timestamp_seconds{_SYNC}": ((0, 52), (780, 4))},
        (
            Expected(11, "FarmiqFiguresOld"),
            Expected(11.25, "FarmiqFiguresOld", (("warning", {"job": "edge-sync-forwarder"}),)),
            Expected(13, "FarmiqFiguresOld"),
        ),
    ),
    Example(
        "a service that answers and does not show its backlog; one that does not answer is another matter",
        {
            f"up{_SYNC}": ((1, 44), (0, 28)),
            f"oldest_pending_age_seconds{_SYNC}": ((0, 4), (None, 68)),
        },
        (
            Expected(0.75, "FarmiqFiguresMissing"),
            Expected(5.75, "FarmiqFiguresMissing"),
            Expected(6, "FarmiqFiguresMissing", (("warning", {"job": "edge-sync-forwarder"}),)),
            Expected(17, "FarmiqFiguresMissing"),
        ),
    ),
    Example(
        "a housekeeping job that fails for a quarter of an hour",
        {f'farmiq_job_failing{{{_EDGE},job_name="telemetry-retention"}}': ((0, 4), (1, 64), (0, 4))},
        (
            Expected(15.75, "FarmiqJobFailing"),
            Expected(16, "FarmiqJobFailing", (("warning", {"job_name": "telemetry-retention"}),)),
            Expected(17, "FarmiqJobFailing"),
        ),
    ),
    Example(
        "a disk with less than a seventh is a warning, with less than a twentieth critical at once",
        {'farmiq_disk_free_ratio{job="console",path="/var/lib/farmiq"}': ((0.15, 4), (0.14, 8), (0.04, 4), (0.3, 4))},
        (
            Expected(1.75, "FarmiqDiskFull"),
            Expected(2, "FarmiqDiskFull", (("warning", {"path": "/var/lib/farmiq"}),)),
            Expected(
                3,
                "FarmiqDiskFull",
                (("warning", {"path": "/var/lib/farmiq"}), ("critical", {"path": "/var/lib/farmiq"})),
            ),
            Expected(4, "FarmiqDiskFull"),
        ),
    ),
)
