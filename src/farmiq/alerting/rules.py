"""Every alert, as data. `deploy/prometheus/farmiq-alerts.yml` is made from it, and the evaluator here goes by it.

Few, and about what a person would notice: data that is lost, late or stuck, and what leads to that. The thresholds of the
outbox are those of its requirements. Each name is a heading in `docs/operations/runbook.md`.
"""

from typing import Final, Literal

from msgspec import Struct

from farmiq.alerting.alert import Labels, Severity
from farmiq.alerting.expressions import Absent, Age, Expression, Increase, Latest, metrics_of

MINUTE: Final = 60
HOUR: Final = 3600
DAY: Final = 86_400

RUNBOOK: Final = "docs/operations/runbook.md"


class Level(Struct, frozen=True):
    """At which value it is wrong, and for how long it may be."""

    severity: Severity
    threshold: float
    for_seconds: int = 0


class Rule(Struct, frozen=True, kw_only=True):
    name: str
    summary: str
    """One sentence. `{label}` stands for the value of a label of the expression."""
    expression: Expression
    wrong_when: Literal["above", "below"] = "above"
    levels: tuple[Level, ...]
    """From the mildest to the worst."""
    stays_until_acknowledged: bool = False
    """What cannot be made good again does not close by itself. (In Prometheus it does, after the window.)"""

    def is_wrong(self, value: float, level: Level) -> bool:
        return value > level.threshold if self.wrong_when == "above" else value < level.threshold

    def summary_for(self, labels: Labels) -> str:
        return self.summary.format_map(dict(labels))


RULES: Final = (
    Rule(
        name="FarmiqDataLost",
        summary="Samples were declared lost ({cause}): they will never come",
        # Every replica and both tiers show the same ledger.
        expression=Increase(metric="farmiq_samples_lost_total", window_seconds=HOUR, how="max", by=("cause",)),
        levels=(Level("critical", 0),),
        stays_until_acknowledged=True,
    ),
    Rule(
        name="FarmiqStationDataLost",
        summary="A weigh station has given up events or pictures ({cause}): they will never come",
        expression=Increase(metric="farmiq_station_lost_total", window_seconds=HOUR, how="max", by=("cause",)),
        levels=(Level("critical", 0),),
        stays_until_acknowledged=True,
    ),
    Rule(
        name="FarmiqDataDelayed",
        summary="The oldest event that the cloud does not have has waited for too long",
        expression=Latest(metric="oldest_pending_age_seconds"),
        levels=(Level("warning", HOUR), Level("critical", DAY)),
    ),
    Rule(
        name="FarmiqSyncBacklog",
        summary="More events wait for the cloud than usual",
        expression=Latest(metric="outbox_pending_total"),
        levels=(Level("warning", 1000, MINUTE), Level("critical", 10_000, MINUTE)),
    ),
    Rule(
        name="FarmiqOutboxDeadLetters",
        summary="The cloud refused events for good: they wait at the edge for a person",
        expression=Latest(metric="outbox_dlq_total"),
        levels=(Level("critical", 0),),
    ),
    Rule(
        name="FarmiqDlqGrowing",
        summary="Messages are being given up on {queue}",
        expression=Increase(metric="farmiq_dead_letters_total", window_seconds=15 * MINUTE, by=("queue",)),
        levels=(Level("critical", 0),),
    ),
    Rule(
        name="FarmiqBusDeadLetters",
        summary="Messages that the cloud could not store wait in {queue} for a person",
        expression=Latest(metric="farmiq_bus_queue_messages", by=("queue",), where={"queue": r".+[.]dlq[.]queue"}),
        levels=(Level("warning", 0, MINUTE),),
    ),
    Rule(
        name="FarmiqCloudDrained",
        summary="The cloud is drained and takes no events: everything waits on the edges' disks",
        expression=Latest(metric="farmiq_ingestion_drained"),
        levels=(Level("warning", 0),),
    ),
    Rule(
        name="FarmiqSpoolFullSoon",
        summary="A device that can't deliver has room for less than a day",
        expression=Latest(metric="farmiq_spool_runway_seconds", how="min"),
        wrong_when="below",
        levels=(Level("warning", DAY, MINUTE), Level("critical", 2 * HOUR, MINUTE)),
    ),
    Rule(
        name="FarmiqDeviceQuiet",
        summary="Devices that were here before are not heard any more",
        expression=Latest(metric="farmiq_devices", where={"state": "quiet"}),
        levels=(Level("warning", 0, 10 * MINUTE),),
    ),
    Rule(
        name="FarmiqMessagesRejected",
        summary="Devices send messages that the edge does not take",
        expression=Increase(
            metric="farmiq_ingress_messages_total", window_seconds=15 * MINUTE, where={"outcome": "rejected"}
        ),
        levels=(Level("warning", 0),),
    ),
    Rule(
        name="FarmiqDeviceThrottled",
        summary="A device or a tenant is over a limit: what is over it waits on the device",
        expression=Increase(metric="farmiq_ingress_throttled_total", window_seconds=15 * MINUTE),
        levels=(Level("warning", 0),),
    ),
    Rule(
        name="FarmiqEdgeDiskFloor",
        summary="The edge's disk is nearly full: devices keep their data until there is room again",
        expression=Latest(metric="farmiq_edge_disk_floor"),
        levels=(Level("warning", 0), Level("critical", 1)),
    ),
    Rule(
        name="FarmiqBrokerRefusals",
        summary="Devices go on trying what the broker refuses them ({kind})",
        expression=Latest(metric="farmiq_broker_refused_devices", by=("kind",)),
        levels=(Level("warning", 0, 10 * MINUTE),),
    ),
    Rule(
        name="FarmiqCanaryLost",
        summary="Test messages that go the way of devices' messages do not come back: devices' messages may be vanishing",
        expression=Latest(metric="farmiq_canary_recent_failures"),
        # Of the last 20. A broker or a gateway that starts again costs one or two.
        levels=(Level("critical", 3),),
    ),
    Rule(
        name="FarmiqCloudUnreachable",
        summary="The edge finds no cloud ({code}): everything waits on the edge's disk",
        expression=Latest(metric="farmiq_sync_tenants_paused", by=("code",)),
        levels=(Level("warning", 0, 5 * MINUTE),),
    ),
    Rule(
        name="FarmiqCloudRefusesUs",
        summary="The cloud does not take the edge's requests ({code}): this will not pass by itself",
        expression=Latest(
            metric="farmiq_sync_tenants_paused",
            by=("code",),
            where={"code": "HTTP_401|HTTP_403|HTTP_404|HTTP_405|HTTP_407|HTTP_415|NOT_THE_CLOUD"},
        ),
        levels=(Level("critical", 0, MINUTE),),
    ),
    Rule(
        name="FarmiqDeviceHeld",
        summary="Edge {edge} sends of {device}, which belongs to edge {owner}: farmiq device move {device} --to {edge}",
        expression=Latest(metric="farmiq_ingestion_held_devices", how="max", by=("tenant", "device", "edge", "owner")),
        levels=(Level("warning", 0),),
    ),
    Rule(
        name="FarmiqPicturesGivenUp",
        summary="Pictures do not reach the cloud: they wait at the edge for a person",
        expression=Latest(metric="farmiq_media_sync_failed"),
        levels=(Level("warning", 0),),
    ),
    Rule(
        name="FarmiqAttentionNeeded",
        summary="The edge has noted something for a person: {kind}",
        expression=Latest(metric="farmiq_ops_alerts_open", by=("kind",)),
        levels=(Level("warning", 0),),
    ),
    Rule(
        name="FarmiqServiceDown",
        summary="{job} does not answer",
        expression=Latest(metric="up", how="max", by=("job",), where={"job": "(edge|cloud)-.+|console"}),
        wrong_when="below",
        levels=(Level("critical", 1, 2 * MINUTE),),
    ),
    Rule(
        name="FarmiqBusDisconnected",
        summary="Nothing can come from the bus to {queue}",
        expression=Latest(metric="farmiq_bus_connected", by=("queue",)),
        wrong_when="below",
        levels=(Level("critical", 1, 5 * MINUTE),),
    ),
    Rule(
        name="FarmiqFiguresOld",
        summary="{job} has not measured its backlog for a while: its other figures are not to be trusted",
        expression=Age(metric="farmiq_figures_sampled_timestamp_seconds", by=("job",)),
        levels=(Level("warning", 10 * MINUTE, MINUTE),),
    ),
    Rule(
        name="FarmiqFiguresMissing",
        summary="{job} answers and does not show how old its backlog is",
        expression=Absent(metric="oldest_pending_age_seconds", job="edge-sync-forwarder"),
        levels=(Level("warning", 0, 5 * MINUTE),),
    ),
    Rule(
        name="FarmiqJobFailing",
        summary="The housekeeping job {job_name} fails",
        expression=Latest(metric="farmiq_job_failing", by=("job_name",)),
        levels=(Level("warning", 0, 15 * MINUTE),),
    ),
    Rule(
        name="FarmiqDiskFull",
        summary="The disk under {path} is nearly full",
        expression=Latest(metric="farmiq_disk_free_ratio", how="min", by=("path",)),
        wrong_when="below",
        levels=(Level("warning", 0.15, MINUTE), Level("critical", 0.05)),
    ),
)

_BY_NAME: Final = {rule.name: rule for rule in RULES}


def rule_named(name: str) -> Rule | None:
    """None for a rule that an earlier or later version had."""
    return _BY_NAME.get(name)


def metrics_asked_for() -> frozenset[str]:
    return frozenset(metric for rule in RULES for metric in metrics_of(rule.expression))


def runbook_anchor(name: str) -> str:
    """As Markdown makes it of the heading."""
    return name.lower()


def runbook_url(name: str, runbook: str | None = None) -> str:
    """`runbook` is where its page is published; without it, its path in the sources, which a reader has to find by themselves."""
    return f"{runbook or RUNBOOK}#{runbook_anchor(name)}"


def longest_window_seconds() -> int:
    return max(rule.expression.window_seconds for rule in RULES if isinstance(rule.expression, Increase))
