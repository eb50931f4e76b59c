"""What became of a request, written down: the rows' new states and the tenant's `sync_state`, in one transaction."""

import random
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from farmiq.contracts import event_types
from farmiq.contracts.sync import CloudEpoch
from farmiq.edge.sync_forwarder import store
from farmiq.edge.sync_forwarder.answers import FAILING, Away, Judged, Refused, outcomes
from farmiq.edge.sync_forwarder.breaker import pause_seconds
from farmiq.edge.sync_forwarder.cloud_epochs import KnownEpoch, Speaker, StaleEpochResponse, judge
from farmiq.edge.sync_forwarder.counters import Counters
from farmiq.edge.sync_forwarder.held import HeldSubjects
from farmiq.edge.sync_forwarder.holding import SHOWN_IDS, Holding
from farmiq.edge.sync_forwarder.settings import SyncForwarderSettings
from farmiq.edge.sync_forwarder.store import Tally
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import Connection, Pool
from farmiq.outbox.event import ClaimedEvent
from farmiq.outbox.held import release as release_held
from farmiq.outbox.redrive import try_once_more
from farmiq.outbox.settle import release, settle
from farmiq.outbox.verdicts import Failure, Outcome, failed, held

# Events about batches are not counted into the next events about batches, or an idle farm would report for ever.
_ABOUT_BATCHES: Final = frozenset({event_types.SYNC_BATCH_SENT, event_types.SYNC_BATCH_ACKED})

log = get_logger(__name__)


class Settlement:
    def __init__(
        self,
        pool: Pool,
        settings: SyncForwarderSettings,
        counters: Counters,
        rng: random.Random,
        held: HeldSubjects,
    ) -> None:
        self.held = held
        self._pool = pool
        self._settings = settings
        self._counters = counters
        self._rng = rng
        self._well: set[str] = set()

    async def known_epoch(self, tenant_id: str) -> KnownEpoch:
        """What a question sets out under. Read each time: another replica may have heard more since."""
        async with self._pool.acquire() as connection:
            return await store.known_epoch(connection, tenant_id)

    async def write_down(
        self,
        tenant_id: str,
        batch_id: str,
        holding: Holding,
        events: Sequence[ClaimedEvent],
        answer: Refused | Judged,
        asked_under: KnownEpoch,
    ) -> None:
        """Only of rows that are still ours: an answer about a row whose lease is lost changes nothing."""
        said = answer.epoch if isinstance(answer, Judged) else None
        async with holding.lock:
            ours = [event for event in events if event.id in holding]
            results = outcomes(
                ours, answer, self._settings.retry_policy, self._rng.random, self.held.seconds_until_retry
            )
            failures = [outcome.failure for outcome in results if outcome.failure]
            try:
                async with self._pool.acquire() as connection, connection.transaction():
                    settled = await settle(connection, results, said.answer if said else None)
                    known = await store.record_answer(
                        connection,
                        tenant_id,
                        batch_id=batch_id,
                        last_acked_id=_last_acked(results),
                        error_code=failures[-1].code if failures else None,
                        tally=_tally(ours, results, settled),
                    )
                    if said is not None:
                        await _hear(connection, tenant_id, known, asked_under, said)
            except StaleEpochResponse as reason:
                # The events are still in hand, and go back as they came. The next question is asked under what is known now.
                log.warning("answer_ignored", events=len(ours), reason=str(reason))
                return
            self._note(holding, results, settled)
        acked = {outcome.lease.id for outcome in results if outcome.status == "acked"} & settled
        await self._release_held([event for event in ours if event.id in acked])
        await self._follow_up(tenant_id, is_judged=isinstance(answer, Judged))

    async def park_held(self, holding: Holding) -> None:
        """Events of what the cloud holds wait without being sent: one of them at a time asks whether it still does."""
        outcomes_ = [
            held(event, why, self.held.wait_seconds())
            for event in holding.events
            if (why := self.held.hold_of(event)) is not None
        ]
        if outcomes_:
            async with holding.lock:
                async with self._pool.acquire() as connection:
                    settled = await settle(connection, outcomes_)
                self._note(holding, outcomes_, settled)

    async def _release_held(self, accepted: Sequence[ClaimedEvent]) -> None:
        """The cloud has taken one of them: the others may follow. Killed in between, they do when their wait is over."""
        for subject in self.held.freed_by(accepted):
            async with self._pool.acquire() as connection:
                released = await release_held(connection, subject)
            log.info("held_events_released", tenant_id=subject.tenant_id, subject=str(subject.name), events=released)

    async def _follow_up(self, tenant_id: str, *, is_judged: bool) -> None:
        """A cloud that failed and judges again: what it had failed on until it was a dead letter gets another attempt. Whether
        it failed before this service was started, nobody knows, so that is looked at once."""
        if not is_judged:
            self._well.discard(tenant_id)
        elif tenant_id not in self._well:
            async with self._pool.acquire() as connection:
                tried = await try_once_more(connection, tenant_id, FAILING, self._settings.retry_policy.attempts_max)
            self._well.add(tenant_id)
            if tried:
                log.warning("dead_letters_tried_again", tenant_id=tenant_id, events=tried, code=FAILING)

    async def fail(self, holding: Holding, unsendable: Sequence[tuple[ClaimedEvent, Failure]]) -> None:
        """Events that cannot even be written into a request."""
        policy = self._settings.retry_policy
        results = [failed(event, failure, policy, self._rng.random()) for event, failure in unsendable]
        async with holding.lock:
            async with self._pool.acquire() as connection:
                settled = await settle(connection, results)
            self._note(holding, results, settled)

    async def pause(self, tenant_id: str, batch_id: str, holding: Holding, away: Away, *, is_probe: bool) -> None:
        """The cloud has judged nothing: the tenant waits, and its rows go back as they came."""
        async with holding.lock, self._pool.acquire() as connection, connection.transaction():
            events = holding.events
            breaker = await store.lock_breaker(connection, tenant_id)
            # Requests that were all under way when the link went down have seen one failure, not several.
            failures = breaker.consecutive_failures + (1 if is_probe or not breaker.is_paused else 0)
            cap_seconds = self._settings.pause_cap_seconds
            seconds = pause_seconds(failures, away.retry_after_seconds, cap_seconds, self._rng.random())
            await store.record_pause(
                connection,
                tenant_id,
                consecutive_failures=failures,
                seconds=seconds,
                batch_id=batch_id,
                error_code=away.failure.code,
                is_probe=is_probe,
            )
            await release(connection, events, away.failure)
            holding.drop([event.id for event in events])
        say = log.error if away.needs_person else log.warning
        say(
            "batch_deferred",
            events=len(events),
            code=away.failure.code,
            reason=away.failure.message,
            consecutive_failures=failures,
            pause_seconds=round(seconds, 1),
        )

    async def give_back(self, holding: Holding, events: Sequence[ClaimedEvent]) -> None:
        """The service stops, or could not go on: it costs the events nothing."""
        if not events:
            return
        async with holding.lock:
            async with self._pool.acquire() as connection:
                released = await release(connection, events)
            holding.drop([event.id for event in events])
        log.info("claims_given_back", events=len(released))

    def _note(self, holding: Holding, results: Sequence[Outcome], settled: set[UUID]) -> None:
        holding.drop(settled)
        holding.lost([outcome.lease.id for outcome in results if outcome.lease.id not in settled])
        ours = [outcome for outcome in results if outcome.lease.id in settled]
        self._counters.events_acked.inc(sum(outcome.status == "acked" for outcome in ours))
        self._counters.events_failed.inc(sum(outcome.status != "acked" and not outcome.is_held for outcome in ours))
        self._counters.events_held.inc(sum(outcome.is_held for outcome in ours))
        dead = [outcome for outcome in ours if outcome.status == "dlq"]
        if dead:
            self._counters.dead_letters.inc(len(dead))
            ids = [str(outcome.lease.id) for outcome in dead[:SHOWN_IDS]]
            codes = sorted({outcome.failure.code for outcome in dead if outcome.failure})
            log.error("events_dead_lettered", events=len(dead), event_ids=ids, codes=codes)


async def _hear(
    connection: Connection, tenant_id: str, known: KnownEpoch, asked_under: KnownEpoch, said: CloudEpoch
) -> None:
    """After the tenant's row is locked. A stale answer settles nothing: its transaction is undone."""
    speaker = judge(known, asked_under, said)
    if speaker is Speaker.STALE:
        raise StaleEpochResponse(f"the cloud answered under epoch {said.epoch}, and {known.epoch} may have followed it")
    if speaker is Speaker.SAME:
        await store.record_heard(connection, tenant_id, said.answer, known.after(said))
        return
    await store.begin_epoch(connection, tenant_id, said)
    if known.epoch is not None:
        log.warning(
            "cloud_epoch_changed", was=str(known.epoch), now=str(said.epoch), resend_after=said.resend_after or 0
        )


def _last_acked(results: Sequence[Outcome]) -> UUID | None:
    return next((outcome.lease.id for outcome in reversed(results) if outcome.status == "acked"), None)


def _tally(events: Sequence[ClaimedEvent], results: Sequence[Outcome], settled: set[UUID]) -> Tally:
    told_of = {event.id for event in events if event.event_type not in _ABOUT_BATCHES} & settled
    acked = sum(outcome.status == "acked" for outcome in results if outcome.lease.id in told_of)
    return Tally(len(told_of), acked)
