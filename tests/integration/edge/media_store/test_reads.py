from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import aiohttp
import pytest_asyncio

from farmiq.kit.postgres import Pool
from support.media_world import CAPTURED_AT, Station, station
from support.picture_files import picture
from support.s3 import S3

JPEG = picture()


@pytest_asyncio.fixture
async def scale(edge_pool: Pool, edge_url: str, s3: S3) -> AsyncIterator[Station]:
    async with station(edge_pool, edge_url, s3) as scale:
        yield scale


async def stored(scale: Station, number: int, **said: Any) -> UUID:
    media_id = await scale.upload(JPEG, capturedAt=(CAPTURED_AT + timedelta(minutes=number)).isoformat(), **said)
    assert (await scale.complete(media_id)).status == 200
    return media_id


async def test_pictures_are_listed_newest_first_in_pages_and_by_session_device_and_state(scale: Station) -> None:
    session_id = str(uuid4())
    taken = [
        str(await stored(scale, number, **({"sessionId": session_id} if number % 2 else {}))) for number in range(5)
    ]
    waiting = (await scale.presign(JPEG, capturedAt=(CAPTURED_AT - timedelta(days=1)).isoformat())).body["media_id"]
    seen: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = (await scale.ask("/api/v1/media", tenant_id="demo", limit=2, **after)).body
        seen += [shown["media_id"] for shown in page["pictures"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert seen == [*reversed(taken), waiting]

    async def listed(**filters: str) -> list[str]:
        answer = await scale.ask("/api/v1/media", tenant_id="demo", **filters)
        return [shown["media_id"] for shown in answer.body["pictures"]]

    assert await listed(session_id=session_id) == [taken[3], taken[1]]
    times = {"from": CAPTURED_AT + timedelta(minutes=1), "to": CAPTURED_AT + timedelta(minutes=3)}
    between = {name: at.isoformat() for name, at in times.items()}
    assert await listed(**between) == [taken[2], taken[1]]
    by_day = (await scale.ask("/api/v1/media-days", tenant_id="demo", **between)).body["days"]
    assert [(day["device_id"], day["state"], day["rows"]) for day in by_day] == [("scale-1", "stored", 2)]
    assert await listed(state="stored", device_id="scale-1") == list(reversed(taken))
    assert await listed(state="presigned") == [waiting]
    assert await listed(state="awaited") == []
    assert await listed(device_id="scale-2") == []


async def test_a_stored_picture_is_read_by_a_url_that_names_what_it_is(scale: Station) -> None:
    media_id = await stored(scale, 0)
    shown = (await scale.ask(f"/api/v1/media/{media_id}", tenant_id="demo")).body
    assert (shown["state"], shown["size_bytes"], shown["width_px"], shown["height_px"]) == ("stored", len(JPEG), 64, 48)
    url = (await scale.ask(f"/api/v1/media/{media_id}/url", tenant_id="demo")).body["url"]
    async with aiohttp.ClientSession() as browser, browser.get(url) as answer:
        assert (answer.status, await answer.read()) == (200, JPEG)
        assert answer.headers["content-type"] == "image/jpeg"
        assert answer.headers["content-disposition"] == f'attachment; filename="{media_id}.jpg"'


async def test_nothing_is_read_without_the_admin_token_and_a_tenant(scale: Station) -> None:
    media_id = await stored(scale, 0)
    for path in ("/api/v1/media", f"/api/v1/media/{media_id}", f"/api/v1/media/{media_id}/url"):
        assert (await scale.ask(path, token="token-of-demo-scale-1", tenant_id="demo")).status == 401
        assert (await scale.ask(path)).status == 400
        for tenant_id in ("..", "demo/../rival", "d\u0435mo"):
            assert (await scale.ask(path, tenant_id=tenant_id)).status == 400
    for other in ("not-a-uuid", "..%2f..", "%2e%2e"):
        assert (await scale.ask(f"/api/v1/media/{other}", tenant_id="demo")).status == 404
    assert (await scale.ask("/api/v1/media", tenant_id="demo", after="broken")).status == 400
