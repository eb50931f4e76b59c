"""The loops: looking at pictures, keeping the model, rescuing what others left behind. Any number of replicas side by side."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from farmiq.edge.alerts import close_alert, raise_alert
from farmiq.edge.vision_inference import store
from farmiq.edge.vision_inference.at_work import Models
from farmiq.edge.vision_inference.card import ModelRefused
from farmiq.edge.vision_inference.counters import Counters
from farmiq.edge.vision_inference.handlers import rescue
from farmiq.edge.vision_inference.job import AGAIN, LIVE, Job
from farmiq.edge.vision_inference.looking import DATABASE_AWAY, Looker
from farmiq.edge.vision_inference.verdicts import ABANDONED, Trouble
from farmiq.kit.errors import Transient
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY, Pool
from farmiq.kit.retry import Backoff
from farmiq.outbox.wakeup import Wakeup

POLL_SECONDS: Final = 2.0
"""When nothing wakes us. Looking costs two index pages."""
QUIET_SECONDS: Final = 0.05
"""Every event of the edge wakes us, not only pictures: so often at most."""
LEASE_SECONDS: Final = 30.0
"""How long a picture waits when whoever had it died. Renewed while somebody is at it."""
RESCUE_SECONDS: Final = 5.0
FOLLOW_SECONDS: Final = 5.0
"""Until a replica notices the model that another has put to work, and until a model that is away is tried again."""
SAMPLE_SECONDS: Final = 15.0
PAUSE_SECONDS_MAX: Final = 10.0
MODEL_ALERT: Final = "inference-model"

AWAY: Final[tuple[type[BaseException], ...]] = (Transient, *RETRY)
"""What says nothing about a picture: a neighbour is away or busy."""
UNUSABLE: Final[tuple[type[BaseException], ...]] = (ModelRefused, Transient)

log = get_logger(__name__)


async def look_for_jobs(life: Lifetime, looker: Looker, wakeup: Wakeup, instance_id: str, at_once: int) -> None:
    """Until the service stops, and the pictures that it has by then are done. Cut anywhere, they wait for their leases."""
    backoff = Backoff(base_seconds=0.5, cap_seconds=PAUSE_SECONDS_MAX)
    while not life.stopping.is_set():
        try:
            jobs = await _claim(looker, instance_id, at_once)
            is_worth_more = bool(jobs) and await _attend(looker, jobs)
        except AWAY as error:
            log.warning("pictures_not_looked_at", reason=str(error) or type(error).__name__)
            await life.pause(backoff.next_seconds())
            continue
        backoff.reset()
        if not is_worth_more:
            await life.pause(QUIET_SECONDS)
            await wakeup.wait(life, POLL_SECONDS)


async def keep_model(
    life: Lifetime, pool: Pool, models: Models, configured: str, counters: Counters, wakeup: Wakeup
) -> None:
    """The configured model at the start, then whichever is to be at work. One that is away is tried again and again."""
    is_introduced, is_running = False, True
    was_well: bool | None = None
    is_well: bool | None
    reason: str | None = None
    while is_running:
        try:
            await (models.follow() if is_introduced else _introduce(models, configured))
            is_introduced, is_well, reason = True, True, None
        except DATABASE_AWAY as error:
            log.warning("model_not_followed", reason=str(error) or type(error).__name__)
            is_well = was_well
        except UNUSABLE as error:
            is_well, reason = False, str(error)
        counters.model(models.at_work.generation if models.at_work else 0, is_usable=is_well is True)
        if is_well is not was_well and await _tell(pool, reason):
            was_well = is_well
            wakeup.poke()
        is_running = await life.pause(FOLLOW_SECONDS)


async def _introduce(models: Models, configured: str) -> None:
    """What is at work already goes on working although the configured one is away or wrong."""
    try:
        await models.introduce(configured)
    except UNUSABLE:
        await models.follow()
        raise


async def rescue_jobs(life: Lifetime, pool: Pool, attempts_max: int, counters: Counters, wakeup: Wakeup) -> None:
    is_running = True
    while is_running:
        try:
            rescued = await rescue(pool, attempts_max)
        except RETRY as error:
            log.warning("jobs_not_rescued", reason=str(error) or type(error).__name__)
            rescued = []
        for job, verdict in rescued:
            counters.failed(job, Trouble(ABANDONED, f"{job.claimed_by} did not finish"), verdict)
        if rescued:
            wakeup.poke()
        is_running = await life.pause(RESCUE_SECONDS)


async def sample(life: Lifetime, pool: Pool, counters: Counters) -> None:
    """Sampled, because a scrape must not read the backlog."""
    is_running = True
    while is_running:
        try:
            async with pool.acquire() as connection:
                counters.sampled(await store.counts(connection))
        except RETRY as error:
            log.warning("jobs_not_counted", reason=str(error) or type(error).__name__)
        is_running = await life.pause(SAMPLE_SECONDS)


async def _claim(looker: Looker, instance_id: str, at_once: int) -> list[Job]:
    """Pictures that just came first; what room they leave is for those that are looked at again."""
    if looker.models.at_work is None:
        return []
    async with looker.pool.acquire() as connection:
        jobs: list[Job] = []
        for lane in (LIVE, AGAIN):
            if room := at_once - len(jobs):
                jobs += await store.claim(
                    connection, lane, instance_id=instance_id, lease_seconds=LEASE_SECONDS, limit=room
                )
        return jobs


async def _attend(looker: Looker, jobs: Sequence[Job]) -> bool:
    """False when all of them were put off through no fault of theirs: whatever is away, a pause is due."""
    async with _held(looker.pool, jobs):
        looks = await asyncio.gather(*(looker.attend(job) for job in jobs), return_exceptions=True)
    for look in looks:
        if isinstance(look, BaseException):
            raise look
    return any(looks)


@asynccontextmanager
async def _held(pool: Pool, jobs: Sequence[Job]) -> AsyncIterator[None]:
    renewing = asyncio.create_task(_renew(pool, jobs), name="inference-leases")
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.wait({renewing})


async def _renew(pool: Pool, jobs: Sequence[Job]) -> None:
    """Jobs that are done meanwhile are passed over."""
    while True:
        await asyncio.sleep(LEASE_SECONDS / 3)
        try:
            async with pool.acquire() as connection:
                await store.renew(connection, jobs, lease_seconds=LEASE_SECONDS)
        except RETRY as error:
            log.warning("leases_not_renewed", reason=str(error) or type(error).__name__)


async def _tell(pool: Pool, reason: str | None) -> bool:
    """Why the model is not at work, or None. False when that could not be written down: then it is told the next time."""
    if reason is not None:
        log.error("model_not_loaded", reason=reason)
    try:
        async with pool.acquire() as connection:
            if reason is None:
                await close_alert(connection, MODEL_ALERT)
            else:
                subject = "The model that should weigh pictures is not at work"
                await raise_alert(connection, "inference_model", subject, MODEL_ALERT, {"reason": reason[:500]})
    except RETRY as error:
        log.warning("model_alert_not_written", reason=str(error) or type(error).__name__)
        return False
    return True
