"""What can be wrong, in words; and what was wrong each time somebody looked. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from farmiq.timeseries.coverage import Span, count, normalise, shared


class Words(Struct, frozen=True):
    """`what` it means, where it was `last_seen`, and what helps. DEVICE stands for the device that it is about."""

    what: str
    last_seen: str
    fix: str


WORDS: Final[Mapping[str, Words]] = {
    "lost_after_edge": Words(
        "the edge has them, its outbox does not wait for them, and the cloud does not have them",
        "in the edge's database, and taken by cloud-ingestion",
        "farmiq dlq ls --service cloud-telemetry-service; if nothing is there, farmiq cloud resend --since TIME --yes",
    ),
    "acked_and_held": Words(
        "the node was told that the edge has them, and the edge has not; the node still holds them and will not send them again",
        "on the node's disk",
        "farmiq spool ls; a new epoch of the edge's database makes its nodes send again",
    ),
    "acked_and_gone": Words(
        "the node was told that the edge has them and gave them up, and the edge does not have them",
        "in the edge's database, which acknowledged them",
        "restore a backup of the edge that has them; else they are gone for good",
    ),
    "not_in_spool": Words(
        "the node wrote them, its spool does not hold them, and no loss record names them",
        "on the node's disk",
        "farmiq spool verify",
    ),
    "nowhere": Words(
        "there are later ones, and no device says that it still holds these",
        "never seen",
        "look at the device: it skipped them, or was replaced before it had sent them",
    ),
    "not_registered": Words(
        "the edge does not know the device, whose spool is on this machine: what it sends is refused, and its spool fills",
        "on the node's disk",
        "farmiq device add; an edge that was restored from a backup has forgotten the devices that were added since",
    ),
    "edge_lacks": Words(
        "the cloud has them and the edge, which sent them, has not: it was restored from a backup, or its tables were changed",
        "in the cloud's database",
        "nothing is lost to the cloud; a node that still holds them sends them again after the edge's epoch has changed",
    ),
    "edge_ahead": Words(
        "the edge has sequences above those that the node has ever synced: its spool was replaced or cut",
        "in the edge's database",
        "farmiq spool verify; give a node with a new disk a new spool folder, so that its stream gets a new id",
    ),
    "aggregates_short": Words(
        "the aggregates count fewer samples than coverage says were received",
        "in the coverage of this tier",
        "the tables were changed by hand: restore telemetry_agg from a backup",
    ),
    "rows_absent": Words(
        "coverage says that they are stored, and no row has them",
        "in the coverage of this tier",
        "rows were deleted behind the service's back: restore telemetry_raw from a backup or from the other tier",
    ),
    "stored_twice": Words(
        "sequences have more than one row",
        "in telemetry_raw",
        "rows were inserted behind the service's back: delete all but the first of each stream_id and seq",
    ),
    "not_covered": Words(
        "rows have sequences that coverage does not know",
        "in telemetry_raw",
        "rows were inserted behind the service's back: look at them with farmiq spool and psql",
    ),
    "single_rows_differ": Words(
        "the rows of single readings are not as many as the aggregates count",
        "in telemetry_agg",
        "rows were changed behind the service's back: restore telemetry_raw from a backup",
    ),
    "single_missing": Words(
        "single readings that the edge has and that neither its outbox nor the cloud has",
        "in the edge's database",
        "farmiq dlq ls --service cloud-telemetry-service; if nothing is there, farmiq cloud resend --since TIME --yes",
    ),
    "single_surplus": Words(
        "the cloud counts more single readings than the edge ever had",
        "in the cloud's database",
        "the edge was restored from a backup, or a table was changed",
    ),
    "hours_disagree": Words(
        "the tiers count different numbers of samples in an hour, and nothing on the way explains it",
        "in telemetry_agg",
        "farmiq audit --deep compares the rows of both tiers with their coverage",
    ),
    "hours_differ": Words(
        "an hour or a day has as many samples at both tiers, with another sum, minimum or maximum",
        "in telemetry_agg of both tiers, and not the same",
        "farmiq audit --deep names the tier whose rows or aggregates were changed: restore its telemetry_agg from a backup",
    ),
    "aggregates_missing": Words(
        "the edge has aggregated them; no aggregate of them waits in its outbox, and the cloud's aggregates do not count them",
        "in the edge's database, and taken by cloud-ingestion",
        "farmiq cloud resend --since TIME --yes: the edge sends again what its outbox still holds",
    ),
    "aggregates_changed": Words(
        "the aggregates of hours are not what the rows of this tier come to",
        "in telemetry_raw or telemetry_agg of this tier",
        "one of the tables was changed by hand: restore it from a backup, or from the other tier",
    ),
    "losses_disagree": Words(
        "the coverage of this tier counts other sequences as declared lost than its records of losses name",
        "in streams or stream_losses of this tier",
        "restore the table from a backup; the other tier's records: GET /api/v1/records/losses",
    ),
    "loss_not_at_edge": Words(
        "the node was told that the edge has the record of their loss, and the edge has not",
        "in the loss journal on the node's disk",
        "farmiq spool ls; a new epoch of the edge's database makes its nodes declare them again",
    ),
    "loss_not_in_cloud": Words(
        "the edge counts them as declared lost; no such record waits in its outbox, and the cloud does not count them as lost",
        "in the edge's database, and taken by cloud-ingestion",
        "farmiq cloud resend --since TIME --yes: the edge sends again what its outbox still holds",
    ),
    "device_forgotten": Words(
        "the cloud has a device of this edge, and the edge does not know it: it was restored from a backup, or its tables were "
        "changed",
        "in the cloud's database",
        "farmiq device add DEVICE, and its node sends again; farmiq device move DEVICE --to EDGE, if another edge has it now",
    ),
    "analytics_differs": Words(
        "analytics does not have an hour as the cloud's aggregates have it, and nothing on the way explains it",
        "in telemetry_agg of the cloud, or in analytics_hours",
        "farmiq cloud resend --since TIME --yes tells analytics again of every hour that changed since then",
    ),
    "picture_forgotten": Words(
        "a picture that the cloud has and the edge, whose station took it, does not know",
        "in the cloud's database",
        "nothing is lost to the cloud; restore media_objects of the edge from a backup",
    ),
    "content_differs": Words(
        "both tiers have them, with another time, metric or value",
        "in the databases of both tiers, and not the same",
        "farmiq audit --deep names a tier whose rows were changed after they were stored; if it names none, something else came "
        "to the cloud first under these sequences: farmiq device owners DEVICE shows whose it is, and who else sends of it",
    ),
    "rows_changed": Words(
        "rows are not what this tier has stored: they were changed behind the service's back",
        "in telemetry_raw",
        "restore telemetry_raw from a backup, or these rows from the other tier: GET /api/v1/streams/STREAM/samples has them",
    ),
    "record_differs": Words(
        "both tiers have it under one id, and it does not say the same",
        "in the databases of both tiers, and not the same",
        "restore the table from a backup of the tier that is wrong; farmiq device owners DEVICE shows who else sends of it",
    ),
    "record_missing": Words(
        "the edge has it; no event of its kind waits in the outbox, and the cloud does not have it",
        "in the edge's database, and taken by cloud-ingestion",
        "farmiq dlq ls --service cloud-telemetry-service; if nothing is there, farmiq cloud resend --since TIME --yes",
    ),
    "record_surplus": Words(
        "the cloud has it of a device of this edge, and the edge, which keeps such for longer, has not: it was restored from a "
        "backup, or another edge sent it",
        "in the cloud's database",
        "farmiq device owners DEVICE shows whose it is, and who else sends of it",
    ),
    "dead_letter": Words(
        "given up by the edge's outbox, because the cloud refused them: they wait for a person",
        "in the edge's outbox",
        "the console's page Dead letters, or POST /api/v1/sync/redrive of edge-sync-forwarder",
    ),
    "dead_event": Words(
        "events that the edge's outbox has given up, because the cloud refused them: they wait for a person",
        "in the edge's outbox",
        "the console's page Dead letters, or POST /api/v1/sync/redrive of edge-sync-forwarder",
    ),
    "session_missing": Words(
        "a weigh session that the edge has; no event of it waits in the outbox, and the cloud does not know it",
        "in the edge's database, and taken by cloud-ingestion",
        "farmiq dlq ls --service cloud-telemetry-service; if nothing is there, farmiq cloud resend --since TIME --yes",
    ),
    "session_differs": Words(
        "a weigh session that ended otherwise at the edge than in the cloud, and nothing on the way explains it",
        "in both databases, and not the same",
        "farmiq cloud resend --since TIME --yes, if the cloud is wrong; else restore weight_sessions of the edge from a backup",
    ),
    "session_forgotten": Words(
        "a weigh session that the cloud has and the edge, which sent it, has not: it was restored from a backup",
        "in the cloud's database",
        "nothing is lost to the cloud; a station that still has it sends it again after the edge's epoch has changed",
    ),
    "picture_missing": Words(
        "a picture that the edge has; no transfer waits for it, and the cloud does not have it",
        "in the edge's object store",
        "farmiq media check --tier cloud --repair: the cloud then asks for it again",
    ),
    "picture_failed": Words(
        "a picture whose transfer was given up: it waits for a person",
        "in the edge's object store",
        "the console's page Sync, or POST /api/v1/sync/media/redrive of edge-sync-forwarder",
    ),
    "picture_differs": Words(
        "a picture has another SHA-256, time or session at the edge than in the cloud",
        "in the databases of both tiers, and not the same",
        "farmiq media check --deep at both tiers says whose bytes are not what its database says",
    ),
    "picture_object": Words(
        "a picture that the database calls stored, and the object store does not have or has otherwise",
        "in the object store of this tier",
        "farmiq media check --tier edge (or cloud) --repair: what the other tier has is sent again",
    ),
    "half_erased": Words(
        "the tenant was erased in the cloud, and this edge still has what it stored of these devices before: it is not compared",
        "in the edge's database",
        "farmiq tenant erase TENANT --tier edge --reason TEXT --yes",
    ),
    "cloud_dead_letter": Words(
        "messages that the cloud took and its services could not store: they wait for a person",
        "in the dead-letter queue",
        "farmiq dlq show, and farmiq dlq replay when the cause is mended",
    ),
}

# Where something is missing can look different a moment later, and be the same thing.
MISSING: Final = frozenset({"lost_after_edge", "acked_and_held", "acked_and_gone", "not_in_spool", "nowhere"})

# Found in one snapshot of one tier, or told by whoever holds it: nothing that moves can look like it.
CERTAIN: Final = frozenset(
    {
        "aggregates_short",
        "rows_absent",
        "stored_twice",
        "not_covered",
        "losses_disagree",
        "aggregates_changed",
        "device_forgotten",
        "single_rows_differ",
        "content_differs",
        "rows_changed",
        "record_differs",
        "not_registered",
        "dead_letter",
        "dead_event",
        "picture_failed",
        "picture_differs",
        "picture_object",
        "half_erased",
        "cloud_dead_letter",
    }
)


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that does not balance. Sequences are both included."""

    kind: str
    tenant_id: str
    subject: str
    count: int
    what: str
    last_seen: str
    fix: str
    device_id: str | None = None
    tier: str | None = None
    stream_id: UUID | None = None
    first_seq: int | None = None
    last_seq: int | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        return "missing" if self.kind in MISSING else self.kind, self.tenant_id, self.subject

    @property
    def span(self) -> Span | None:
        return None if self.first_seq is None or self.last_seq is None else (self.first_seq, self.last_seq + 1)


def found(
    kind: str,
    tenant_id: str,
    subject: str,
    count_: int,
    *,
    device_id: str | None = None,
    tier: str | None = None,
    stream_id: UUID | None = None,
    span: Span | None = None,
) -> Finding:
    words = WORDS[kind]
    return Finding(
        kind=kind,
        tenant_id=tenant_id,
        subject=subject,
        count=count_,
        what=words.what,
        last_seen=words.last_seen,
        fix=words.fix.replace("TENANT", tenant_id).replace("DEVICE", device_id or "DEVICE"),
        device_id=device_id,
        tier=tier,
        stream_id=stream_id,
        first_seq=None if span is None else span[0],
        last_seq=None if span is None else span[1] - 1,
    )


def lasting(earlier: Iterable[Finding], now: Iterable[Finding]) -> list[Finding]:
    """What was wrong before and still is: of ranges their common part, of numbers the smaller one. What is certain needs no
    second look."""
    before: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in earlier:
        before.setdefault(finding.key, []).append(finding)
    return [
        part
        for finding in now
        for part in ([finding] if finding.kind in CERTAIN else _common(before.get(finding.key, []), finding))
    ]


def is_doubtful(findings: Iterable[Finding]) -> bool:
    """Whether asking again may take one of them away."""
    return any(finding.kind not in CERTAIN for finding in findings)


def _common(before: list[Finding], finding: Finding) -> list[Finding]:
    if not before:
        return []
    if finding.span is None:
        return [replace(finding, count=min(finding.count, max(one.count for one in before)))]
    spans = normalise(one.span for one in before if one.span is not None)
    parts = shared([finding.span], spans)
    return [replace(finding, first_seq=first, last_seq=end - 1, count=count([(first, end)])) for first, end in parts]
