"""A station's queue on a real disk, with a clock that the test moves."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

from msgspec.structs import replace

from farmiq.contracts.ack import AckResult, DeviceAck, EventAck, PutOff
from farmiq.contracts.media import PresignAnswer
from farmiq.contracts.weighvision import StationSessionCreated
from farmiq.device.weighvision_agent.drops import Limits
from farmiq.device.weighvision_agent.event_store import OpenSession
from farmiq.device.weighvision_agent.messages import Event, Messages
from farmiq.device.weighvision_agent.picture_store import Picture, new_picture
from farmiq.device.weighvision_agent.queue import Queue
from farmiq.device.weighvision_agent.replay import Settled
from farmiq.device.weighvision_agent.settings import StationSettings
from farmiq.kit.clock import Clock
from farmiq.kit.ids import new_id
from support.picture_files import picture

EPOCH, RESTORED = UUID(int=7), UUID(int=8)
JPEG = picture()
LIMITS = Limits(
    events_max=10_000,
    age_max=timedelta(hours=72),
    pictures_bytes_max=1 << 30,
    keep_free_bytes=0,
    keep_acked=timedelta(hours=24),
    attempts_max=3,
)
SETTINGS = StationSettings(
    tenant_id="demo",
    farm_id="farm-1",
    barn_id="barn-1",
    device_id="scale-1",
    mqtt_url="mqtt://127.0.0.1:9",
    edge_media_store_url="http://127.0.0.1:9",
    http_token="a token",
    weighvision_queue_dir="",
)
MESSAGES = Messages(SETTINGS)


class HandClock(Clock):
    def __init__(self) -> None:
        self.at = datetime(2026, 5, 4, 12, tzinfo=UTC)
        self.uptime = timedelta(seconds=1000)

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.uptime.total_seconds()

    def wait(self, **span: float) -> None:
        self.at += timedelta(**span)
        self.uptime += timedelta(**span)

    def jump(self, **span: float) -> None:
        """Somebody has set the wall clock: no time has passed."""
        self.at += timedelta(**span)


class Bench:
    """Opens the queue, and opens it again as a new process would."""

    def __init__(self, folder: Path, **limits: Any) -> None:
        self.folder = folder
        self.clock = HandClock()
        self._limits = replace(LIMITS, **limits)
        self.queue = self._open()

    def __del__(self) -> None:
        """The file is closed with the test that opened it: Python 3.13 warns of a database that was left open."""
        if hasattr(self, "queue"):
            self.queue.connection.close()

    def _open(self) -> Queue:
        return Queue(self.folder, self._limits, MESSAGES, self.clock)

    def reopen(self) -> Queue:
        self.queue.close()
        self.queue = self._open()
        return self.queue

    def reboot(self, **off: float) -> Queue:
        """Another boot counts its uptime from the beginning, however long the station was off."""
        self.clock.jump(**off)
        self.clock.uptime = timedelta(seconds=3)
        return self.reopen()

    def begin(self, weight_kg: float = 80.0) -> UUID:
        session = OpenSession(new_id(), "trace-1", weight_kg)
        at = self.clock.now()
        created = MESSAGES.created(session.session_id, at, "trace-1", StationSessionCreated())
        weight = MESSAGES.weight(session.session_id, at, "trace-1", weight_kg)
        self.queue.begin_session(session, at, [created, weight])
        return session.session_id

    def end(self, session_id: UUID) -> None:
        def finalized(session: OpenSession) -> Event:
            at = self.clock.now()
            return MESSAGES.finalized(session_id, at, session.trace_id, session.image_count, session.weight_kg)

        self.queue.end_session(session_id, finalized)

    def take(self, session_id: UUID | None = None, data: bytes = JPEG) -> Picture:
        taken = new_picture(new_id(), data, "image/jpeg", self.clock.now(), "trace-1", session_id)
        self.queue.add_picture(taken, data)
        return taken

    def upload(self, taken: Picture) -> UUID:
        """Presigned and put."""
        media_id, expires_at = new_id(), self.clock.now() + timedelta(minutes=5)
        answer = PresignAnswer(upload_url="http://store/1", media_id=media_id, expires_at=expires_at)
        signed = self.queue.presigned(taken, answer)
        self.queue.uploaded(signed, media_id)
        return media_id

    def report(self, state: str | None) -> int:
        """The edge says this of every picture that is asked about now; None: it cannot. How many were asked about."""
        pictures = self.queue.next_to_check()
        states = None if state is None else {picture.media_id: state for picture in pictures if picture.media_id}
        self.queue.states_reported(pictures, states)
        return len(pictures)

    def waiting(self) -> list[str]:
        return [event["event_type"].removeprefix("weighvision.") for event in self.bodies()]

    def bodies(self) -> list[dict[str, Any]]:
        return bodies_of(self.queue)

    def losses(self) -> list[dict[str, Any]]:
        return losses_of(self.queue)

    def answer(
        self,
        *results: AckResult | Literal["put_off"],
        code: str | None = None,
        epoch: UUID = EPOCH,
        is_new: bool = False,
    ) -> Settled:
        """One result for each event that waits, in their order; the last one for all the rest."""
        bodies = self.bodies()
        each = [*results, *(results[-1:] * len(bodies))][: len(bodies)]
        events, put_off = [], []
        for body, result in zip(bodies, each, strict=True):
            event_id = UUID(body["event_id"])
            if result == "put_off":
                put_off.append(PutOff(event_id=event_id, code=code or ""))
            else:
                events.append(EventAck(event_id=event_id, result=result, code=code if result == "rejected" else None))
        ack = DeviceAck(epoch=epoch, ts=self.clock.now(), events=events, put_off=put_off)
        return self.queue.settle(ack, is_back=is_new)

    def files(self) -> set[str]:
        return {path.name for path in (self.folder / "pictures").iterdir()}

    def failed(self) -> list[str]:
        rows = self.queue.connection.execute("SELECT failed_reason FROM sessions WHERE failed_reason IS NOT NULL")
        return [reason for (reason,) in rows]

    def picture_states(self) -> list[str]:
        return [state for (state,) in self.queue.connection.execute("SELECT state FROM pictures ORDER BY captured_us")]


def bodies_of(queue: Queue) -> list[dict[str, Any]]:
    queue.tell_gathered()
    return [json.loads(event.body) for event in queue.next_to_send(100_000)]


def losses_of(queue: Queue) -> list[dict[str, Any]]:
    return [body["payload"] for body in bodies_of(queue) if body["event_type"] == "station.loss"]
