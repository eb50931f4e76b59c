"""What the cloud misses is sent again: a picture of which only the event arrived, or that was lost in the cloud's store."""

from typing import Final

from farmiq.contracts.media import WantedPictures
from farmiq.edge.sync_forwarder.answers import Away, Refused
from farmiq.edge.sync_forwarder.pictures import store
from farmiq.edge.sync_forwarder.pictures.cloud import CloudMedia
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY, Pool
from farmiq.outbox.wakeup import Wakeup

PAGES_MAX: Final = 20
"""Of one look. The next goes on where it ended, so that pictures which this edge has no more stand in nobody's way."""

log = get_logger(__name__)


async def answer_wanted(life: Lifetime, pool: Pool, cloud: CloudMedia, wakeup: Wakeup, *, every_seconds: float) -> None:
    """Until cancelled. A cloud that is away, or too old for the question, is asked again the next time."""
    after: str | None = None
    while await life.pause(every_seconds):
        try:
            again, after = await send_wanted(pool, cloud, after)
            if again:
                wakeup.poke()
        except RETRY as error:
            log.warning("wanted_pictures_not_sent", reason=str(error) or type(error).__name__)


async def send_wanted(pool: Pool, cloud: CloudMedia, after: str | None = None) -> tuple[int, str | None]:
    """How many pictures are sent again, and behind which the next look begins: None for the first of all."""
    again = 0
    for _ in range(PAGES_MAX):
        page = await cloud.wanted(after)
        if isinstance(page, Away | Refused):
            log.warning("wanted_pictures_not_asked", code=page.failure.code, reason=page.failure.message)
            break
        again += await _send_again(pool, page)
        after = page.next
        if after is None:
            break
    if again:
        log.warning("pictures_sent_again", pictures=again)
    return again, after


async def _send_again(pool: Pool, page: WantedPictures) -> int:
    async with pool.acquire() as connection:
        return await store.send_again(connection, [(one.tenant_id, one.media_id) for one in page.pictures])
