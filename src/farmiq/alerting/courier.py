"""Takes notices to the webhook: each until it is taken, or for a day. Killed in between, it goes on where it was."""

import sqlite3
from datetime import timedelta
from typing import Final

import aiohttp

from farmiq.alerting.counters import Counters
from farmiq.alerting.store import AlertStore, Waiting
from farmiq.alerting.webhook import Webhook, headers_of
from farmiq.kit.errors import Transient
from farmiq.kit.http_client import call, open_session
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger

CALL_SECONDS: Final = 10.0
ANSWER_BYTES_MAX: Final = 64 << 10
LOOK_SECONDS: Final = 1.0
WAIT_SECONDS_FIRST: Final = 5.0
WAIT_SECONDS_MAX: Final = 600.0
TRIED_FOR: Final = timedelta(days=1)

log = get_logger(__name__)


async def carry_notices(
    life: Lifetime, store: AlertStore, webhook: Webhook, counters: Counters, *, look_seconds: float = LOOK_SECONDS
) -> None:
    """Until cancelled. A notice is removed after it was taken, so it may be told twice and is never left out."""
    async with open_session(life.service, total_seconds=CALL_SECONDS, connections_max=2) as session:
        while True:
            try:
                is_done = not await _carry_next(life, session, store, webhook, counters)
            except sqlite3.OperationalError as error:
                log.error("notice_not_written", reason=str(error))  # noqa: TRY400 - told again when the disk takes it
                is_done = True
            if is_done and not await life.pause(look_seconds):
                return


async def _carry_next(
    life: Lifetime, session: aiohttp.ClientSession, store: AlertStore, webhook: Webhook, counters: Counters
) -> bool:
    """False when none is due."""
    waiting = store.due_notice(life.clock.now())
    if waiting is not None:
        await _carry(life, session, store, webhook, counters, waiting)
    counters.notices_waiting.set(store.notices_waiting())
    return waiting is not None


async def _carry(
    life: Lifetime,
    session: aiohttp.ClientSession,
    store: AlertStore,
    webhook: Webhook,
    counters: Counters,
    waiting: Waiting,
) -> None:
    problem = await _tell(session, webhook, waiting, life)
    if problem is None:
        store.end_notice(waiting.id)
        counters.notices.labels("taken").inc()
        log.info("notice_taken", notice_id=waiting.id)
        return
    now = life.clock.now()
    if now - waiting.made_at > TRIED_FOR:
        store.end_notice(waiting.id)
        counters.notices.labels("given_up").inc()
        log.error("notice_given_up", notice_id=waiting.id, attempts=waiting.attempts + 1, reason=problem)
        return
    store.put_off_notice(waiting.id, problem, now + timedelta(seconds=wait_seconds(waiting.attempts)))
    counters.notices.labels("put_off").inc()
    log.warning("notice_put_off", notice_id=waiting.id, attempts=waiting.attempts + 1, reason=problem)


def wait_seconds(attempts: int) -> float:
    return float(min(WAIT_SECONDS_MAX, WAIT_SECONDS_FIRST * 2 ** min(attempts, 30)))


async def _tell(session: aiohttp.ClientSession, webhook: Webhook, waiting: Waiting, life: Lifetime) -> str | None:
    """Why it was not taken, or None. A redirect is not followed: it might lead anywhere."""
    headers = headers_of(webhook, waiting.id, waiting.body, life.clock.now())
    try:
        answer = await call(
            session, "POST", webhook.url, body=waiting.body, headers=headers, answer_bytes_max=ANSWER_BYTES_MAX
        )
    except Transient as error:
        return error.code  # its words hold the address, which may hold a secret
    return None if 200 <= answer.status < 300 else f"HTTP_{answer.status}"
