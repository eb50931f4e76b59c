"""What the edge has noted for a person, over HTTP."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import aiohttp
import pytest
import pytest_asyncio

from farmiq.edge.alerts import close_alert, raise_alert
from farmiq.kit.postgres import Pool
from support.query_api import TOKEN, QueryApi, query_api

PATH = "/api/v1/alerts"


class AlertApi(QueryApi):
    async def acknowledge(self, alert_id: str, body: Any, token: str = TOKEN) -> tuple[int, Any]:
        url, headers = f"{self._url}{PATH}/{alert_id}/acknowledge", {"authorization": f"Bearer {token}"}
        async with self._session.post(url, json=body, headers=headers) as answer:
            return answer.status, await answer.json()


@pytest_asyncio.fixture
async def api(edge_url: str) -> AsyncIterator[AlertApi]:
    async with query_api(edge_url) as api, aiohttp.ClientSession() as session:
        yield AlertApi(session, api._url)


async def note(pool: Pool, key: str, tenant_id: str | None = "demo") -> None:
    async with pool.acquire() as connection:
        await raise_alert(connection, "picture_missing", f"about {key}", key, {"pictures": 2}, tenant_id)


def subjects(page: Any) -> list[str]:
    return [alert["subject"] for alert in page["alerts"]]


async def test_a_tenant_sees_its_own_alerts_and_those_of_the_edge_box(api: AlertApi, edge_pool: Pool) -> None:
    for key, tenant_id in (("a", "demo"), ("b", "other"), ("c", None)):
        await note(edge_pool, key, tenant_id)
    page = await api.get(PATH, tenant_id="demo")
    assert subjects(page) == ["about c", "about a"]
    newest, oldest = page["alerts"]
    assert (newest["tenant_id"], oldest["tenant_id"], oldest["status"]) == (None, "demo", "open")
    assert oldest["evidence"] == {"pictures": 2}
    assert len((await api.get(PATH))["alerts"]) == 3


async def test_pages_follow_one_another_although_alerts_are_raised_meanwhile(api: AlertApi, edge_pool: Pool) -> None:
    for number in range(5):
        await note(edge_pool, str(number))
    first = await api.get(PATH, limit=2)
    await note(edge_pool, "late")
    second = await api.get(PATH, limit=2, after=first["next"])
    third = await api.get(PATH, limit=2, after=second["next"])
    pages = [first, second, third]
    assert [subjects(page) for page in pages] == [["about 4", "about 3"], ["about 2", "about 1"], ["about 0"]]
    assert third["next"] is None


async def test_an_alert_is_acknowledged_stays_until_its_cause_is_gone_and_opens_anew(
    api: AlertApi, edge_pool: Pool
) -> None:
    await note(edge_pool, "a")
    (alert,) = (await api.get(PATH, status="open"))["alerts"]
    status, known = await api.acknowledge(alert["id"], {"by": "ann", "note": "the station is off"})
    assert (status, known["status"], known["acknowledged_by"], known["note"]) == (
        200, "acknowledged", "ann", "the station is off",
    )  # fmt: skip
    assert known["acknowledged_at"] is not None
    await note(edge_pool, "a")
    assert (await api.get(PATH, status="open"))["alerts"] == []
    assert subjects(await api.get(PATH, status="acknowledged")) == ["about a"]
    async with edge_pool.acquire() as connection:
        await close_alert(connection, "a", "demo")
    status, answer = await api.acknowledge(alert["id"], {"by": "ann"})
    assert (status, answer["error"]["code"]) == (409, "alert_closed")
    await note(edge_pool, "a")
    assert len((await api.get(PATH))["alerts"]) == 2


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, 400),
        ({"by": ""}, 400),
        ({"by": "x" * 201}, 400),
        ({"by": "ann", "note": "x" * 2001}, 400),
        ({"by": "ann", "note": "\0"}, 400),
        ({"by": 7}, 400),
        ("ann", 400),
    ],
)
async def test_an_acknowledgement_names_who(api: AlertApi, edge_pool: Pool, body: Any, expected: int) -> None:
    await note(edge_pool, "a")
    (alert,) = (await api.get(PATH))["alerts"]
    status, _ = await api.acknowledge(alert["id"], body)
    assert status == expected
    assert (await api.get(PATH))["alerts"][0]["status"] == "open"


async def test_what_is_not_there_and_who_may_not(api: AlertApi) -> None:
    status, answer = await api.acknowledge(str(uuid4()), {"by": "ann"})
    assert (status, answer["error"]["code"]) == (404, "unknown_alert")
    assert (await api.acknowledge("not-a-uuid", {"by": "ann"}))[0] == 404
    assert (await api.acknowledge(str(uuid4()), {"by": "ann"}, token="another"))[0] == 401
    assert (await api.ask(PATH, token="another"))[0] == 401
    assert (await api.ask(PATH, status="lost"))[0] == 400
    assert (await api.ask(PATH, after="not-a-cursor"))[0] == 400
