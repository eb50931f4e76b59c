"""Asking every tier, with answers that a test gives."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from farmiq.audit.balance import balance
from farmiq.console.neighbours import Refused
from support.audited_farm import ASKED_AT, Answer, AuditedFarm, account, registered

DAY = ASKED_AT - timedelta(days=1, hours=12)
LOST, MOVED, OLD = UUID(int=1), UUID(int=2), UUID(int=3)


def weighed(session_id: UUID, **parts: Any) -> Answer:
    known = {"id": session_id, "device_id": "station-1", "status": "finalized", "first_event_at": DAY}
    return known | parts


def unknown(_asked: dict[str, Any]) -> Answer:
    raise Refused("edge-weighvision-session", 404, "unknown_session", "")


def restored_farm(kept_since: Any) -> AuditedFarm:
    """The cloud has three sessions of a day of which the edge has nothing: one of them stands on another day at the edge, and
    one is of before the station was registered here."""
    farm = AuditedFarm()
    path = "/api/v1/weighvision"
    farm.answers["/api/v1/devices"] = {
        "devices": [registered("station-1", kind="station", created_at=DAY - timedelta(hours=3))]
    }
    digest = {"device_id": "station-1", "day_at": DAY, "state": "finalized", "rows": 3, "digest": "9"}
    farm.answers[f"cloud-telemetry-service {path}/session-days"] = {"days": [digest]}
    farm.answers[f"edge-weighvision-session {path}/session-days"] = {"days": [], "kept_since": kept_since}
    farm.answers[f"cloud-telemetry-service {path}/sessions"] = {
        "sessions": [weighed(LOST), weighed(MOVED), weighed(OLD, first_event_at=DAY - timedelta(hours=9))]
    }
    farm.answers[f"{path}/sessions/{LOST}"] = unknown
    farm.answers[f"{path}/sessions/{MOVED}"] = {"session": weighed(MOVED)}
    return farm


async def test_a_session_that_the_edge_lost_with_a_restore_is_named() -> None:
    verdict = balance(await restored_farm(ASKED_AT - timedelta(days=365)).read())
    assert [(one.kind, one.subject) for one in verdict.findings] == [("session_forgotten", str(LOST))]


async def test_a_session_that_the_retention_of_the_edge_took_is_not_missed() -> None:
    for kept_since in (DAY + timedelta(days=1), None):
        assert balance(await restored_farm(kept_since).read()).balanced


def troubled_farm() -> AuditedFarm:
    """Two devices of which one has dead letters of every kind."""
    farm = AuditedFarm()

    def some(asked: dict[str, Any]) -> list[str]:
        return [name for name in ("healthy", "ill") if asked.get("device_ids") in (None, name)]

    farm.answers["/api/v1/devices"] = lambda asked: {"devices": [registered(name) for name in some(asked)]}
    farm.answers["/api/v1/accounts"] = lambda asked: {
        "devices": [account(name) for name in some(asked)],
        "retired_samples": 0,
    }
    dead = {"is_dead": True, "device_id": "ill"}
    farm.answers["/api/v1/sync/waiting"] = {
        "events": [{"event_type": "barn.door", **dead}, {"event_type": "telemetry.ingested", **dead}],
        "is_complete": True,
    }
    farm.answers["/api/v1/bus/queues"] = {
        "queues": [{"service": "cloud-telemetry-service", "waiting": 0, "retrying": 0, "dead": 3}]
    }
    farm.answers["/api/v1/dlq"] = lambda asked: {
        "queues": [
            {
                "service": "cloud-telemetry-service",
                "groups": [{"count": 3}] if asked["device_id"] in (None, "ill") else [],
            }
        ]
    }
    return farm


async def test_of_one_device_only_its_own_trouble_is_told() -> None:
    farm = troubled_farm()
    for device_id, kinds in ((None, ["cloud_dead_letter", "dead_event"]), ("ill", ["cloud_dead_letter", "dead_event"])):
        verdict = balance(await farm.read(device_id=device_id))
        assert [finding.kind for finding in verdict.findings] == kinds
    healthy = balance(await farm.read(device_id="healthy"))
    assert (healthy.balanced, [one.device_id for one in healthy.devices]) == (True, ["healthy"])


async def test_a_device_that_was_silent_since_then_or_has_never_measured_is_still_the_edges() -> None:
    farm = AuditedFarm()
    farm.answers["/api/v1/devices"] = {"devices": [registered("node-1"), registered("node-2")]}
    farm.answers["/api/v1/accounts"] = {"devices": [account("node-1")], "retired_samples": 0}
    assert balance(await farm.read()).quiet == ["node-2"]
    silent = balance(await farm.read(since=ASKED_AT - timedelta(hours=2)))
    assert (silent.quiet, silent.devices, silent.balanced) == (["node-1", "node-2"], [], True)


async def test_a_tier_of_an_earlier_release_has_no_digests_and_nothing_is_called_different() -> None:
    farm = AuditedFarm()
    stream = {"stream_id": UUID(int=4), "received": [[1, 11]], "lost": [], "first_seen_at": DAY, "last_seen_at": DAY}
    farm.answers["/api/v1/accounts"] = {"devices": [account("node-1", streams=[stream])], "retired_samples": 0}
    farm.answers["/api/v1/devices"] = {"devices": [registered("node-1")]}

    def older(_asked: dict[str, Any]) -> Answer:
        raise Refused("edge-telemetry-timeseries", 404, "", "")

    farm.answers["edge-telemetry-timeseries /api/v1/content"] = older
    farm.answers["edge-telemetry-timeseries /api/v1/records/losses/days"] = older
    verdict = balance(await farm.read())
    assert [one for one in verdict.findings if "content" in one.kind or "record" in one.kind] == []
    assert verdict.devices[0].content_unknown == 10
    assert (
        "edge-telemetry-timeseries has no digests of content yet, so contents of demo were not compared: update it."
        in (verdict.notes)
    )
    assert "Each declared loss was not compared: edge-telemetry-timeseries does not offer it." in (verdict.notes)


async def test_an_edge_of_an_earlier_release_does_not_tell_what_is_held_and_is_audited_all_the_same() -> None:
    farm = AuditedFarm()

    def older(_asked: dict[str, Any]) -> Answer:
        raise Refused("edge-sync-forwarder", 404, "", "")

    for path in ("/api/v1/sync/held", "/api/v1/ingress/limits", "/api/v1/ingress/refusals"):
        farm.answers[path] = older
    verdict = balance(await farm.read())
    assert (verdict.balanced, verdict.held, verdict.notes) == (True, [], [])


async def test_devices_that_are_limited_or_refused_are_named_for_an_hour() -> None:
    farm = AuditedFarm()
    farm.answers["/api/v1/ingress/limits"] = {"limited": [{"device_id": "node-1", "messages": 1200, "reason": "rate"}]}
    refusal = {"kind": "publish_denied", "count": 7}
    farm.answers["/api/v1/ingress/refusals"] = {
        "refusals": [
            {"device_id": "node-2", "last_at": ASKED_AT - timedelta(minutes=59), **refusal},
            {"device_id": "node-3", "last_at": ASKED_AT - timedelta(minutes=61), **refusal},
        ]
    }
    assert balance(await farm.read()).notes == [
        "Messages that devices keep because the gateway limited them in the last hour: node-1 1,200 (rate).",
        "Refused by the broker, the last one less than an hour ago: node-2 7 (publish_denied).",
    ]


@pytest.mark.parametrize(
    ("begun_at", "is_named"),
    [("2026-10-31T00:00:00Z", True), ("2026-10-01T00:00:00Z", False)],
    ids=["the edge has it from before", "it was registered after"],
)
async def test_a_tenant_that_the_cloud_has_erased_is_not_compared_while_the_edge_has_it(
    begun_at: str, is_named: bool
) -> None:
    farm = AuditedFarm()
    farm.answers["/api/v1/devices"] = {"devices": [registered("node-1", created_at="2026-10-15T00:00:00Z")]}
    farm.answers["edge-telemetry-timeseries /api/v1/accounts"] = {"devices": [account("node-1")], "retired_samples": 0}
    farm.answers["/api/v1/erasures"] = {"erasures": [{"begun_at": begun_at, "erased_by": "anna@office"}]}
    verdict = balance(await farm.read())
    named = [finding for finding in verdict.findings if finding.kind == "half_erased"]
    assert bool(named) is is_named
    assert bool(verdict.devices) is not is_named
    for finding in named:
        assert (finding.count, finding.fix) == (1, "farmiq tenant erase demo --tier edge --reason TEXT --yes")
        assert "node-1" in finding.subject
        assert "anna@office" in finding.subject
