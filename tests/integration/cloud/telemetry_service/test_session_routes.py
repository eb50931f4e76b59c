"""Weigh sessions and events as a reader gets them: joined, complete or not, and of one tenant."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio

from farmiq.contracts.decoding import encode
from farmiq.contracts.envelope import BusEnvelope
from farmiq.contracts.weighvision import ImageCaptured, WeightRecorded
from farmiq.kit.postgres import Pool
from farmiq.timeseries.paging import cursor
from farmiq.timeseries.stream import Origin
from support.cloud_queries import cloud_api, viewer_of
from support.cloud_storing import delivery, store_all
from support.cloud_weighings import a_session, cancelled, created, finalized, number, other, told
from support.query_api import QueryApi
from support.telemetry import ELSEWHERE, HERE, NOW

SESSIONS = "/api/v1/weighvision/sessions"
EVENTS = "/api/v1/events"
RANGE = {
    "from": f"{NOW - timedelta(hours=2):%Y-%m-%dT%H:%M:%SZ}",
    "to": f"{NOW + timedelta(hours=2):%Y-%m-%dT%H:%M:%SZ}",
}
DEMO: dict[str, Any] = {"tenant_id": "demo", **RANGE}
BARN_2 = Origin("demo", "farm-1", "barn-2", "station-2")


@pytest_asyncio.fixture
async def api(cloud_url: str) -> AsyncIterator[QueryApi]:
    async with cloud_api(cloud_url) as found:
        yield found


async def say(pool: Pool, *envelopes: BusEnvelope) -> None:
    await store_all(pool, *(delivery(encode(envelope)) for envelope in envelopes))


async def picture_stored(pool: Pool, tenant_id: str, media: int, session: int | None, state: str = "stored") -> None:
    await pool.execute(
        """
        INSERT INTO media_objects (tenant_id, id, session_id, bucket, object_key, mime_type, size_bytes, captured_at, state,
                                   sha256, stored_at, verified_at)
        VALUES ($1, $2, $3, 'b', $4, 'image/jpeg', 9, $5, $6, repeat('0', 64), $5, $5)
        """,
        tenant_id,
        number(media),
        None if session is None else number(session),
        f"k{media}",
        NOW,
        state,
    )


async def test_sessions_come_newest_first_in_pages_and_as_filtered(api: QueryApi, cloud_pool: Pool) -> None:
    for at in range(1, 8):
        origin = HERE if at % 2 else BARN_2
        await say(
            cloud_pool,
            told(created(f"batch-{at % 3}"), at, seconds=60.0 * at, session=at, origin=origin),
            *([told(finalized(0), 100 + at, seconds=60.0 * at + 9, session=at, origin=origin)] if at > 4 else []),
        )
    pages = await api.pages(SESSIONS, **DEMO, limit=3)
    ids = [one["id"] for page in pages for one in page["sessions"]]
    assert ids == [str(number(at)) for at in range(7, 0, -1)]
    assert [len(page["sessions"]) for page in pages] == [3, 3, 1]
    expected = {
        ("device_id", "station-2"): [6, 4, 2],
        ("barn_id", "barn-1"): [7, 5, 3, 1],
        ("farm_id", "farm-1"): [7, 6, 5, 4, 3, 2, 1],
        ("batch_id", "batch-1"): [7, 4, 1],
        ("status", "finalized"): [7, 6, 5],
        ("farm_id", "farm-2"): [],
    }
    for (name, value), numbers in expected.items():
        found = (await api.get(SESSIONS, **DEMO, **{name: value}))["sessions"]
        assert [one["id"] for one in found] == [str(number(at)) for at in numbers], name
    both = await api.get(SESSIONS, **DEMO, barn_id="barn-2", status="finalized", batch_id="batch-0")
    assert [one["id"] for one in both["sessions"]] == [str(number(6))]
    early = await api.get(SESSIONS, tenant_id="demo", **{"from": RANGE["from"], "to": f"{NOW:%Y-%m-%dT%H:%M:%SZ}"})
    assert early == {"sessions": [], "next": None}


async def test_a_complete_session_lacks_nothing(api: QueryApi, cloud_pool: Pool) -> None:
    await say(cloud_pool, *a_session(1))
    # One was sent as the session's. The other was sent before anybody knew of the session.
    await picture_stored(cloud_pool, "demo", 1500, 1)
    await picture_stored(cloud_pool, "demo", 1501, None)
    found = await api.get(f"{SESSIONS}/{number(1)}", tenant_id="demo")
    assert found["lacks"] == []
    assert found["first_stored_at"] <= found["last_stored_at"]
    assert (found["session"]["status"], found["session"]["weights"], found["session"]["images_announced"]) == (
        "finalized",
        2,
        2,
    )
    assert [one["weight_kg"] for one in found["weights"]] == [120.0, 121.0]
    assert [one["predicted_weight_kg"] for one in found["inferences"]] == [121.3]
    pictures = found["pictures"]
    assert (pictures["expected"], pictures["announced"], pictures["stored"]) == (2, 2, 2)
    assert {one["state"] for one in pictures["pictures"]} == {"stored"}


async def test_a_session_names_what_has_not_come_yet(api: QueryApi, cloud_pool: Pool) -> None:
    async def lacks() -> list[str]:
        answer: list[str] = (await api.get(f"{SESSIONS}/{number(1)}", tenant_id="demo"))["lacks"]
        return answer

    picture = ImageCaptured(media_id=number(1500))
    await say(cloud_pool, told(picture, 1, session=1))
    assert await lacks() == ["session_created", "session_ended", "weight", "pictures_stored"]
    await say(cloud_pool, told(finalized(2, final_weight_kg=None), 2, seconds=60, session=1))
    assert await lacks() == ["session_created", "weight", "pictures_announced", "pictures_stored"]
    await picture_stored(cloud_pool, "demo", 1500, 1)
    await picture_stored(cloud_pool, "demo", 1501, 1, state="announced")
    await say(cloud_pool, told(created(initial_weight_kg=None), 3, session=1))
    await say(cloud_pool, told(ImageCaptured(media_id=number(1501)), 4, session=1))
    assert await lacks() == ["weight", "pictures_stored"]
    await cloud_pool.execute("UPDATE media_objects SET state = 'stored'")
    await say(cloud_pool, told(WeightRecorded(weight_kg=5.0), 5, session=1))
    assert await lacks() == []
    await say(cloud_pool, told(cancelled(), 6, session=2))
    assert (await api.get(f"{SESSIONS}/{number(2)}", tenant_id="demo"))["lacks"] == []


async def test_events_of_other_types_are_found_by_device_type_and_time(api: QueryApi, cloud_pool: Pool) -> None:
    bodies = [other(at, event_type="door.opened" if at % 2 else "fan.failed", seconds=float(at)) for at in range(1, 7)]
    await store_all(cloud_pool, *(delivery(body) for body in bodies))
    pages = await api.pages(EVENTS, **DEMO, limit=4)
    found = [one for page in pages for one in page["events"]]
    assert [one["event_id"] for one in found] == [str(number(at)) for at in range(6, 0, -1)]
    assert (found[0]["payload"], found[0]["edge_cluster_id"]) == ({"weight_kg": 1.0}, "edge-1")
    doors = await api.get(EVENTS, **DEMO, event_type="door.opened", device_id="node-1")
    assert {one["event_type"] for one in doors["events"]} == {"door.opened"}
    assert len(doors["events"]) == 3
    assert (await api.get(EVENTS, **DEMO, device_id="node-2"))["events"] == []


async def test_a_tenants_sessions_and_events_are_its_own_although_their_ids_are_the_same(
    api: QueryApi, cloud_pool: Pool
) -> None:
    await say(cloud_pool, *a_session(1), *a_session(1, origin=ELSEWHERE, weights=1), *a_session(2))
    await store_all(cloud_pool, delivery(other(1)), delivery(other(1, tenant_id="other")), delivery(other(2)))
    await picture_stored(cloud_pool, "demo", 1500, 1)
    mine = await viewer_of(cloud_pool, "other")
    status, answer = await api.ask(SESSIONS, token=mine, **{**DEMO, "tenant_id": "other"})
    assert (status, [one["device_id"] for one in answer["sessions"]]) == (200, ["node-9"])
    status, answer = await api.ask(f"{SESSIONS}/{number(1)}", token=mine, tenant_id="other")
    assert (status, len(answer["weights"]), answer["pictures"]["stored"]) == (200, 1, 0)
    assert (await api.ask(f"{SESSIONS}/{number(2)}", token=mine, tenant_id="other"))[0] == 404
    status, answer = await api.ask(EVENTS, token=mine, **{**DEMO, "tenant_id": "other"})
    assert (status, len(answer["events"])) == (200, 1)


OF_ALL_TENANTS = ("/api/v1/telemetry/stats", "/api/v1/tenants")


async def test_every_question_is_refused_to_strangers_and_to_viewers_of_another_tenant(
    api: QueryApi, cloud_pool: Pool
) -> None:
    token = await viewer_of(cloud_pool, "other")
    paths = (await api.get("/api-docs/openapi.json"))["paths"]
    ours = sorted(path for path in paths if path.startswith("/api/v1/"))
    assert len(ours) == 41, ours
    for path in ours:
        if path in OF_ALL_TENANTS:
            continue
        concrete = path.replace("{session_id}", str(number(1))).replace("{stream_id}", str(number(1)))
        for query in ({}, {"tenant_id": "demo"}, {"tenant_id": "demo", "format": "csv"}):
            assert (await api.ask(concrete, token=token, **query))[0] == 403, concrete
            assert (await api.ask(concrete, token="guessed", **query))[0] == 401, concrete


async def test_what_is_of_all_tenants_is_the_admins_alone(api: QueryApi, cloud_pool: Pool) -> None:
    token = await viewer_of(cloud_pool, "demo")
    for path in OF_ALL_TENANTS:
        for query in ({}, {"tenant_id": "demo"}):
            assert (await api.ask(path, token=token, **query))[0] == 401, path
    assert (await api.get("/api/v1/telemetry/stats"))["samples_stored"] == 0


@pytest.mark.parametrize(
    ("path", "query"),
    [
        (SESSIONS, {}),
        (SESSIONS, {**DEMO, "status": "open"}),
        (SESSIONS, {**DEMO, "batch_id": "a b"}),
        (SESSIONS, {**DEMO, "barn_id": "'; DROP TABLE weight_sessions; --"}),
        (SESSIONS, {**DEMO, "farm_id": "\x00"}),
        (SESSIONS, {**DEMO, "limit": "5001"}),
        (SESSIONS, {**DEMO, "format": "xlsx"}),
        (SESSIONS, {**DEMO, "after": cursor(("2026-01-01T00:00:00", number(1)))}),
        (SESSIONS, {**DEMO, "after": cursor((1,))}),
        (SESSIONS, {**DEMO, "from": "2026-01-01"}),
        (EVENTS, {**DEMO, "event_type": "door..opened"}),
        (EVENTS, {**DEMO, "event_type": "x" * 129}),
        (EVENTS, {**DEMO, "device_id": "%"}),
        ("/api/v1/coverage", {"tenant_id": "demo", "from": "2020-01-01T00:00:00Z", "to": "2021-01-01T00:00:00Z"}),
        ("/api/v1/coverage", {"tenant_id": "demo", "limit": "101"}),
        ("/api/v1/telemetry/readings", {"tenant_id": "demo"}),
        ("/api/v1/telemetry/readings", {"tenant_id": "demo", "device_id": "d", "barn_id": "b"}),
        ("/api/v1/telemetry/aggregates", {"tenant_id": "demo", "device_id": "d"}),
        (
            "/api/v1/telemetry/aggregates",
            {"tenant_id": "demo", "format": "csv", "sensor": "s", "merge_sensors": "true"},
        ),
    ],
)
async def test_a_wrong_question_is_answered_with_400_in_the_one_shape(
    api: QueryApi, path: str, query: dict[str, Any]
) -> None:
    status, answer = await api.ask(path, **query)
    assert (status, answer["error"]["code"]) == (400, "invalid_request")
    assert answer["error"]["traceId"]


async def test_what_is_no_session_id_is_not_found(api: QueryApi) -> None:
    for path in (f"{SESSIONS}/1", f"{SESSIONS}/..%2f..", f"{SESSIONS}/{number(77)}"):
        assert (await api.ask(path, tenant_id="demo"))[0] == 404
