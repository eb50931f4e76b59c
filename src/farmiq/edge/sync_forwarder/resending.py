"""What the cloud had acknowledged and may have lost is sent again, a page at a time, by whichever replica."""

from datetime import datetime
from typing import Final

from farmiq.edge.sync_forwarder import store
from farmiq.edge.sync_forwarder.counters import Counters
from farmiq.edge.sync_forwarder.delivery import Delivery
from farmiq.edge.sync_forwarder.intake import follow_all_again
from farmiq.edge.sync_forwarder.pictures import store as pictures
from farmiq.edge.telemetry_timeseries.rebuilding import before, mark_aggregates, rebuild
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY, Connection, Pool
from farmiq.outbox.resend import resend
from farmiq.outbox.retire import SAMPLES, retired_after
from farmiq.outbox.wakeup import Wakeup

LOOK_SECONDS: Final = 2.0
ASK_SECONDS: Final = 10.0
PAGE_PAUSE_SECONDS: Final = 0.05
AGAIN: Final[tuple[type[BaseException], ...]] = (*RETRY, store.RebuildingEnded)

log = get_logger(__name__)


async def keep_resending(
    life: Lifetime, pool: Pool, wakeup: Wakeup, picture_wakeup: Wakeup, counters: Counters
) -> None:
    """Until cancelled. How far it has come is in the database: killed anywhere, another replica goes on there."""
    seconds = LOOK_SECONDS
    while await life.pause(seconds):
        try:
            resent = await resend_page(pool, life.clock.now())
        except AGAIN as error:
            log.warning("resending_interrupted", reason=str(error) or type(error).__name__)
            resent = None
        if resent is not None:
            counters.events_resent.inc(resent)
            wakeup.poke()
            picture_wakeup.poke()
        seconds = LOOK_SECONDS if resent is None else PAGE_PAUSE_SECONDS


async def resend_page(pool: Pool, now: datetime) -> int | None:
    """One page of one tenant; how many events go out again, or None when nobody's are missing."""
    async with pool.acquire() as connection, connection.transaction():
        task = await store.lock_resending(connection)
        if task is None:
            return await _rebuild_page(connection, now)
        page = await resend(
            connection, task.tenant_id, task.after, answers_from=task.answers_from, answers_to=task.answers_to
        )
        if page.last_id is None:
            await _after_the_outbox(connection, task)
        else:
            await store.note_resent(connection, task.tenant_id, page.last_id)
        return page.resent


async def _after_the_outbox(connection: Connection, task: store.Resending) -> None:
    """Pictures follow their events, as they did the first time. What the outbox no longer has is made anew."""
    tenant_id = task.tenant_id
    again = await pictures.send_again_after(connection, tenant_id, task.answers_from)
    kinds = await retired_after(connection, tenant_id, task.answers_from)
    if kinds:
        again += await follow_all_again(connection, tenant_id)
    for window in kinds:
        if window != SAMPLES:
            await mark_aggregates(connection, tenant_id, window)
    if SAMPLES in kinds:
        await store.begin_rebuilding(connection, tenant_id, before(""))
        log.warning("rebuilding_begun", tenant_id=tenant_id, after_answer=task.answers_from, pictures=again)
    else:
        await store.end_resending(connection, tenant_id)
        log.info("resending_finished", tenant_id=tenant_id, after_answer=task.answers_from, pictures=again)


async def _rebuild_page(connection: Connection, now: datetime) -> int | None:
    task = await store.lock_rebuilding(connection)
    if task is None:
        return None
    following, made = await rebuild(connection, task.lost, task.after if task.after.device_id else None, now)
    if following is None:
        await store.end_rebuilding(connection, task)
        log.info("rebuilding_finished", tenant_id=task.lost.tenant_id)
    else:
        await store.note_rebuilt(connection, task, following)
    return made


async def ask_epochs(life: Lifetime, pool: Pool, delivery: Delivery, *, every_seconds: float) -> None:
    """Until cancelled. An edge that has nothing to send would never hear that the cloud has lost something."""
    while await life.pause(min(every_seconds, ASK_SECONDS)):
        try:
            async with pool.acquire() as connection:
                tenants = await store.unheard_tenants(connection, seconds=every_seconds)
            for tenant_id in tenants:
                await delivery.ask_epoch(tenant_id)
        except RETRY as error:
            log.warning("epoch_not_asked", reason=str(error) or type(error).__name__)
