"""Sessions as an operator sees them: over HTTP, with a token, for one tenant."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import aiohttp
import pytest_asyncio

from farmiq.edge.weighvision_session.main import serve
from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Pool
from support.service_process import running
from support.session_rows import open_alerts
from support.station import Edge
from support.waiting import eventually
from support.weighing import ELSEWHERE, NEIGHBOUR, STATION, Weighing, presign, register_stations

TOKEN = "for-this-test-only"
SESSIONS = "/api/v1/weighvision/sessions"


@pytest_asyncio.fixture
async def edge(edge_pool: Pool) -> AsyncIterator[Edge]:
    await register_stations(edge_pool)
    yield Edge(edge_pool)


class Operator:
    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self._http = http
        self._url = url

    async def ask(self, path: str = "", token: str | None = TOKEN, **query: Any) -> tuple[int, Any]:
        async with self._http.get(f"{self._url}{SESSIONS}{path}", params=query, headers=_bearer(token)) as answer:
            return answer.status, await answer.json()

    async def do(self, path: str, body: Any, token: str | None = TOKEN, tenant_id: str = "demo") -> tuple[int, Any]:
        query = {"tenant_id": tenant_id}
        url = f"{self._url}{SESSIONS}{path}"
        async with self._http.post(url, params=query, json=body, headers=_bearer(token)) as answer:
            return answer.status, await answer.json()

    async def get(self, path: str = "", **query: Any) -> Any:
        status, answer = await self.ask(path, **{"tenant_id": "demo"} | query)
        assert status == 200, answer
        return answer


def _bearer(token: str | None) -> dict[str, str]:
    return {} if token is None else {"authorization": f"Bearer {token}"}


@asynccontextmanager
async def operator(database_url: str, **environ: str) -> AsyncIterator[Operator]:
    variables = {"DATABASE_URL": database_url, "ADMIN_TOKEN": TOKEN, **environ}
    async with running(serve, "edge-weighvision-session", variables) as url, aiohttp.ClientSession() as http:
        yield Operator(http, url)


async def test_a_session_shows_what_is_there_what_is_missing_and_where_it_is(edge: Edge, edge_url: str) -> None:
    weighing = Weighing()
    await edge.upload(weighing, 1)
    for number in (2, 3, 4, 5):
        await presign(edge.pool, STATION, weighing.media_id(number), weighing.id)
    await edge.hear(weighing.created(), weighing.weight(10, 120.5), weighing.weight(50, 121.0))
    await edge.hear(weighing.image(11, 1), weighing.image(12, 2), weighing.image(13, 3), weighing.image(14, 4))
    await edge.hear(weighing.finalized(60, 7))
    await edge.pool.execute("UPDATE media_objects SET checks = 2 WHERE id = $1", weighing.media_id(3))
    await edge.pool.execute(
        "UPDATE media_objects SET state = 'refused', refused_reason = 'not_a_picture' WHERE id = $1",
        weighing.media_id(4),
    )
    await edge.infer(weighing.result(1, 0.94))
    async with operator(edge_url) as api:
        detail = await api.get(f"/{weighing.id}")
        listed = (await api.get())["sessions"]
    session = detail["session"]
    assert [(one["id"], one["pictures"], one["missing"]) for one in listed] == [
        (session["id"], session["pictures"], session["missing"])
    ]
    assert session["missing"] == {"created": False, "weight": False, "finalized": False, "pictures": 6}
    assert session["pictures"] == {
        "expected": 7, "stored": 1, "unheard": 2, "presigned": 1, "awaited": 2, "missing": 0, "refused": 1,
        "lost": 0,
    }  # fmt: skip
    assert (session["initial_weight_kg"], session["final_weight_kg"]) == (120.5, 121.0)
    assert [one["weight_kg"] for one in detail["weights"]] == [121.0, 120.5]
    where = {one["media_id"]: (one["where"], one["reason"]) for one in detail["pictures"]}
    assert where == {
        str(weighing.media_id(1)): ("stored", None),
        str(weighing.media_id(2)): ("not_verified", None),
        str(weighing.media_id(3)): ("not_uploaded", None),
        str(weighing.media_id(4)): ("refused", "not_a_picture"),
        str(weighing.media_id(5)): ("not_announced", None),
    }
    assert [(one["confidence"], one["media_id"]) for one in detail["results"]] == [(0.94, str(weighing.media_id(1)))]
    assert session["inference_result_id"] == detail["results"][0]["id"]


async def test_sessions_are_listed_newest_first_page_by_page_with_filters(edge: Edge, edge_url: str) -> None:
    weighings = [Weighing() for _ in range(5)]
    for number, weighing in enumerate(weighings):
        await edge.hear(weighing.created(number * 100))
    theirs = Weighing(origin=NEIGHBOUR)
    await edge.hear(theirs.created(1000, batch_id="batch-9"), theirs.cancelled(1001))
    unbegun = Weighing()
    await edge.hear(unbegun.weight(5, 1.0))
    async with operator(edge_url) as api:
        everything = [one["id"] for one in (await api.get())["sessions"]]
        ordered = [str(one.id) for one in (theirs, *reversed(weighings))]
        assert everything == [str(unbegun.id), *ordered], "one without a beginning stands where it was first heard of"
        found: list[str] = []
        after: dict[str, str] = {}
        for _ in range(10):
            page = await api.get(limit=2, **after)
            found += [one["id"] for one in page["sessions"]]
            if page["next"] is None:
                break
            after = {"after": page["next"]}
        assert found == everything
        assert [one["id"] for one in (await api.get(status="cancelled"))["sessions"]] == [str(theirs.id)]
        for only_theirs in ({"device_id": "station-2"}, {"batch_id": "batch-9"}):
            assert [one["id"] for one in (await api.get(**only_theirs))["sessions"]] == [str(theirs.id)]
        since, until = weighings[1].created(100).at, weighings[3].created(300).at
        asked = {"from": since.isoformat(), "to": until.isoformat()}
        assert [one["id"] for one in (await api.get(**asked))["sessions"]] == [
            str(weighings[2].id),
            str(weighings[1].id),
        ]


async def test_the_days_of_the_sessions_say_since_when_none_was_deleted(edge: Edge, edge_url: str) -> None:
    weighing = Weighing()
    await edge.hear(weighing.created())
    kept = {"SESSION_RETENTION_DAYS": "9", "MEDIA_RETENTION_DAYS": "11"}
    async with operator(edge_url, **kept) as api:
        found = await api.get("/../session-days", **{"from": "2026-01-01T00:00:00Z", "to": "2027-01-01T00:00:00Z"})
    age = datetime.now(UTC) - datetime.fromisoformat(found["kept_since"])
    assert timedelta(days=12) <= age < timedelta(days=12, minutes=5)


async def test_incomplete_sessions_are_found_and_finalizing_one_ends_its_alert(edge: Edge, edge_url: str) -> None:
    whole, torn = Weighing(), Weighing()
    await edge.upload(whole, 1)
    await edge.hear(whole.created(), whole.weight(1, 90.0), whole.finalized(60, 1), torn.created())
    async with operator(edge_url, SESSION_SETTLE_SECONDS="0") as api:

        async def is_found() -> bool:
            sessions = (await api.get(incomplete="true"))["sessions"]
            return [one["id"] for one in sessions] == [str(torn.id)]

        await eventually(is_found, what="the service to see that the session is late")
        assert len(await open_alerts(edge.pool)) == 1
        status, answer = await api.do(
            f"/{torn.id}/finalize", {"reason": "the scale was moved", "final_weight_kg": 88.5}
        )
        assert status == 200, answer
        assert (answer["session"]["status"], answer["session"]["final_weight_kg"]) == ("finalized", 88.5)
        assert answer["session"]["is_finalized_by_hand"]
        assert [(one["action"], one["reason"]) for one in answer["operations"]] == [("finalize", "the scale was moved")]

        async def is_over() -> bool:
            return await open_alerts(edge.pool) == {}

        await eventually(is_over, what="the alert to be closed")
        status, answer = await api.do(f"/{whole.id}/finalize", {"reason": "why not"})
        assert (status, answer["error"]["code"]) == (409, "session_closed")


async def test_a_picture_is_attached_once_and_only_where_it_may_be(edge: Edge, edge_url: str) -> None:
    weighing, other, theirs = Weighing(), Weighing(), Weighing(origin=ELSEWHERE)
    await edge.hear(weighing.created(), other.created(), theirs.created())
    lone, bound, foreign = new_id(), new_id(), new_id()
    await presign(edge.pool, STATION, lone)
    await presign(edge.pool, STATION, bound, other.id)
    await presign(edge.pool, ELSEWHERE, foreign)
    async with operator(edge_url) as api:
        for _ in range(2):
            status, answer = await api.do(f"/{weighing.id}/attach", {"media_id": str(lone), "reason": "by hand"})
            assert status == 200, answer
            assert [(one["media_id"], one["where"]) for one in answer["pictures"]] == [(str(lone), "not_announced")]
        refusals = {
            (weighing.id, bound, "demo"): (409, "other_session"),
            (weighing.id, foreign, "demo"): (404, "unknown_media"),
            (weighing.id, new_id(), "demo"): (404, "unknown_media"),
            (theirs.id, lone, "demo"): (404, "unknown_session"),
            (new_id(), lone, "demo"): (404, "unknown_session"),
            (weighing.id, foreign, "other"): (404, "unknown_session"),
        }
        for (session_id, media_id, tenant_id), expected in refusals.items():
            status, answer = await api.do(f"/{session_id}/attach", {"media_id": str(media_id)}, tenant_id=tenant_id)
            assert (status, answer["error"]["code"]) == expected
    kept = await edge.pool.fetch("SELECT id, session_id FROM media_objects")
    assert {row["id"]: row["session_id"] for row in kept} == {lone: weighing.id, bound: other.id, foreign: None}


async def test_tenants_do_not_see_each_other_and_nobody_sees_anything_without_a_token(
    edge: Edge, edge_url: str
) -> None:
    mine, theirs = Weighing(), Weighing(origin=ELSEWHERE)
    await edge.hear(mine.created(), theirs.created())
    async with operator(edge_url) as api:
        assert [one["id"] for one in (await api.get())["sessions"]] == [str(mine.id)]
        assert [one["id"] for one in (await api.get(tenant_id="other"))["sessions"]] == [str(theirs.id)]
        assert (await api.ask(f"/{theirs.id}", tenant_id="demo"))[0] == 404
        status, answer = await api.do(f"/{theirs.id}/finalize", {"reason": "not mine"})
        assert (status, answer["error"]["code"]) == (404, "unknown_session")
        for token in (None, "", "wrong", TOKEN + "x"):
            assert (await api.ask(token=token, tenant_id="demo"))[0] == 401
            assert (await api.ask(f"/{mine.id}", token=token, tenant_id="demo"))[0] == 401
            assert (await api.do(f"/{mine.id}/finalize", {"reason": "x"}, token))[0] == 401
            assert (await api.do(f"/{mine.id}/attach", {"media_id": str(new_id())}, token))[0] == 401
    assert await edge.pool.fetchval("SELECT count(*) FROM session_operations") == 0


WRONG: dict[str, dict[str, Any]] = {
    "no tenant": {},
    "tenant ..": {"tenant_id": ".."},
    "tenant with a slash": {"tenant_id": "a/b"},
    "tenant with unicode": {"tenant_id": "\u00fc"},
    "tenant with NUL": {"tenant_id": "a\0"},
    "device ..": {"tenant_id": "demo", "device_id": "../x"},
    "status": {"tenant_id": "demo", "status": "open"},
    "limit 0": {"tenant_id": "demo", "limit": 0},
    "limit 501": {"tenant_id": "demo", "limit": 501},
    "cursor": {"tenant_id": "demo", "after": "nonsense"},
    "no zone": {"tenant_id": "demo", "from": "2026-11-16T08:00:00"},
    "backwards": {"tenant_id": "demo", "from": "2026-11-17T08:00:00Z", "to": "2026-11-16T08:00:00Z"},
}
WRONG_BODIES: list[tuple[str, Any]] = [
    ("attach", {}), ("attach", {"media_id": "../../etc"}), ("attach", {"media_id": None}), ("attach", []),
    ("attach", {"media_id": str(UUID(int=1)), "reason": "x" * 201}), ("attach", {"media_id": str(UUID(int=1)), "more": 1}),
    ("finalize", {}), ("finalize", {"reason": ""}), ("finalize", {"reason": 7}), ("finalize", {"reason": "a\0b"}),
    ("finalize", {"reason": "x", "final_weight_kg": -1}), ("finalize", {"reason": "x", "final_weight_kg": "heavy"}),
    ("finalize", {"reason": "x" * 100_000}),
]  # fmt: skip


async def test_a_wrong_question_is_told_apart_from_a_failure(edge: Edge, edge_url: str) -> None:
    weighing = Weighing()
    await edge.hear(weighing.created())
    async with operator(edge_url) as api:
        for name, query in WRONG.items():
            status, answer = await api.ask(**query)
            assert (status, answer["error"]["code"]) == (400, "invalid_request"), name
        for path in ("/7", "/..%2f..", "/not-a-uuid", f"/{weighing.id}0"):
            assert (await api.ask(path, tenant_id="demo"))[0] == 404, path
        for action, body in WRONG_BODIES:
            status, answer = await api.do(f"/{weighing.id}/{action}", body)
            assert status in (400, 413), (action, body, answer)
    assert await edge.pool.fetchval("SELECT count(*) FROM session_operations") == 0


async def test_two_services_side_by_side_tell_the_end_once(edge: Edge, edge_url: str) -> None:
    weighings = [Weighing() for _ in range(30)]
    async with operator(edge_url, SESSION_SETTLE_SECONDS="0"), operator(edge_url, SESSION_SETTLE_SECONDS="0"):
        for weighing in weighings:
            await edge.hear(weighing.created(), weighing.weight(1, 90.0), weighing.finalized(60, 1))
        await asyncio.gather(*(edge.upload(weighing, 1) for weighing in weighings))

        async def are_told() -> bool:
            return bool(await edge.pool.fetchval("SELECT bool_and(look_at IS NULL) FROM weight_sessions"))

        await eventually(are_told, what="every session to be looked at")
    told = await edge.pool.fetchval(
        "SELECT count(*) FROM sync_outbox WHERE event_type = 'weighvision.session.finalized'"
    )
    assert told == len(weighings)
