"""States that 0.1.0 called balanced and that are not (promise-cloud 4), as the tiers tell them."""

import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from farmiq.audit.balance import Balance, balance
from farmiq.kit.ids import reading_id
from support.audited_farm import ASKED_AT, Answer, AuditedFarm, account, registered

STREAM = UUID(int=4)
DAY = ASKED_AT.replace(hour=0)
EDGE, CLOUD = "edge-telemetry-timeseries", "cloud-telemetry-service"
BUCKETS, READINGS = "/api/v1/records/buckets", "/api/v1/records/readings"


def farm_of(edge: Answer | None, cloud: Answer | None, mode: str = "raw") -> AuditedFarm:
    farm = AuditedFarm()
    farm.answers["/api/v1/ingress/sync-plan"] = {"mode": mode}
    created_at = (ASKED_AT - timedelta(days=99)).isoformat()
    farm.answers["/api/v1/devices"] = {"devices": [registered("node-1", created_at=created_at)]}
    for service, known in ((EDGE, edge), (CLOUD, cloud)):
        farm.answers[f"{service} /api/v1/accounts"] = {"devices": [known] if known else [], "retired_samples": 0}
    return farm


def rows_at(farm: AuditedFarm, service: str, path: str, *rows: dict[str, Any]) -> None:
    """With a digest that no other rows have."""
    digest = json.dumps(rows, default=str)
    day = {"device_id": "node-1", "day_at": DAY, "state": "s", "rows": len(rows), "digest": digest}
    farm.answers[f"{service} {path}/days"] = {"days": [day] if rows else [], "kept_since": None}
    farm.answers[f"{service} {path}"] = {"records": list(rows)}


def bucket(window: str, count: int, total: float = 1.0) -> dict[str, Any]:
    content = ["temperature", "t1", "C", window, count, total, 0.0, 2.0, False]
    key = UUID(int=1 if window == "1h" else 2)
    return {"id": key, "device_id": "node-1", "at": DAY, "content": json.dumps(content)}


def reading(number: int, content: str = "20 C") -> dict[str, Any]:
    return {"id": UUID(int=number), "device_id": "node-1", "at": DAY, "content": content}


def stream(*received: list[int], **parts: Any) -> Answer:
    times = {"first_seen_at": DAY, "last_seen_at": DAY}
    return {"stream_id": STREAM, "received": list(received), "lost": [], **times} | parts


async def verdict_of(farm: AuditedFarm) -> Balance:
    verdict = balance(await farm.read())
    parts = (verdict.stored, verdict.lost, verdict.in_flight, verdict.dead_lettered, verdict.unexplained)
    assert verdict.captured == sum(parts)
    assert verdict.balanced is (verdict.findings == [])
    return verdict


async def test_an_empty_cloud_does_not_balance_where_it_is_told_of_aggregates_only() -> None:
    farm = farm_of(account("node-1", 100_000, streams=[stream([1, 100_001])]), None, "aggregated")
    rows_at(farm, EDGE, BUCKETS, bucket("1h", 100_000), bucket("1d", 100_000))
    verdict = await verdict_of(farm)
    assert (verdict.stored, verdict.unexplained) == (0, 100_000)
    assert [one.kind for one in verdict.findings] == ["hours_disagree", "aggregates_missing"]
    assert "100000 samples" in verdict.findings[0].what
    assert "nothing in the cloud" in verdict.findings[0].what


async def test_an_aggregate_that_waits_in_the_outbox_is_on_its_way() -> None:
    farm = farm_of(account("node-1", 50, streams=[stream([1, 51])]), None, "aggregated")
    rows_at(farm, EDGE, BUCKETS, bucket("1h", 50), bucket("1d", 50))
    event = {"event_type": "telemetry.aggregated", "is_dead": False, "device_id": "node-1", "occurred_at": DAY}
    farm.answers["/api/v1/sync/waiting"] = {"events": [event], "is_complete": True}
    verdict = await verdict_of(farm)
    assert (verdict.balanced, verdict.stored, verdict.in_flight_at) == (True, 0, {"edge_outbox": 50})


@pytest.mark.parametrize("mode", ["raw", "both"])
async def test_single_readings_that_the_cloud_does_not_have_are_named_in_every_mode(mode: str) -> None:
    farm = farm_of(account("node-1", 3), None, mode)
    rows_at(farm, EDGE, READINGS, reading(1), reading(2), reading(3))
    waits = {"event_type": "telemetry.ingested", "is_dead": False, "device_id": "node-1", "id": UUID(int=2)}
    farm.answers["/api/v1/sync/waiting"] = {"events": [waits], "is_complete": True}
    verdict = await verdict_of(farm)
    assert (verdict.stored, verdict.unexplained, verdict.in_flight_at) == (0, 2, {"edge_outbox": 1})
    missing = [one.subject for one in verdict.findings if one.kind == "single_missing"]
    assert missing == [str(reading_id(UUID(int=number))) for number in (1, 3)]


async def test_a_single_reading_that_says_something_else_in_the_cloud_is_named() -> None:
    farm = farm_of(account("node-1", 1), account("node-1", 1))
    rows_at(farm, EDGE, READINGS, reading(1))
    rows_at(farm, CLOUD, READINGS, reading(1, "21 C"))
    (finding,) = (await verdict_of(farm)).findings
    assert (finding.kind, finding.subject) == ("record_differs", str(UUID(int=1)))
    assert "20 C at the edge, 21 C in the cloud" in finding.what


@pytest.mark.parametrize(
    ("recent", "kinds"),
    [
        ([], ["lost_after_edge"]),
        ([(999_501, 500)], ["lost_after_edge"]),
        ([(100_001, 4000)], []),
        ([(98_001, 4000), (102_001, 4000)], ["lost_after_edge"]),
    ],
)
async def test_the_bus_explains_one_pack_a_message_and_only_what_is_no_older_than_its_oldest(
    recent: list[tuple[int, int]], kinds: list[str]
) -> None:
    """A hole of 4,000 samples, and one message on the bus."""
    farm = farm_of(
        account("node-1", 1_000_000, streams=[stream([1, 1_000_001])]),
        account("node-1", 996_000, streams=[stream([1, 100_001], [104_001, 1_000_001])]),
    )
    queue = {"service": CLOUD, "waiting": 1, "retrying": 0, "dead": 0, "oldest_seconds": 400.0}
    farm.answers["/api/v1/bus/queues"] = {"queues": [queue]}
    pack = {"event_type": "telemetry.batch.ingested", "is_dead": False, "device_id": "node-1", "stream_id": str(STREAM)}
    events = [pack | {"first_seq": str(first), "samples": samples} for first, samples in recent]
    farm.answers["/api/v1/sync/acknowledged"] = {"events": events, "is_complete": True}
    verdict = await verdict_of(farm)
    assert [one.kind for one in verdict.findings] == kinds
    asked = [query["seconds"] for _, path, query in farm.asked if path == "/api/v1/sync/acknowledged"]
    assert asked == [400.0]


async def test_an_hour_with_as_many_samples_and_another_sum_is_found_and_rounding_is_not() -> None:
    whole = account("node-1", 50, streams=[stream([1, 51])])
    farm = farm_of(whole, whole)
    rows_at(farm, EDGE, BUCKETS, bucket("1h", 50, 60.0), bucket("1d", 50, 60.0))
    rows_at(farm, CLOUD, BUCKETS, bucket("1h", 50, 60.000000001), bucket("1d", 50, 61.0))
    (finding,) = (await verdict_of(farm)).findings
    assert (finding.kind, finding.device_id) == ("hours_differ", "node-1")
    assert "1d from 2026-11-01 00:00 UTC: 50 samples, sum 60, 0 to 2 at the edge" in finding.what


async def test_a_device_of_this_edge_that_the_edge_has_forgotten_is_named_and_anothers_is_not() -> None:
    farm = farm_of(None, account("node-9"))
    farm.answers["/api/v1/device-owners"] = {
        "owners": [
            {"device_id": "node-9", "edge_cluster_id": "edge-1"},
            {"device_id": "node-1", "edge_cluster_id": "edge-1"},
            {"device_id": "node-7", "edge_cluster_id": "edge-2"},
        ]
    }
    verdict = await verdict_of(farm)
    assert [(one.kind, one.device_id) for one in verdict.findings] == [("device_forgotten", "node-9")]
    assert "farmiq device add node-9" in verdict.findings[0].fix
    assert verdict.elsewhere == []


async def test_losses_that_coverage_and_records_do_not_agree_on_are_named_with_their_tier() -> None:
    lost = {"lost": [[51, 61]]}
    edge = account("node-1", 50, streams=[stream([1, 51], **lost, declared=[[51, 61]])])
    cloud = account("node-1", 50, streams=[stream([1, 51], **lost, declared=[[51, 59]])])
    (finding,) = (await verdict_of(farm_of(edge, cloud))).findings
    assert (finding.kind, finding.tier, finding.first_seq, finding.last_seq) == ("losses_disagree", "cloud", 59, 60)


async def test_hours_that_analytics_has_not_are_named_unless_they_are_still_to_be_told_or_on_the_bus() -> None:
    whole = account("node-1", 50, streams=[stream([1, 51])])
    farm = farm_of(whole, whole)

    def hour(number: int, count: int, is_unsent: bool, changed_seconds: float) -> dict[str, Any]:
        content = ["temperature", "t1", "C", "1h", count, 20.0, 0.0, 2.0, is_unsent, changed_seconds]
        return {"id": UUID(int=number), "device_id": "node-1", "at": DAY, "content": json.dumps(content)}

    path = "/api/v1/records/hours"
    rows_at(farm, CLOUD, path, hour(1, 50, False, 9000.0), hour(2, 50, True, 10.0), hour(3, 50, False, 100.0))
    rows_at(farm, "cloud-analytics-service", path, hour(4, 9, False, 0.0))
    queue = {"service": "cloud-analytics-service", "waiting": 1, "retrying": 0, "dead": 0, "oldest_seconds": 400.0}
    farm.answers["/api/v1/bus/queues"] = {"queues": [queue]}
    found = [(one.kind, one.subject) for one in (await verdict_of(farm)).findings]
    assert found == [("analytics_differs", str(UUID(int=1))), ("analytics_differs", str(UUID(int=4)))]


async def test_everything_that_is_kept_is_compared_unless_a_time_is_given() -> None:
    farm = farm_of(None, None)
    await farm.read()
    compared = [query["from"] for _, path, query in farm.asked if path.endswith(("-days", "/days"))]
    assert {one[:4] for one in compared} == {"0001"}
    farm.asked.clear()
    await farm.read(since=ASKED_AT - timedelta(hours=2))
    compared = [query["from"] for _, path, query in farm.asked if path.endswith(("-days", "/days"))]
    assert {one[:13] for one in compared} == {"2026-11-01T10"}
