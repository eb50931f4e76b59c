"""What the cloud misses is found, however much it misses that this edge does not have."""

from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web

from farmiq.contracts.decoding import encode
from farmiq.contracts.media import WantedPicture, WantedPictures
from farmiq.edge.sync_forwarder.pictures.cloud import CloudMedia
from farmiq.edge.sync_forwarder.pictures.wanted import PAGES_MAX, send_wanted
from farmiq.kit.clock import Clock
from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Pool
from support.edge_pictures import EdgePictures, transfers_by_state
from support.s3 import S3
from support.scripted_cloud import TOKEN


@pytest.fixture
def pictures(edge_pool: Pool, s3: S3) -> Iterator[EdgePictures]:
    made = EdgePictures(edge_pool, s3)
    yield made
    made.store.close()


class MissingMuch:
    """A cloud that misses these, one a page."""

    def __init__(self) -> None:
        self.pictures: list[WantedPicture] = []

    async def wanted(self, request: web.Request) -> web.Response:
        place = int(request.query.get("after", 0))
        after = str(place + 1) if place + 1 < len(self.pictures) else None
        return web.Response(body=encode(WantedPictures(pictures=self.pictures[place : place + 1], next=after)))


@pytest_asyncio.fixture
async def missing() -> AsyncIterator[tuple[MissingMuch, CloudMedia]]:
    missing = MissingMuch()
    app = web.Application()
    app.router.add_get("/api/v1/media/wanted", missing.wanted)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    async with aiohttp.ClientSession() as session:
        yield missing, CloudMedia(session, f"http://{host}:{port}", TOKEN, Clock())
    await runner.cleanup()


async def test_pictures_that_this_edge_has_no_more_stand_in_nobodys_way(
    edge_pool: Pool, pictures: EdgePictures, missing: tuple[MissingMuch, CloudMedia]
) -> None:
    cloud, client = missing
    media_id, _ = await pictures.keep()
    await edge_pool.execute("UPDATE media_transfers SET state = 'sent', sent_at = now()")
    strangers = [WantedPicture(tenant_id="demo", media_id=new_id()) for _ in range(PAGES_MAX + 3)]
    cloud.pictures = [*strangers, WantedPicture(tenant_id="demo", media_id=media_id)]
    first = await send_wanted(edge_pool, client)
    assert first == (0, str(PAGES_MAX))
    assert await send_wanted(edge_pool, client, first[1]) == (1, None)
    assert await transfers_by_state(edge_pool) == {"pending": 1}
