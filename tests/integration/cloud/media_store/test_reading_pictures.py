"""What readers get: lists, one picture, its bytes for minutes, and a thumbnail. Tenants never see each other."""

import io
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from PIL import Image

from farmiq.cloud.media_store.intake import pictures_named, pictures_of
from farmiq.cloud.media_store.picture import thumbnail_key
from farmiq.kit.ids import new_id
from support.cloud_media import ADMIN_TOKEN, NOON, MediaCloud, Shot, shot
from support.picture_files import COMMENT, picture, png_of_size, with_place


async def ids(cloud: MediaCloud, **query: Any) -> list[UUID]:
    """Over all pages."""
    found: list[UUID] = []
    after: dict[str, str] = {}
    while True:
        status, page = await cloud.read("", **query, **after)
        assert status == 200, page
        found.extend(UUID(one["media_id"]) for one in page["media"])
        if page["next"] is None:
            return found
        after = {"after": page["next"]}


async def test_pictures_are_listed_newest_first_by_session_device_time_and_state(cloud: MediaCloud) -> None:
    session = new_id()
    shots = [
        shot(
            captured_at=NOON + timedelta(minutes=n // 2),
            session_id=session if n % 3 == 0 else None,
            device_id=f"station-{n % 2}",
        )
        for n in range(8)
    ]
    for one in shots:
        await cloud.presign(one)
    await cloud.send(shots[3])
    newest_first = [
        one.media_id for one in sorted(shots, key=lambda one: (one.asked.captured_at, one.media_id), reverse=True)
    ]

    assert await ids(cloud) == newest_first
    assert await ids(cloud, limit=3) == newest_first
    assert set(await ids(cloud, session_id=str(session))) == {shots[n].media_id for n in (0, 3, 6)}
    assert set(await ids(cloud, device_id="station-1")) == {one.media_id for one in shots[1::2]}
    assert await ids(cloud, state="stored") == [shots[3].media_id]
    window = {"from": (NOON + timedelta(minutes=1)).isoformat(), "to": (NOON + timedelta(minutes=2)).isoformat()}
    assert set(await ids(cloud, **window)) == {shots[2].media_id, shots[3].media_id}


async def test_one_picture_is_described_without_its_bytes(cloud: MediaCloud) -> None:
    one = shot(session_id=new_id())
    await cloud.send(one)

    status, item = await cloud.read(f"/{one.media_id}")

    assert status == 200
    assert item["sha256"] == one.asked.sha256
    assert item["state"] == "stored"
    assert UUID(item["session_id"]) == one.asked.session_id
    assert not any("key" in name or "bucket" in name for name in item)


async def test_a_url_gives_the_bytes_as_a_file_of_the_stored_type(cloud: MediaCloud) -> None:
    one = shot(picture("PNG"), mime_type="image/png")
    await cloud.send(one)

    status, answer = await cloud.read(f"/{one.media_id}/url")
    assert status == 200
    async with cloud.session.get(answer["url"]) as said:
        assert await said.read() == one.body
        assert said.headers["content-type"] == "image/png"
        assert said.headers["content-disposition"] == f'attachment; filename="{one.media_id}.png"'
    async with cloud.session.get(answer["url"].replace("image%2Fpng", "text%2Fhtml")) as forged:
        assert forged.status == 403


async def test_a_browser_may_be_sent_on_to_the_url(cloud: MediaCloud) -> None:
    one = shot()
    await cloud.send(one)
    headers = {"authorization": f"Bearer {cloud.viewer}"}
    path = f"{cloud.url}/api/v1/media/{one.media_id}/url?tenant_id=demo&redirect=true"

    async with cloud.session.get(path, headers=headers, allow_redirects=False) as answer:
        assert answer.status == 302
        assert answer.headers["cache-control"] == "no-store"
        location = answer.headers["location"]
    async with cloud.session.get(location) as said:
        assert await said.read() == one.body


@pytest.mark.parametrize("path", ["", "/{}", "/{}/url", "/{}/thumbnail"])
async def test_tenants_do_not_see_each_other(cloud: MediaCloud, path: str) -> None:
    other_edge, other_viewer = await cloud.new_edge("other"), await cloud.new_viewer("other")
    own = shot()
    await cloud.send(own)
    theirs = shot(tenant_id="other")
    _, answer = await cloud.presign(theirs, other_edge)
    await cloud.put(answer, theirs.body)
    assert (await cloud.complete(theirs, other_edge))[0] == 200

    def named(one: Shot) -> str:
        return path.format(one.media_id)

    assert (await cloud.read(named(own)))[0] == 200
    assert (await cloud.read(named(own), other_viewer))[0] == 403
    assert (await cloud.read(named(own), "wrong"))[0] == 401
    assert (await cloud.read(named(own), cloud.token))[0] == 401, "an edge's token does not read"
    assert (await cloud.read(named(own), ADMIN_TOKEN))[0] == 200
    status, found = await cloud.read(named(theirs), other_viewer, tenant_id="other")
    assert status == 200
    if path == "":
        assert [one["media_id"] for one in found["media"]] == [str(theirs.media_id)]
    else:
        # Its own tenant, somebody else's picture.
        assert (await cloud.read(named(own), other_viewer, tenant_id="other"))[0] == 404


@pytest.mark.parametrize("path", ["/url", "/thumbnail"])
async def test_a_picture_that_is_not_here_has_no_bytes_to_show(cloud: MediaCloud, path: str) -> None:
    one = shot()
    await cloud.presign(one)

    status, answer = await cloud.read(f"/{one.media_id}{path}")

    assert (status, answer["error"]["code"]) == (404, "media_not_here")


@pytest.mark.parametrize(
    "query",
    [
        {"limit": 0},
        {"limit": 100_000},
        {"after": "x"},
        {"state": "gone"},
        {"session_id": "1"},
        {"from": "2026-01-01T00:00:00"},
        {"device_id": "a/b"},
    ],
)
async def test_questions_that_make_no_sense_are_refused(cloud: MediaCloud, query: dict[str, Any]) -> None:
    status, answer = await cloud.read("", **query)

    assert (status, answer["error"]["code"]) == (400, "invalid_request")


@pytest.mark.parametrize(("file_format", "mime_type"), [("JPEG", "image/jpeg"), ("WEBP", "image/webp")])
async def test_a_thumbnail_is_small_and_tells_nothing(cloud: MediaCloud, file_format: str, mime_type: str) -> None:
    one = shot(with_place(file_format, 1200, 800), mime_type=mime_type)
    assert COMMENT in one.body
    await cloud.send(one)

    status, small = await cloud.read(f"/{one.media_id}/thumbnail")

    assert status == 200
    assert COMMENT not in small
    with Image.open(io.BytesIO(small)) as seen:
        assert seen.format == "JPEG"
        assert max(seen.size) == 320
        assert not seen.getexif()
    kept = await cloud.store.get(cloud.bucket, thumbnail_key(await cloud.key(one)), bytes_max=100_000)
    assert kept == small
    assert await cloud.read(f"/{one.media_id}/thumbnail") == (200, small)


async def test_a_thumbnail_is_answered_as_an_image_and_nothing_else(cloud: MediaCloud) -> None:
    one = shot()
    await cloud.send(one)
    headers = {"authorization": f"Bearer {cloud.viewer}"}

    async with cloud.session.get(
        f"{cloud.url}/api/v1/media/{one.media_id}/thumbnail?tenant_id=demo", headers=headers
    ) as answer:
        assert answer.headers["content-type"] == "image/jpeg"
        assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_picture_of_which_no_thumbnail_can_be_made_is_looked_at_once(cloud: MediaCloud) -> None:
    bomb = shot(png_of_size(50_000, 50_000), mime_type="image/png")
    good = shot()
    await cloud.send(bomb)
    await cloud.send(good)

    for _ in range(2):
        status, answer = await cloud.read(f"/{bomb.media_id}/thumbnail")
        assert (status, answer["error"]["code"]) == (422, "no_thumbnail")

    assert (await cloud.row(bomb))["thumbnail_refused"] == "too_many_pixels"
    assert (await cloud.row(bomb))["state"] == "stored"
    assert (await cloud.read(f"/{good.media_id}/thumbnail"))[0] == 200


async def test_a_stored_picture_without_its_object_is_not_hidden(cloud: MediaCloud) -> None:
    one = shot()
    await cloud.send(one)
    await cloud.store.delete(cloud.bucket, await cloud.key(one))

    status, answer = await cloud.read(f"/{one.media_id}/thumbnail")

    assert (status, answer["error"]["code"]) == (404, "object_missing")


async def test_other_services_ask_for_the_pictures_of_sessions(cloud: MediaCloud) -> None:
    first, second, empty = new_id(), new_id(), new_id()
    shots = [
        shot(session_id=first, captured_at=NOON + timedelta(seconds=1)),
        shot(session_id=first, captured_at=NOON),
        shot(session_id=second),
        shot(),
    ]
    await cloud.send(shots[0])
    for one in shots[1:]:
        await cloud.presign(one)

    async with cloud.pool.acquire() as connection:
        found = await pictures_of(connection, "demo", [first, second, empty])
        foreign = await pictures_of(connection, "other", [first])
        named = await pictures_named(connection, "demo", [shots[3].media_id, new_id()])

    assert [one.media_id for one in found[first]] == [shots[1].media_id, shots[0].media_id]
    assert [one.state for one in found[first]] == ["announced", "stored"]
    assert [one.media_id for one in found[second]] == [shots[2].media_id]
    assert found[empty] == []
    assert foreign == {first: []}
    assert list(named) == [shots[3].media_id]
