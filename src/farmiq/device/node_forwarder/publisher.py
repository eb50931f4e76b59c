"""Sends what the spool holds: live samples at once, the rest behind them, losses beside them."""

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from functools import partial
from uuid import UUID

from farmiq.contracts.telemetry import Lane
from farmiq.device.node_forwarder.batches import Messages
from farmiq.device.node_forwarder.lanes import Lanes
from farmiq.device.node_forwarder.recorder import Recorder
from farmiq.device.node_forwarder.settings import ForwarderSettings
from farmiq.device.node_forwarder.throttle import Throttle
from farmiq.device.node_forwarder.window import Range, Window
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.mqtt import BrokerAway, MqttClient
from farmiq.spool import Reader

LOOK_SECONDS = 0.5
HOLE_SECONDS = 2.0  # the edge has answered and lacks something: no need to wait for a silence
PATIENCE_SECONDS_MAX = 300.0
HOLD_BACK_SECONDS_MAX = 120.0
REFUSED_LOSS_SECONDS = 600.0
COMPARE_SECONDS = 5.0  # an edge of 0.1.0 says nothing to a status

log = get_logger(__name__)


class Publisher:
    """PUBACK is flow control only. What was sent is forgotten by the edge's acknowledgement and by nothing else."""

    def __init__(
        self,
        life: Lifetime,
        settings: ForwarderSettings,
        mqtt: MqttClient,
        recorder: Recorder,
        lanes: Lanes,
        messages: Messages,
    ) -> None:
        self._life = life
        self._settings = settings
        self._mqtt = mqtt
        self._recorder = recorder
        self._lanes = lanes
        self._messages = messages
        self.window = Window()
        self._work = asyncio.Event()
        self._progress_at = life.clock.monotonic()
        self._silences = 0
        self._not_before = 0.0
        self._refused_losses: dict[UUID, float] = {}
        self.put_off_code: str | None = None
        self._compared = asyncio.Event()
        self.monotonic = life.clock.monotonic
        mqtt.on_connect += [self._start_over, recorder.node_time.connected]

    @property
    def is_replaying(self) -> bool:
        return self._mqtt.is_connected and self._lanes.is_replaying

    @property
    def published_seq(self) -> int:
        return self._lanes.published_seq

    def acknowledged(self, acked_seq: int, received: Sequence[Range], *, is_progress: bool) -> None:
        """The edge has answered: there may be room for more, and if it got further, no need to ask it again yet."""
        now = self._life.clock.monotonic()
        self.window.acknowledged(acked_seq, received, now)
        if is_progress:
            self._progress_at = now
            self._silences = 0
            if self.put_off_code is not None:
                self.put_off_code = None
                self._refused_losses.clear()
        self._work.set()

    def compared(self) -> None:
        """What the edge holds of this stream is what this spool holds: it may be continued."""
        self._compared.set()

    @property
    def is_compared(self) -> bool:
        return self._compared.is_set()

    def put_off(self, code: str) -> None:
        """The edge takes nothing of this device, or not this message, as things are. It is repeated as after any silence."""
        if code != self.put_off_code:
            log.error("messages_put_off", code=code)
        self.put_off_code = code

    def losses_refused(self, loss_ids: Iterable[UUID]) -> None:
        """They are told again all the same, only not every few seconds: after a while, or when the edge takes things again."""
        now = self._life.clock.monotonic()
        self._refused_losses = {loss_id: until for loss_id, until in self._refused_losses.items() if until > now}
        self._refused_losses.update(dict.fromkeys(loss_ids, now + REFUSED_LOSS_SECONDS))

    def is_refused(self, loss_id: UUID) -> bool:
        return self._refused_losses.get(loss_id, 0.0) > self._life.clock.monotonic()

    def went_back(self) -> None:
        """Another edge database has answered: what was sent to the one before is not waited for."""
        self._forget_sent()
        self._silences = 0
        self._refused_losses.clear()

    def hold_back(self, seconds: float) -> None:
        """The edge did not take everything: what it lacks is sent again after that time."""
        if self.held_back_seconds == 0:
            log.warning("sending_held_back", seconds=round(seconds, 1))
        self._not_before = self._life.clock.monotonic() + min(seconds, HOLD_BACK_SECONDS_MAX)

    @property
    def held_back_seconds(self) -> float:
        """For how long nothing is sent yet. 0: the edge takes what comes."""
        return max(0.0, self._not_before - self._life.clock.monotonic())

    async def send_live(self) -> None:
        """Samples as they are stored, gathered for a moment so that many share one message."""
        reader = self._recorder.spool.reader()
        while True:
            await self._recorder.stored.wait()
            await self._wait_allowed()
            self._recorder.stored.clear()
            await self._send_live_now(reader)
            await asyncio.sleep(self._settings.node_forwarder_batch_ms / 1000)

    async def send_backlog(self) -> None:
        """Everything that is not acknowledged, in the order of capture, within the replay's rates."""
        reader = self._recorder.spool.reader()
        throttle = Throttle(
            self._settings.replay_msgs_per_sec, self._settings.replay_bytes_per_sec, self._life.clock.monotonic()
        )
        while True:
            await self._wait_allowed()
            stretch = self._lanes.next_replay()
            if stretch is None or not self.window.has_room:
                await self._wait_for_work()
                continue
            turn, (after, end) = self._lanes.turn, stretch
            limit = min(self._settings.node_forwarder_batch_samples, end - after)
            sent_bytes, last_seq = await self._send_next(reader, after, limit, "replay")
            if self._lanes.turn != turn:
                continue
            if last_seq is None:
                self._lanes.pass_over(end)
            elif sent_bytes:
                self._lanes.sent_replay(last_seq)
                self.window.sent(after + 1, last_seq, self._life.clock.monotonic())
                await asyncio.sleep(throttle.spend(sent_bytes, self._life.clock.monotonic()))

    async def send_losses(self) -> None:
        """Each declared loss until the edge has it, again after a silence."""
        while True:
            await self._wait_allowed()
            for loss in await self._recorder.run(self._recorder.spool.losses.outstanding):
                if self.is_refused(loss.loss_id):
                    continue
                try:
                    await self._mqtt.publish(self._messages.loss_topic, self._messages.loss(loss))
                except BrokerAway:
                    break
            await asyncio.sleep(self._settings.node_forwarder_resend_seconds)

    async def _wait_allowed(self) -> None:
        """Until the broker is there, and the edge wants more. After a start, only when the edge has answered the status that is
        sent first: if this disk was set back, nothing may go out under numbers that the edge has given to other samples."""
        await self._mqtt.wait_connected()
        if not self._compared.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(COMPARE_SECONDS):
                    await self._compared.wait()
            self._compared.set()
        await asyncio.sleep(self.held_back_seconds)

    def _start_over(self) -> None:
        spool = self._recorder.spool
        self._lanes.restart(spool.synced_seq, spool.acked.seq)
        self._forget_sent()

    def _forget_sent(self) -> None:
        self.window.start_over()
        self._progress_at = self._life.clock.monotonic()
        self._work.set()

    async def _send_live_now(self, reader: Reader) -> None:
        while self._lanes.live_after < self._recorder.spool.synced_seq:
            after = self._lanes.live_after
            limit = self._settings.node_forwarder_batch_samples
            sent_bytes, last_seq = await self._send_next(reader, after, limit, "live")
            if last_seq is None:
                return
            if sent_bytes:
                self._lanes.sent_live(last_seq)

    async def _send_next(self, reader: Reader, after: int, limit: int, lane: Lane) -> tuple[int, int | None]:
        """Read and publish one batch; answers its size and last sequence. A broken connection starts the lanes over."""
        run = await asyncio.to_thread(partial(reader.read, after, limit))
        if run is None:
            return 0, None
        node_time = self._recorder.node_time
        if wait_seconds := node_time.wait_seconds(run, is_live=lane == "live"):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_seconds):
                    await node_time.settled.wait()
            # Meanwhile the edge may have said that these samples belong to a new stream.
            run = await asyncio.to_thread(partial(reader.read, after, limit))
            if run is None:
                return 0, None
        payload, last_seq = self._messages.batch(run, lane, node_time.correction)
        try:
            await self._mqtt.publish(self._messages.batch_topic, payload)
        except BrokerAway:
            await self._mqtt.wait_connected()
            return 0, after
        return len(payload), last_seq

    async def _wait_for_work(self) -> None:
        """Until there may be something; and look whether the edge has stood still for so long that a message must have got lost.

        It may well answer all that time: live samples arrive and are acknowledged beyond the one that it lacks.
        """
        self._work.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await self._work.wait()
        still_seconds = self._life.clock.monotonic() - self._progress_at
        acked_seq, sent_seq = self._recorder.spool.acked.seq, self._lanes.live_after
        if acked_seq < sent_seq and still_seconds > self._patience_seconds():
            log.warning("backlog_sent_again", acked_seq=acked_seq, sent_seq=sent_seq, silences=self._silences)
            self._silences += 1
            self._start_over()

    def _patience_seconds(self) -> float:
        """Longer each time: an edge that is away for hours must not find the same samples a thousand times in its broker."""
        first_seconds = HOLE_SECONDS if self._lanes.has_hole else float(self._settings.node_forwarder_resend_seconds)
        return float(min(PATIENCE_SECONDS_MAX, first_seconds * 2 ** min(self._silences, 10)))
