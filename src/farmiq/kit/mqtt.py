"""MQTT 3.1.1 with acknowledgements in the caller's hands, a persistent session, and reconnection for ever.

What is promised:

- A message is acknowledged to the broker only by `acknowledge`. What was received and not acknowledged is delivered again
  on the next connection of this client id.
- `publish` returns after the broker's PUBACK, or raises `BrokerAway`. Once it has raised, nothing sends that message again
  behind the caller's back.
- Memory is bounded. The broker sends no more unacknowledged messages than its `max_inflight_messages`, so no more than that
  are received and not yet taken. QoS 0 has no such window, and promises nothing: what comes while `UNTAKEN_MAX` messages
  wait is dropped and counted in `dropped`.

Two threads: packets are moved in a network thread (`mqtt_link`), so that pings go out while the event loop is busy. What
happens there is appended to one queue, in order, and the event loop is woken once for however much has gathered.
"""

import asyncio
import contextlib
import contextvars
import ssl
import threading
from collections import deque
from collections.abc import Callable, Sequence
from urllib.parse import unquote, urlsplit

from farmiq.kit.clock import Clock
from farmiq.kit.errors import Fatal, Transient
from farmiq.kit.inbox import Inbox
from farmiq.kit.logging import get_logger
from farmiq.kit.mqtt_link import (
    GOODBYE_SECONDS,
    Address,
    Closed,
    Confirmed,
    Event,
    Link,
    Message,
    Opened,
    Plan,
    Ready,
    Waker,
    Will,
)
from farmiq.kit.retry import Backoff

__all__ = ["BadBrokerUrl", "BrokerAway", "Message", "MqttClient", "Will", "parse_url"]

UNTAKEN_MAX = 1000
RECONNECT_CAP_SECONDS = 5.0

log = get_logger(__name__)


class BrokerAway(Transient):
    """The MQTT broker is not connected, or the connection ended before it confirmed. The message may be published again."""

    code = "broker_away"


class BadBrokerUrl(Fatal):
    """`MQTT_URL` is not of the form mqtt://user:password@host:port (or mqtts:// for TLS)."""

    code = "bad_broker_url"


def parse_url(url: str) -> Address:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadBrokerUrl("The broker's URL can't be read: expected mqtt://user:password@host:port") from error
    if parts.scheme not in ("mqtt", "mqtts") or not parts.hostname:
        raise BadBrokerUrl("The broker's URL must have the form mqtt://user:password@host:port, or mqtts:// for TLS")
    is_tls = parts.scheme == "mqtts"
    return Address(
        parts.hostname,
        port or (8883 if is_tls else 1883),
        unquote(parts.username) if parts.username else None,
        unquote(parts.password) if parts.password else None,
        is_tls,
    )


class MqttClient:
    """One client id at one broker. Its methods belong to the event loop that called `start`."""

    def __init__(
        self,
        url: str,
        *,
        client_id: str,
        subscriptions: Sequence[str] = (),
        clean_session: bool = False,
        will: Will | None = None,
        inflight_max: int = 100,
        keepalive_seconds: int = 20,
        tls_context: ssl.SSLContext | None = None,
        clock: Clock | None = None,
    ) -> None:
        address = parse_url(url)
        self.connections = 0
        self.dropped = 0
        self.on_connect: list[Callable[[], None]] = []
        self._plan = Plan(address, client_id, tuple(subscriptions), clean_session, will, keepalive_seconds, tls_context)
        self._clock = clock or Clock()
        self._where = f"{address.host}:{address.port}"
        self._log = log.bind(client_id=client_id, broker=self._where)
        # Between the threads
        self._events: deque[Event] = deque()
        self._is_drain_due = False
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        # In the event loop
        self._link: Link | None = None
        self._ready = asyncio.Event()
        self._inbox: Inbox[Message] = Inbox()
        self._window = asyncio.Semaphore(inflight_max)
        self._unconfirmed: dict[int, asyncio.Future[None]] = {}

    async def start(self) -> None:
        """Begin to connect, and go on until `stop`. A broker that is away is no error here."""
        self._loop = asyncio.get_running_loop()
        self._waker = Waker()
        context = contextvars.copy_context()  # the thread's log lines carry the service's name too
        self._thread = threading.Thread(
            target=context.run, args=(self._connect_for_ever,), name=f"mqtt-{self._plan.client_id}", daemon=True
        )
        self._thread.start()

    async def stop(self) -> None:
        """Say goodbye, so that the broker does not publish the will. What was not acknowledged stays with the broker."""
        self._stopping.set()
        self._inbox.close()
        if self._thread is None:
            return
        self._waker.wake()
        # A name server or a TLS peer that hangs may hold the thread longer: it is a daemon, and ends by itself.
        await asyncio.to_thread(self._thread.join, GOODBYE_SECONDS + 5.0)
        self._drain()

    @property
    def is_connected(self) -> bool:
        """Connected, and every subscription is in force."""
        return self._ready.is_set()

    async def wait_connected(self) -> None:
        await self._ready.wait()

    async def next_batch(self, messages_max: int, seconds_max: float) -> list[Message]:
        """Wait for a message, then up to `seconds_max` for more. Empty only after `stop`.

        A batch can't be larger than the broker's `max_inflight_messages`; asking for more only waits the whole time.
        Cancelling this loses nothing.
        """
        return await self._inbox.take(messages_max, seconds_max)

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Tell the broker that these are safe. Those of an earlier connection are passed over.

        The broker delivers the latter again by itself. Sent on this connection, their acknowledgement could hit another
        message that now has the same number, and that one would be lost.
        """
        link = self._link
        if link is None:
            return
        for message in messages:
            if message.qos > 0 and message.connection == link.number:
                link.acknowledge(message.mid)
        self._waker.wake()

    async def publish(self, topic: str, payload: bytes, *, qos: int = 1, retain: bool = False) -> None:
        """Return when the broker has confirmed (QoS 0: when it was written). At most `inflight_max` are under way."""
        self._require_link()
        async with self._window:
            mid = self._require_link().publish(topic, payload, qos, retain)
            if mid is None:
                raise BrokerAway(f"The connection to the MQTT broker at {self._where} has just ended")
            self._waker.wake()
            self._unconfirmed[mid] = confirmed = self._loop.create_future()
            try:
                await confirmed
            finally:
                self._unconfirmed.pop(mid, None)

    def _require_link(self) -> Link:
        if self._link is None or not self.is_connected:
            raise BrokerAway(f"No connection to the MQTT broker at {self._where}")
        return self._link

    def _drain(self) -> None:
        self._is_drain_due = False  # lowered first: what is reported from here on asks for another round
        for _ in range(len(self._events)):
            self._take(self._events.popleft())

    def _take(self, event: Event) -> None:
        match event:
            case Message():
                self._inbox.put(event)
            case Confirmed(mid):
                self._settle(self._unconfirmed.pop(mid, None), None)
            case Opened(link, is_session_present):
                self._link = link
                if is_session_present:  # what nobody took is about to come again, with numbers of this connection
                    self._inbox.clear()
            case Ready():
                self._become_ready()
            case Closed(reason):
                self._become_closed(reason)

    def _become_ready(self) -> None:
        self.connections += 1
        self._ready.set()
        self._log.info("mqtt_connected")
        for wake in self.on_connect:
            wake()

    def _become_closed(self, reason: str) -> None:
        self._link = None
        self._ready.clear()
        lost, self._unconfirmed = self._unconfirmed, {}
        for waiting in lost.values():
            self._settle(waiting, BrokerAway(f"The MQTT broker at {self._where} did not confirm: {reason}"))

    @staticmethod
    def _settle(waiting: "asyncio.Future[None] | None", error: BrokerAway | None) -> None:
        if waiting is None or waiting.done():
            return
        if error is None:
            waiting.set_result(None)
        else:
            waiting.set_exception(error)

    # From here on: the network thread.

    def _report(self, event: Event) -> None:
        """Hand over to the event loop, and wake it only if it is not about to look anyway."""
        if isinstance(event, Message) and event.qos == 0 and len(self._events) + len(self._inbox) >= UNTAKEN_MAX:
            self.dropped += 1
            if self.dropped == 1:
                self._log.warning("mqtt_qos0_dropped", topic=event.topic, waiting=UNTAKEN_MAX)
            return
        self._events.append(event)
        if not self._is_drain_due:
            self._is_drain_due = True
            with contextlib.suppress(RuntimeError):  # the loop has been closed: nobody is left to tell
                self._loop.call_soon_threadsafe(self._drain)

    def _connect_for_ever(self) -> None:
        backoff = Backoff(0.1, RECONNECT_CAP_SECONDS)
        number, last_reason = 0, ""
        while not self._stopping.is_set():
            number += 1
            started = self._clock.monotonic()
            link = self._new_link(number)
            reason = self._live(link)
            self._report(Closed(reason))
            last_reason = self._note(link, reason, last_reason)
            # One that held for a while starts afresh; one that is thrown out at once (two clients with one id) must not
            # come back ten times a second.
            if self._clock.monotonic() - started > RECONNECT_CAP_SECONDS:
                backoff.reset()
            self._stopping.wait(backoff.next_seconds())
        self._waker.close()

    def _new_link(self, number: int) -> Link:
        return Link(
            number,
            self._plan,
            report=self._report,
            waker=self._waker,
            stopping=self._stopping,
            clock=self._clock,
        )

    def _live(self, link: Link) -> str:
        try:
            link.run()
        except OSError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - a thread that just ended would look like a broker with nothing to say
            self._log.exception("mqtt_connection_broken")
            return repr(error)
        return link.reason

    def _note(self, link: Link, reason: str, last_reason: str) -> str:
        """Log each change once, however often it is tried."""
        if self._stopping.is_set():
            return reason
        if link.was_ready:
            self._log.warning("mqtt_connection_lost", reason=reason)
        elif reason != last_reason:
            write = self._log.error if link.is_refused else self._log.warning
            write("mqtt_connect_failed", reason=reason)
        return "" if link.was_ready else reason
