"""An animal on the scale, from its first step to its last: what the scale says becomes a session."""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from farmiq.contracts.weighvision import StationSessionCreated
from farmiq.device.weighvision_agent.database import QueueFailed
from farmiq.device.weighvision_agent.detection import Arrived, Change, Left, Steady
from farmiq.device.weighvision_agent.event_store import OpenSession
from farmiq.device.weighvision_agent.losses import Lost, as_lost
from farmiq.device.weighvision_agent.messages import Event, Messages
from farmiq.device.weighvision_agent.photographer import Photographer, Shot
from farmiq.device.weighvision_agent.picture_store import new_picture
from farmiq.device.weighvision_agent.queue import Queue
from farmiq.device.weighvision_agent.recorder import Recorder
from farmiq.device.weighvision_agent.station_file import SessionTable
from farmiq.kit.ids import new_id, new_trace_id
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.retry import Backoff

STOP_SECONDS = 5.0

log = get_logger(__name__)


@dataclass
class Visit:
    """One animal's stay. `weights` are those that the scale settled on."""

    left: asyncio.Event = field(default_factory=asyncio.Event)
    weights: asyncio.Queue[float] = field(default_factory=asyncio.Queue)
    is_weighed: bool = False


class Weigher:
    def __init__(
        self,
        life: Lifetime,
        table: SessionTable,
        messages: Messages,
        recorder: Recorder,
        photographer: Photographer,
    ) -> None:
        self._life = life
        self._table = table
        self._messages = messages
        self._recorder = recorder
        self._photographer = photographer
        self._visit: Visit | None = None
        self._sessions: dict[asyncio.Task[None], Visit] = {}
        self.unweighed = 0

    def notice(self, change: Change) -> None:
        match change:
            case Arrived():
                self._visit = Visit()
            case Steady(weight_kg) if self._visit is not None:
                self._visit.weights.put_nowait(weight_kg)
                if not self._visit.is_weighed:
                    self._visit.is_weighed = True
                    self._begin(self._visit)
            case Left() if self._visit is not None:
                self._visit.left.set()
                log.info("animal_left", is_weighed=self._visit.is_weighed)
                if not self._visit.is_weighed:
                    self.unweighed += 1
                self._visit = None

    async def finish(self) -> None:
        """Sessions end with the pictures they have; one that can't be ended in time is ended at the next start."""
        if not self._sessions:
            return
        for visit in self._sessions.values():
            visit.left.set()
        _, late = await asyncio.wait(self._sessions, timeout=STOP_SECONDS)
        for task in late:
            task.cancel()

    async def end_interrupted(self, sessions: Sequence[OpenSession]) -> None:
        """Those that were open when the station stopped. Nobody takes their pictures any more."""
        for session in sessions:
            log.warning("session_interrupted", session_id=str(session.session_id), image_count=session.image_count)
            await self._end(session.session_id)

    def _begin(self, visit: Visit) -> None:
        task = asyncio.create_task(self._weigh(visit))
        self._sessions[task] = visit
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._sessions[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("session_broken", exc_info=error)

    async def _weigh(self, visit: Visit) -> None:
        weight_kg, at, table = visit.weights.get_nowait(), self._life.clock.now(), self._table
        session = OpenSession(new_id(), new_trace_id(), weight_kg)
        created = StationSessionCreated(batch_id=table.batch_id, initial_weight_kg=weight_kg)
        events = [
            self._messages.created(session.session_id, at, session.trace_id, created),
            self._messages.weight(session.session_id, at, session.trace_id, weight_kg),
        ]
        at_stake = [as_lost(event) for event in events]
        try:
            await self._recorder.record(lambda queue: queue.begin_session(session, at, events), at_stake)
        except QueueFailed as error:
            # Nobody has heard of this session, and nobody will but as a loss.
            log.error("session_not_recorded", reason=str(error))  # noqa: TRY400 - the disk's word is the whole story
            return
        log.info("session_begun", session_id=str(session.session_id), weight_kg=weight_kg)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(table.seconds_max):
                await self._photograph(session, visit)
        await self._end(session.session_id)

    async def _photograph(self, session: OpenSession, visit: Visit) -> None:
        for number in range(self._table.pictures):
            if number:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._table.picture_interval_seconds):
                        await visit.left.wait()
            await self._record_weights(session, visit)
            if visit.left.is_set():
                return
            shot = await self._photographer.take()
            # One that was under way when the animal left may show an empty scale, or the next animal.
            if shot is None or visit.left.is_set():
                continue
            await keep(self._recorder, shot, session.trace_id, session.session_id)

    async def _record_weights(self, session: OpenSession, visit: Visit) -> None:
        """The animal has settled on another weight since."""
        while not visit.weights.empty():
            weight_kg = visit.weights.get_nowait()
            event = self._messages.weight(session.session_id, self._life.clock.now(), session.trace_id, weight_kg)
            try:
                work = partial(Queue.record_weight, weight_kg=weight_kg, event=event)
                await self._recorder.record(work, [as_lost(event)])
            except QueueFailed as error:
                log.error("weight_not_recorded", reason=str(error))  # noqa: TRY400 - as above

    async def _end(self, session_id: UUID) -> None:
        """Tried until it succeeds: a session that is begun has an end."""
        backoff = Backoff(base_seconds=0.5, cap_seconds=10.0)

        def finalized(session: OpenSession) -> Event:
            at = self._life.clock.now()
            return self._messages.finalized(session_id, at, session.trace_id, session.image_count, session.weight_kg)

        while True:
            try:
                await self._recorder.record(lambda queue: queue.end_session(session_id, finalized))
            except QueueFailed as error:
                log.error("session_end_not_recorded", session_id=str(session_id), reason=str(error))  # noqa: TRY400 - as above
                await asyncio.sleep(backoff.next_seconds())
            else:
                log.info("session_finalized", session_id=str(session_id))
                return


async def keep(
    recorder: Recorder, shot: Shot, trace_id: str, session_id: UUID | None, beside: Sequence[Event] = ()
) -> None:
    """On disk when this returns, or a loss that is declared as soon as the disk takes that."""
    picture = new_picture(new_id(), shot.data, shot.content_type, shot.captured_at, trace_id, session_id)
    at_stake = [Lost(shot.captured_at, session_id), *(as_lost(event) for event in beside)]
    try:
        await recorder.record(lambda queue: queue.add_picture(picture, shot.data, beside), at_stake)
    except QueueFailed as error:
        log.error("picture_not_recorded", reason=str(error))  # noqa: TRY400 - the disk's word is the whole story
