"""One MQTT connection, moved by one thread, with a paho client that is used once.

paho resends on the next connection what was under way on the last. By then the publisher has been told that the broker is
away and may have decided otherwise, so here nothing of a connection outlives it.

Only the network thread reads and writes the socket. `publish` and `acknowledge` are called from the event loop's thread and
merely append to paho's queue, after which the caller wakes the network thread.
"""

import contextlib
import os
import selectors
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.reasoncodes import ReasonCode

from farmiq.kit.clock import Clock

# How long a clean goodbye may take when the broker does not read any more.
GOODBYE_SECONDS = 2.0
# Packets read before waiting acknowledgements and pings get their turn.
_BURST_PACKETS = 256


class Address(msgspec.Struct, frozen=True):
    host: str
    port: int
    username: str | None
    password: str | None
    is_tls: bool

    def __repr__(self) -> str:
        return f"Address({self.host}:{self.port})"


class Will(msgspec.Struct, frozen=True):
    """What the broker publishes for us when the connection ends without a goodbye."""

    topic: str
    payload: bytes
    qos: int = 1
    retain: bool = True


class Plan(msgspec.Struct, frozen=True):
    """What every connection of a client is made from."""

    address: Address
    client_id: str
    subscriptions: tuple[str, ...]
    clean_session: bool
    will: Will | None
    keepalive_seconds: int
    tls_context: ssl.SSLContext | None


class Message(msgspec.Struct, frozen=True, gc=False):
    """`connection` is the number of the connection that it came in on: `mid` means nothing on any other."""

    topic: str
    payload: bytes
    qos: int
    is_retained: bool
    is_redelivered: bool
    mid: int
    connection: int


class Opened(msgspec.Struct, frozen=True):
    """The broker accepted the connection. Messages of a kept session may follow before `Ready`."""

    link: "Link"
    is_session_present: bool


class Ready(msgspec.Struct, frozen=True):
    """Every subscription is in force."""


class Confirmed(msgspec.Struct, frozen=True):
    mid: int


class Closed(msgspec.Struct, frozen=True):
    reason: str


Event: TypeAlias = Opened | Ready | Message | Confirmed | Closed


class Waker:
    """Lets the network thread look at what was queued for writing, with one system call for however much it is."""

    def __init__(self) -> None:
        self.reader, self._writer = socket.socketpair()
        self.reader.setblocking(False)
        self._writer.setblocking(False)
        self._is_awake = False

    def wake(self) -> None:
        if not self._is_awake:
            self._is_awake = True
            with contextlib.suppress(OSError):  # full: it is awake already; closed: nobody is left to wake
                self._writer.send(b"\0")

    def reset(self) -> None:
        # First read, then lower the flag: a packet queued in between is seen by the look at the queue that follows.
        with contextlib.suppress(BlockingIOError):
            self.reader.recv(4096)
        self._is_awake = False

    def close(self) -> None:
        self.reader.close()
        self._writer.close()


class Link:
    def __init__(
        self,
        number: int,
        plan: Plan,
        *,
        report: Callable[[Event], None],
        waker: Waker,
        stopping: threading.Event,
        clock: Clock,
    ) -> None:
        self.number = number
        self.reason = "the broker closed the connection"
        self.is_refused = False
        self.was_ready = False
        self._plan = plan
        self._report = report
        self._waker = waker
        self._stopping = stopping
        self._clock = clock
        self._packets = 0
        self._goodbye_by: float | None = None
        self._paho = self._prepare()

    def run(self) -> None:
        """Connect, and move packets until the connection ends. OSError: it never began."""
        address = self._plan.address
        self._paho.connect(address.host, address.port, keepalive=self._plan.keepalive_seconds)
        connection: Any = self._paho.socket()  # paho's own type names only what paho itself calls
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # paho hangs up as soon as it has written its goodbye. With a second handle the line stays open until the broker has
        # read all of it: a successor with the same client id would otherwise find the last acknowledgements unread.
        with socket.socket(fileno=os.dup(connection.fileno())) as line:
            try:
                with selectors.DefaultSelector() as selector:
                    self._move_packets(connection, selector)
                self._wait_for_hang_up(line)
            finally:
                connection.close()

    def publish(self, topic: str, payload: bytes, qos: int, retain: bool) -> int | None:
        """The packet's number, or None when there is no connection to send it on."""
        sent = self._paho.publish(topic, payload, qos, retain)
        return sent.mid if sent.rc == MQTTErrorCode.MQTT_ERR_SUCCESS else None

    def acknowledge(self, mid: int) -> None:
        self._paho.ack(mid, 1)

    def _prepare(self) -> paho.Client:
        plan = self._plan
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=plan.client_id,
            clean_session=plan.clean_session,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        client.max_inflight_messages = 0  # the window is the caller's, and counts only what is still waited for
        if plan.address.username is not None:
            client.username_pw_set(plan.address.username, plan.address.password)
        if plan.address.is_tls:
            client.tls_set_context(plan.tls_context or ssl.create_default_context())
        if plan.will is not None:
            client.will_set(plan.will.topic, plan.will.payload, plan.will.qos, plan.will.retain)
        # With this set, paho leaves writing to us; without it, `publish` would write from the caller's thread.
        client.on_socket_register_write = lambda *_: None
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        client.on_publish = self._on_publish
        client.on_disconnect = self._on_disconnect
        return client

    def _move_packets(self, connection: Any, selector: selectors.BaseSelector) -> None:
        selector.register(connection, selectors.EVENT_READ)
        selector.register(self._waker.reader, selectors.EVENT_READ)
        while self._is_open(connection) and not self._has_waited_enough():
            writing = selectors.EVENT_WRITE if self._paho.want_write() else 0
            selector.modify(connection, selectors.EVENT_READ | writing)
            # TLS may have decrypted more than paho has read, of which the kernel knows nothing.
            is_pending = hasattr(connection, "pending") and connection.pending() > 0
            ready = {key.fileobj for key, _ in selector.select(0.0 if is_pending else 1.0)}
            if self._waker.reader in ready:
                self._waker.reset()
            if connection in ready or is_pending:
                self._read_burst()
            self._paho.loop_write()
            self._paho.loop_misc()

    def _is_open(self, connection: Any) -> bool:
        return self._paho.socket() is connection

    def _has_waited_enough(self) -> bool:
        """Once stopping: send the goodbye behind what is queued, and give it a moment."""
        if not self._stopping.is_set():
            return False
        now = self._clock.monotonic()
        if self._goodbye_by is None:
            self._goodbye_by = now + GOODBYE_SECONDS
            self._paho.disconnect()
        return now > self._goodbye_by

    def _wait_for_hang_up(self, line: socket.socket) -> None:
        if self._goodbye_by is None:
            return
        with contextlib.suppress(OSError):  # too late, or gone already: either way it is over
            line.settimeout(max(self._goodbye_by - self._clock.monotonic(), 0.01))
            while line.recv(4096):
                pass

    def _read_burst(self) -> None:
        """paho reads one packet a call: go on while calls bring packets, instead of asking the kernel before each."""
        for _ in range(_BURST_PACKETS):
            before = self._packets
            self._paho.loop_read()
            if self._packets == before:
                return

    def _on_connect(self, client: paho.Client, _data: Any, flags: paho.ConnectFlags, code: ReasonCode, _: Any) -> None:
        if code.is_failure:
            self._refuse(self._why_refused(str(code)))
            return
        self._report(Opened(self, flags.session_present))
        # On every connection, also when the broker says that it still has the session: Mosquitto 2.0.11 restores a session from
        # its file without its shared subscriptions, and would deliver nothing, for ever, to a client that looks connected.
        if self._plan.subscriptions:
            client.subscribe([(topic_filter, 1) for topic_filter in self._plan.subscriptions])
        else:
            self._become_ready()

    def _on_subscribe(self, client: paho.Client, _data: Any, _mid: int, codes: list[ReasonCode], _: Any) -> None:
        refused = [name for name, code in zip(self._plan.subscriptions, codes, strict=True) if code.is_failure]
        if refused:
            self._refuse(f"the broker refused the subscription to {', '.join(refused)}: check its access list")
            client.disconnect()
        else:
            self._become_ready()

    def _on_message(self, _client: paho.Client, _data: Any, message: paho.MQTTMessage) -> None:
        self._packets += 1
        try:
            topic = message.topic
        except UnicodeDecodeError:  # no broker that keeps to the standard lets this pass; nobody's topic matches it
            topic = "\N{REPLACEMENT CHARACTER}"
        self._report(
            Message(topic, bytes(message.payload), message.qos, message.retain, message.dup, message.mid, self.number)
        )

    def _on_publish(self, _client: paho.Client, _data: Any, mid: int, _code: ReasonCode, _: Any) -> None:
        self._packets += 1
        self._report(Confirmed(mid))

    def _on_disconnect(self, _client: paho.Client, _data: Any, _flags: Any, code: ReasonCode, _: Any) -> None:
        if str(code) == "Keep alive timeout" and not self.is_refused:
            self.reason = "the broker stopped answering"

    def _become_ready(self) -> None:
        self.was_ready = True
        self._report(Ready())

    def _refuse(self, reason: str) -> None:
        self.is_refused = True
        self.reason = reason

    def _why_refused(self, code: str) -> str:
        if code in ("Not authorized", "Bad user name or password"):
            user = self._plan.address.username or "without a name"
            return f"the broker refused user {user}: check user and password in MQTT_URL against its password file"
        return f"the broker refused the connection: {code}"
