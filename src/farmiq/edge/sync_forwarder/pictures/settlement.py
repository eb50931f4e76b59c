"""What became of a picture, written down; the alert about one that is given up in the same transaction."""

import random
from typing import Final

from farmiq.edge.sync_forwarder.answers import FAILING, Away, Refused
from farmiq.edge.sync_forwarder.pictures import store
from farmiq.edge.sync_forwarder.pictures.alerts import raise_given_up
from farmiq.edge.sync_forwarder.pictures.counters import PictureCounters
from farmiq.edge.sync_forwarder.pictures.pauses import Pauses
from farmiq.edge.sync_forwarder.pictures.store import Claimed, Transfer
from farmiq.edge.sync_forwarder.pictures.verdicts import EXPIRED, Outcome, Sent, Verdict, outcome_of
from farmiq.edge.sync_forwarder.settings import SyncForwarderSettings
from farmiq.kit.blame import Blame
from farmiq.kit.clock import Clock
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import Connection, Pool

RESCUED_MAX: Final = 100

log = get_logger(__name__)


class PictureSettlement:
    def __init__(
        self, pool: Pool, settings: SyncForwarderSettings, counters: PictureCounters, rng: random.Random, clock: Clock
    ) -> None:
        self.pauses = Pauses(settings.pause_cap_seconds)
        self._pool = pool
        self._policy = settings.retry_policy
        self._counters = counters
        self._rng = rng
        self._clock = clock
        self._blame = Blame()

    async def write_down(self, transfer: Transfer, verdict: Verdict) -> None:
        verdict = self._fairly(transfer, verdict)
        outcome = outcome_of(verdict, transfer.attempt_count, self._policy, self._rng.random())
        async with self._pool.acquire() as connection, connection.transaction():
            is_ours = await _settle(connection, transfer, outcome)
        self._pace(transfer, verdict)
        if not is_ours:
            self.lost()
        elif isinstance(verdict, Sent):
            self._counters.sent.inc()
            self._counters.sent_bytes.inc(transfer.size_bytes)
            log.info("picture_sent", size_bytes=transfer.size_bytes)
        else:
            self._note(transfer, outcome)

    async def give_back(self, transfer: Transfer) -> None:
        """The service stops: it costs the picture nothing."""
        async with self._pool.acquire() as connection:
            await store.settle(connection, transfer, Outcome(state="pending", attempt_count=transfer.attempt_count))

    async def rescue(self) -> None:
        """Rows whose forwarder is gone. It counts as an attempt, as for events."""
        async with self._pool.acquire() as connection, connection.transaction():
            expired = await store.lock_expired(connection, limit=RESCUED_MAX)
            for transfer in expired:
                outcome = outcome_of(EXPIRED, transfer.attempt_count, self._policy, self._rng.random())
                await _settle(connection, transfer, outcome)
        if expired:
            log.warning("picture_leases_expired", pictures=len(expired))

    def lost(self) -> None:
        """Somebody took the row back while we were sending. What came of it is not ours to write down."""
        self._counters.leases_lost.inc()
        log.warning("picture_lease_lost")

    def _fairly(self, transfer: Transfer, verdict: Verdict) -> Verdict:
        """A cloud that fails at all of them says nothing about this one."""
        if isinstance(verdict, Sent):
            self._blame.went_through(transfer.media_id)
        elif isinstance(verdict, Refused) and verdict.failure.code == FAILING:
            return verdict if self._blame.is_of_picture(transfer.media_id) else Away(verdict.failure)
        return verdict

    def _pace(self, transfer: Transfer, verdict: Verdict) -> None:
        """The tenant's breaker: whoever said something about the picture is there."""
        if isinstance(verdict, Away):
            now, jitter = self._clock.monotonic(), self._rng.random()
            seconds = self.pauses.begin(transfer.tenant_id, now, verdict.retry_after_seconds, jitter)
            failure = verdict.failure
            say = log.error if verdict.needs_person else log.warning
            say("picture_deferred", code=failure.code, reason=failure.message, pause_seconds=round(seconds, 1))
        else:
            self.pauses.end(transfer.tenant_id)
        self._counters.paused.set(len(self.pauses))

    def _note(self, transfer: Transfer, outcome: Outcome) -> None:
        failure = outcome.failure
        if failure is None:
            return
        self._counters.put_off.labels(failure.code).inc()
        if outcome.state == "failed":
            self._counters.given_up.inc()
            log.error("picture_given_up", code=failure.code, reason=failure.message)
        elif outcome.attempt_count > transfer.attempt_count:
            log.warning("picture_refused", code=failure.code, reason=failure.message)


async def _settle(connection: Connection, transfer: Claimed, outcome: Outcome) -> bool:
    is_ours = await store.settle(connection, transfer, outcome)
    if is_ours and outcome.state == "failed" and outcome.failure:
        await raise_given_up(connection, transfer, outcome.failure)
    return is_ours
