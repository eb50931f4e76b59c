"""The station's memory: events and pictures, durable before anything is said of them, and kept until the edge has them.

Each method is one transaction. Killed between any two of them, the station goes on from what the last one left.
"""

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from farmiq.contracts.ack import EVENT_ID_REUSED, DeviceAck, EventAck
from farmiq.contracts.media import PICTURE_STATES_MAX, PresignAnswer
from farmiq.contracts.station import STATION_LOSS, LossReason
from farmiq.contracts.timestamps import from_us, to_us
from farmiq.device.weighvision_agent import event_store, picture_store, verification
from farmiq.device.weighvision_agent.database import PICTURES, UNTOLD, open_queue, transaction
from farmiq.device.weighvision_agent.declaring import (
    declare,
    declare_damage,
    declare_untaken,
    fail_session,
    give_up_events,
    give_up_pictures,
    lost_event,
    tell_under_another_id,
    unannounced,
)
from farmiq.device.weighvision_agent.drops import Limits, to_make_room, too_many, too_old
from farmiq.device.weighvision_agent.event_store import OpenSession, Queued, ToSend
from farmiq.device.weighvision_agent.losses import Lost
from farmiq.device.weighvision_agent.messages import Event, Messages
from farmiq.device.weighvision_agent.picture_store import Picture, delay_after
from farmiq.device.weighvision_agent.replay import Settled
from farmiq.device.weighvision_agent.running_time import RunningTime
from farmiq.device.weighvision_agent.runway import WINDOW, Lately, runway_of
from farmiq.kit.clock import Clock
from farmiq.kit.logging import get_logger
from farmiq.spool import lock

UNKNOWN_MEDIA = "unknown_media"
"""The edge never signed a URL for this picture, or has forgotten that it did: it has to come once more."""

EPOCH = "epoch"

log = get_logger(__name__)


class Queue:
    """Belongs to one thread."""

    def __init__(self, folder: Path, limits: Limits, messages: Messages, clock: Clock) -> None:
        self._limits = limits
        self._messages = messages
        self._clock = clock
        self._pictures = folder / PICTURES
        self._untaken: list[Lost] = []
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._lock = lock.take(folder)
        self.connection, damaged = open_queue(folder)
        for aside in damaged:
            self._tell_damage(aside)
        self._ran = RunningTime(self.connection, clock)
        self._reconcile()

    # What is captured

    def begin_session(self, session: OpenSession, at: datetime, events: Sequence[Event]) -> None:
        with self._writing():
            event_store.begin_session(self.connection, session, to_us(at), self._ran.now_us())
            self._add(events)

    def record_weight(self, weight_kg: float, event: Event) -> None:
        with self._writing():
            if event.session_id is not None:
                event_store.set_weight(self.connection, event.session_id, weight_kg)
            self._add([event])

    def add_events(self, events: Sequence[Event]) -> None:
        with self._writing():
            self._add(events)

    def add_picture(self, picture: Picture, data: bytes, beside: Sequence[Event] = ()) -> None:
        """The file first: a row must never promise bytes that a power cut can take back. A picture for which the disk has no
        room is declared in its place."""
        is_on_disk = self._is_written(picture, data)
        try:
            with self._writing():
                if is_on_disk:
                    picture_store.add(self.connection, picture, self._ran.now_us())
                    event_store.count_image(self.connection, picture.session_id)
                else:
                    lost = Lost(from_us(picture.captured_us), picture.session_id)
                    declare_untaken(self.connection, self._messages, [lost], self._clock.now())
                self._add(beside)
        except sqlite3.Error:
            picture_store.remove_files(self._pictures, [picture.picture_id])
            raise

    def end_session(self, session_id: UUID, finalized: Callable[[OpenSession], Event]) -> None:
        """Repeating it changes nothing: a session ends once."""
        with self._writing():
            for session in event_store.open_sessions(self.connection):
                if session.session_id == session_id:
                    event_store.close_session(self.connection, session_id)
                    self._add([finalized(session)])

    def open_sessions(self) -> list[OpenSession]:
        return event_store.open_sessions(self.connection)

    # What the disk does not take

    def not_taken(self, lost: Sequence[Lost]) -> None:
        """They could not be recorded, and neither can that: it is, with the next transaction that succeeds."""
        self._untaken.extend(lost)

    @property
    def untaken_count(self) -> int:
        """Lost, and not yet declared."""
        return len(self._untaken)

    # What is sent

    def next_to_send(self, count: int, passing: Sequence[int] = ()) -> list[ToSend]:
        return event_store.next_to_send(self.connection, count, passing)

    def tell_gathered(self, refused: Sequence[int] = ()) -> None:
        """Losses that were gathered are told from now on, and grow no more."""
        with self._writing():
            event_store.tell_gathered(self.connection, refused)

    def next_to_upload(self) -> Picture | None:
        return picture_store.next_to_upload(self.connection, self._ran.now_us())

    def read_picture(self, picture: Picture) -> bytes | None:
        """None when the file is not what was stored: it is declared, and the row is gone with it. And when the disk does not give
        it: that costs it an attempt like any refusal, so that the others get their turn."""
        try:
            data = picture_store.read_file(self._pictures, picture.picture_id)
        except OSError as error:
            self._unreadable(picture, error)
            return None
        if data is not None and hashlib.sha256(data).hexdigest() == picture.sha256:
            return data
        with self._writing():
            give_up_pictures(self.connection, self._messages, [picture], "damaged", self._clock.now())
            picture_store.delete(self.connection, [picture.picture_id])
        picture_store.remove_files(self._pictures, [picture.picture_id])
        return None

    def presigned(self, picture: Picture, answer: PresignAnswer) -> Picture:
        """Before the first byte goes to that URL: whoever dies in the middle of it goes on with the same picture, not with a
        second one."""
        signed = picture_store.signed(picture, answer)
        with self._writing():
            picture_store.set_url(self.connection, signed)
        return signed

    def forget_url(self, picture: Picture) -> None:
        with self._writing():
            picture_store.set_waiting(self.connection, picture.picture_id, picture.attempts, 0)

    def uploaded(self, picture: Picture, media_id: UUID) -> None:
        captured, at = picture_store.captured(picture, media_id), from_us(picture.captured_us)
        event = self._messages.image(picture.picture_id, picture.session_id, at, picture.trace_id, captured)
        with self._writing():
            picture_store.set_uploaded(self.connection, picture.picture_id)
            if not verification.is_announced_as(self.connection, picture, media_id, self._ran.now_us()):
                self._add([event])

    def upload_put_off(self, picture: Picture, delay: timedelta) -> None:
        """The edge is away or asked us to wait: that costs the picture nothing."""
        with self._writing():
            picture_store.put_off(self.connection, picture.picture_id, picture.attempts, self._after(delay))

    def upload_failed(self, picture: Picture, reason: str, delay: timedelta, *, keep_url: bool = False) -> None:
        """An answer about this picture. After so many of them it is given up. `keep_url`: its bytes may be there all the same."""
        with self._writing():
            self._upload_failed(picture, reason, delay, keep_url=keep_url)

    # What the edge says

    def settle(self, ack: DeviceAck, *, is_back: bool) -> Settled:
        settled = Settled([], {}, any(event.result == "stored" for event in ack.events))
        with self._writing():
            if is_back:
                again = event_store.send_again(self.connection, self._ran.now_us())
                is_same_epoch = self.epoch == ack.epoch
                log.warning("edge_went_back", is_same_epoch=is_same_epoch, now=str(ack.epoch), sent_again=again)
                picture_store.declare_ourselves(self.connection)
            event_store.set_fact(self.connection, EPOCH, str(ack.epoch))
            for event in ack.events:
                self._settle(event, ack.epoch, settled)
            for one in ack.put_off or ():
                queued = event_store.by_event_id(self.connection, one.event_id)
                if queued is not None and queued.state == "waiting":
                    settled.put_off[queued.number] = one.code
        return settled

    @property
    def epoch(self) -> UUID | None:
        known = event_store.fact(self.connection, EPOCH)
        return None if known is None else UUID(known)

    # What became of pictures at the edge

    def next_to_check(self) -> list[Picture]:
        return picture_store.next_to_check(self.connection, self._ran.now_us(), PICTURE_STATES_MAX)

    def states_reported(self, pictures: Sequence[Picture], states: Mapping[UUID, str] | None) -> None:
        """What the edge has of these. None: it is of a release that cannot say, and its acknowledgement has to do."""
        with self._writing():
            for again in verification.note_states(self.connection, pictures, states, self._ran.now_us()):
                reason = "the edge does not have it"
                self._upload_failed(again, reason, delay_after(again.attempts), keep_url=False)

    # What is kept, and for how long

    def keep_house(self) -> None:
        """What has waited too long is given up; what the edge has had for long enough is forgotten."""
        oldest_us, acked_us = self._after(-self._limits.age_max), self._after(-self._limits.keep_acked)
        with self._writing():
            self._ran.keep()
            waiting = event_store.waiting(self.connection)
            self._drop_events(too_old(waiting, oldest_us), "too_old")
            for picture in picture_store.waiting_older_than(self.connection, oldest_us):
                self._fail_picture(picture, "too_old", "no way to the edge for too long")
            # A restored edge may ask for all of them again: together with what waits they must not exceed the limit.
            room = max(0, self._limits.events_max - event_store.count_waiting(self.connection))
            event_store.forget_settled(self.connection, acked_us, room)
            gone = picture_store.settled_before(self.connection, acked_us, oldest_us)
            picture_store.delete(self.connection, gone)
            event_store.forget_sessions(self.connection, oldest_us)
        picture_store.remove_files(self._pictures, gone)

    def runway(self) -> timedelta | None:
        """What the edge has is kept for a while: so much of the past can be seen."""
        limits, now_us = self._limits, self._ran.now_us()
        window = min(WINDOW, limits.keep_acked, timedelta(microseconds=now_us))
        since_us = self._after(-window)
        alone_bytes, picture_us = picture_store.waiting(self.connection)
        event_us = event_store.ageing_since_us(self.connection)
        oldest_us = min(one for one in (now_us, picture_us, event_us) if one is not None)
        room_bytes = picture_store.held_bytes(self.connection) + picture_store.free_bytes(self._pictures)
        return runway_of(
            Lately(
                window=window,
                events=event_store.count_since(self.connection, since_us),
                events_room=limits.events_max - event_store.count_waiting(self.connection),
                picture_bytes=picture_store.bytes_since(self.connection, since_us),
                picture_bytes_room=min(limits.pictures_bytes_max, room_bytes - limits.keep_free_bytes) - alone_bytes,
                age_room=limits.age_max - timedelta(microseconds=now_us - oldest_us),
            )
        )

    def close(self) -> None:
        if self._untaken:
            with contextlib.suppress(sqlite3.Error), self._writing():
                pass  # the last chance of what was not declared
        self.connection.close()
        os.close(self._lock)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction. It begins with what earlier ones could not say: a session must not end before its losses are known."""
        with transaction(self.connection):
            declare_untaken(self.connection, self._messages, self._untaken, self._clock.now())
            yield
        self._untaken.clear()

    def _add(self, events: Sequence[Event]) -> None:
        event_store.add(self.connection, events, self._ran.now_us())
        if event_store.count_waiting(self.connection) > self._limits.events_max:
            waiting = event_store.waiting(self.connection)
            self._drop_events(too_many(waiting, self._limits.events_max), "queue_full")

    def _drop_events(self, numbers: Sequence[int], reason: LossReason) -> None:
        queued = event_store.by_number(self.connection, numbers)
        give_up_events(self.connection, self._messages, queued, reason, self._clock.now(), self._ran.now_us())

    def _after(self, delay: timedelta) -> int:
        return self._ran.now_us() + delay // timedelta(microseconds=1)

    def _upload_failed(self, picture: Picture, reason: str, delay: timedelta, *, keep_url: bool) -> None:
        attempts = picture.attempts + 1
        if attempts >= self._limits.attempts_max:
            self._fail_picture(picture, "retries_exhausted", reason)
        elif keep_url:
            picture_store.put_off(self.connection, picture.picture_id, attempts, self._after(delay))
        else:
            picture_store.set_waiting(self.connection, picture.picture_id, attempts, self._after(delay))

    def _unreadable(self, picture: Picture, error: OSError) -> None:
        reason = f"it can't be read: {error.strerror}"
        log.warning(
            "picture_not_read", picture_id=str(picture.picture_id), attempts=picture.attempts + 1, reason=reason
        )
        # Its bytes may have arrived before: a URL that it has is still the one to ask about.
        keep_url = picture.state == "presigned"
        self.upload_failed(picture, reason, delay_after(picture.attempts), keep_url=keep_url)

    def _fail_picture(self, picture: Picture, reason: LossReason, detail: str) -> None:
        """Declared at once. The file stays until its time is over or its room is needed: somebody may still want it."""
        picture_store.settle(self.connection, picture.picture_id, "failed", self._ran.now_us(), detail)
        give_up_pictures(self.connection, self._messages, [picture], reason, self._clock.now())
        log.error("picture_given_up", picture_id=str(picture.picture_id), reason=reason, detail=detail)

    def _settle(self, answer: EventAck, epoch: UUID, settled: Settled) -> None:
        event = event_store.by_event_id(self.connection, answer.event_id)
        if event is None or event.state == "rejected":
            return
        if answer.result != "rejected":
            event_store.acknowledge(self.connection, event.number, epoch, self._ran.now_us())
            if event.picture_id is not None:
                picture_store.settle(self.connection, event.picture_id, "acked", self._ran.now_us())
                verification.check_soon(self.connection, event.picture_id, self._ran.now_us())
        elif answer.is_put_off or event.event_type == STATION_LOSS:
            # A loss is told until the edge has it, whatever it says: nobody else knows of it.
            settled.put_off[event.number] = answer.code or ""
            if answer.code == EVENT_ID_REUSED:
                tell_under_another_id(self.connection, event.number)
            return
        else:
            self._rejected(event, answer.code)
        settled.done.append(event.number)

    def _rejected(self, event: Queued, code: str | None) -> None:
        log.error("event_rejected", event_id=str(event.event_id), event_type=event.event_type, code=code)
        if event.picture_id is not None and code == UNKNOWN_MEDIA:
            event_store.delete(self.connection, [event.number])
            self._upload_again(event)
            return
        event_store.reject(self.connection, event.number, code, self._ran.now_us())
        unannounced(self.connection, event, self._ran.now_us())
        declare(self.connection, self._messages, "rejected", [lost_event(event)], self._clock.now())
        fail_session(self.connection, event.session_id, f"{event.event_type} was rejected: {code}")

    def _upload_again(self, event: Queued) -> None:
        assert event.picture_id is not None  # noqa: S101 - the caller looked
        picture = picture_store.get(self.connection, event.picture_id)
        if picture is None:
            lost = Lost(from_us(event.ts_us), event.session_id)
            declare(self.connection, self._messages, "forgotten_by_edge", [lost], self._clock.now())
            fail_session(self.connection, event.session_id, "the edge has forgotten a picture that is gone here")
        else:
            picture_store.wait_anew(self.connection, picture.picture_id, self._ran.now_us())
            self._upload_failed(picture, "the edge does not know it", delay_after(picture.attempts), keep_url=False)

    def _is_written(self, picture: Picture, data: bytes) -> bool:
        """False when there is no room for it, whatever is given up; or when the disk takes no file."""
        if not self._makes_room(len(data)):
            log.error(
                "picture_not_taken", picture_id=str(picture.picture_id), reason="the disk is full of other things"
            )
            return False
        try:
            picture_store.write_file(self._pictures, picture.picture_id, data)
        except OSError as error:
            log.error("picture_not_taken", picture_id=str(picture.picture_id), reason=str(error))  # noqa: TRY400 - declared by the caller
            return False
        return True

    def _makes_room(self, needed_bytes: int) -> bool:
        limits = self._limits
        excess_bytes = max(
            picture_store.held_bytes(self.connection) + needed_bytes - limits.pictures_bytes_max,
            limits.keep_free_bytes + needed_bytes - picture_store.free_bytes(self._pictures),
        )
        if excess_bytes <= 0:
            return True
        going = to_make_room(picture_store.held(self.connection), excess_bytes)
        ids = [UUID(one.picture_id) for one in going]
        lost = [picture_store.get(self.connection, UUID(one.picture_id)) for one in going if one.is_loss]
        with self._writing():
            found = [picture for picture in lost if picture is not None]
            give_up_pictures(self.connection, self._messages, found, "no_space", self._clock.now())
            picture_store.delete(self.connection, ids)
        picture_store.remove_files(self._pictures, ids)
        return sum(one.size_bytes for one in going) >= excess_bytes

    def _reconcile(self) -> None:
        """Files and rows after a kill: a file without a row was never promised, a row without its file is a loss."""
        files = picture_store.files(self._pictures)
        held = picture_store.held(self.connection)
        for name in files.keys() - {one.picture_id for one in held}:
            files[name].unlink()
            log.info("unfinished_picture_removed", file=name)
        for one in held:
            if one.is_loss and one.picture_id not in files:
                picture = picture_store.get(self.connection, UUID(one.picture_id))
                assert picture is not None  # noqa: S101 - read a line ago, by the only reader
                self.read_picture(picture)

    def _tell_damage(self, aside: Path) -> None:
        with self._writing():
            declare_damage(self.connection, self._messages, aside, self._clock.now())
        (aside / UNTOLD).unlink()
