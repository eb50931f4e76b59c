"""The log of our own broker, read while it is written: what a device was refused is counted, the rest goes to the log file.

Mosquitto 2.0 writes of a denied publish on its debug level only, and of a denied subscription by what it leaves out there: a
granted one has a line of its own behind its filter. So it runs with everything switched on and writes into a pipe. Our end drops
the lines about single packets. The broker's end does not block: a reader that hangs costs lines, and never holds the broker up.
"""

import contextlib
import fcntl
import os
import re
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from farmiq.edge.ingress_gateway.refusals import TOPIC_CHARS_MAX, Kind, Seen
from farmiq.kit.clock import Clock
from farmiq.stack.log_files import open_log

LOG_TYPES: Final = (
    "log_type error\nlog_type warning\nlog_type notice\nlog_type information\nlog_type subscribe\nlog_type debug\n"
)
TOPICS_MAX: Final = 100_000
CLIENTS_MAX: Final = 10_000
"""Beyond that the others are counted together, until the next recording."""
_PIPE_BYTES: Final = 1 << 20
_STAMP: Final = len("2026-01-01T00:00:00: ")
# Of single packets. What stays is what the log held before: connections, warnings, errors.
_PACKETS: Final = (b"Received ", b"Sending ", b"\t", b"No will message", b"Will message")
_DENIED: Final = re.compile(r"Denied PUBLISH from (\S+) \(d\d, q\d, r\d, m\d+, '(.*)', \.\.\. \(\d+ bytes\)\)")
_RETAINED: Final = re.compile(r"Received PUBLISH from (\S+) \(d\d, q\d, r1, m\d+, '(.*)', \.\.\. \((\d+) bytes\)\)")
_WILL: Final = re.compile(r"Will message specified \((\d+) bytes\) \(r([01]), q\d\)\.")
_SENT: Final = re.compile(r"Sending PUBLISH to \S+ \(d\d, q\d, r0, m\d+, '(.*)', \.\.\. \(\d+ bytes\)\)")
_MAY_BE_RETAINED: Final = ("iot/status/", "$")
# What the gateway subscribes to. An acknowledgement is none: an empty message behind it would reach the device that it is for.
_OF_DEVICES: Final = ("iot/telemetry/", "iot/event/", "iot/weighvision/")
_REPLACED: Final = re.compile(r"Client (\S+) already connected, closing old connection\.")
_CONNECTED: Final = re.compile(r"New client connected from \S+ as (\S+) \(p\d.*\)\.")
_GRANTED: Final = re.compile(r"(\S+) [012] (\S.*)")
_REFUSED: Final = "Client <unknown> disconnected, not authorised."
_SUBSCRIBE: Final = "Received SUBSCRIBE from "
_SUBACK: Final = "Sending SUBACK to "


class Refusals:
    """Counted by the thread that reads the log, taken by whoever records them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, Kind], Seen] = {}
        self._retained: set[str] = set()

    def note_retained(self, client_id: str, topic: str) -> None:
        """A message that the broker keeps on a topic where nothing is to be kept."""
        self.note(client_id, "retained_removed", topic)
        with self._lock:
            if len(self._retained) < TOPICS_MAX:
                self._retained.add(topic)

    def take_retained(self) -> set[str]:
        with self._lock:
            topics, self._retained = self._retained, set()
        return topics

    def note(self, client_id: str, kind: Kind, topic: str = "") -> None:
        now = self._clock.now()
        self.put_back([Seen(client_id, kind, 1, topic[:TOPIC_CHARS_MAX], now, now)])

    def put_back(self, seen: Iterable[Seen]) -> None:
        """What could not be recorded is recorded with what comes."""
        with self._lock:
            for one in seen:
                key = (one.client_id, one.kind)
                if key not in self._seen and len(self._seen) >= CLIENTS_MAX:
                    key = ("", one.kind)
                self._seen[key] = _joined(self._seen.get(key), one, key[0])

    def take(self) -> list[Seen]:
        with self._lock:
            seen, self._seen = self._seen, {}
        return list(seen.values())


class LogReader:
    """Lines as the broker writes them, in pieces of any size."""

    def __init__(self, refusals: Refusals) -> None:
        self._refusals = refusals
        self._rest = b""
        # The filter of the SUBSCRIBE under way that has not been granted yet.
        self._subscriber: str | None = None
        self._pending: str | None = None
        # Where the broker will keep the last will of a connection, and whose it is: each has one at most.
        self._wills: dict[str, str] = {}
        self._connecting: str | None = None
        self._has_retained_will = False

    def read(self, piece: bytes) -> bytes:
        """What of it belongs into the log file."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        return b"".join(line + b"\n" for line in lines if self._is_kept(line))

    def _is_kept(self, line: bytes) -> bool:
        body = line[_STAMP:]
        if body.startswith(_PACKETS):
            if self._subscriber is not None or body.startswith(b"Received SUBSCRIBE"):
                self._follow_subscribe(body.decode(errors="replace"))
            elif b", r1, m" in body and (kept := _RETAINED.fullmatch(body.decode(errors="replace"))):
                client_id, topic, size = kept.groups()
                if size != "0" and not topic.startswith(_MAY_BE_RETAINED):
                    self._refusals.note_retained(client_id, topic)
            elif self._connecting is not None:
                self._follow_connect(body.decode(errors="replace"))
            elif self._wills and body.startswith(b"Sending PUBLISH"):
                self._follow_will(body.decode(errors="replace"))
            return False
        text = body.decode(errors="replace")
        if (granted := _GRANTED.fullmatch(text)) is not None and granted[1] == self._subscriber:
            self._pending = None
            return False
        return not self._note(text)

    def _follow_subscribe(self, text: str) -> None:
        if text.startswith("\t"):
            self._settle_pending()
            self._pending = text[1:].rpartition(" (QoS ")[0] or None
        elif text.startswith(_SUBSCRIBE):
            self._subscriber, self._pending = text.removeprefix(_SUBSCRIBE), None
        elif text.startswith(_SUBACK):
            self._settle_pending()
            self._subscriber = None

    def _follow_connect(self, text: str) -> None:
        """The lines behind that of a new client: its will, the will's topic, the CONNACK."""
        assert self._connecting is not None  # noqa: S101 - what the caller asked for
        if text.startswith("\t"):
            if self._has_retained_will and text[1:].startswith(_OF_DEVICES):
                self._wills[text[1:]] = self._connecting
        elif will := _WILL.fullmatch(text):
            self._has_retained_will = will[2] == "1" and will[1] != "0"
        else:
            self._connecting, self._has_retained_will = None, False

    def _forget_will(self, client_id: str) -> None:
        """A connection replaces the one before it, and its will."""
        for topic in [topic for topic, owner in self._wills.items() if owner == client_id]:
            del self._wills[topic]

    def _follow_will(self, text: str) -> None:
        """A will that is published has no line of its own but those of its subscribers, and the gateway is always one."""
        if (sent := _SENT.fullmatch(text)) and (client_id := self._wills.pop(sent[1], None)):
            self._refusals.note_retained(client_id, sent[1])

    def _settle_pending(self) -> None:
        if self._pending is not None and self._subscriber is not None:
            self._refusals.note(self._subscriber, "subscribe_denied", self._pending)
        self._pending = None

    def _note(self, text: str) -> bool:
        """Whether it is nothing but what is counted. The others stay in the log file too."""
        if denied := _DENIED.fullmatch(text):
            self._refusals.note(denied[1], "publish_denied", denied[2])
            return True
        if connected := _CONNECTED.fullmatch(text):
            self._connecting = connected[1]
            self._forget_will(connected[1])
        elif replaced := _REPLACED.fullmatch(text):
            self._refusals.note(replaced[1], "connection_replaced")
        elif text == _REFUSED:
            self._refusals.note("", "login_refused")
        return False


def open_pipe(path: Path, refusals: Refusals) -> int:
    """A descriptor for the broker's output, read by a thread until the broker has ended. The caller closes it."""
    reading, writing = make_pipe()
    threading.Thread(target=_copy, args=(reading, path, refusals), name="broker-log", daemon=True).start()
    return writing


def make_pipe() -> tuple[int, int]:
    reading, writing = os.pipe2(os.O_CLOEXEC)
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    os.set_blocking(writing, False)
    return reading, writing


def _copy(reading: int, path: Path, refusals: Refusals) -> None:
    reader, log = LogReader(refusals), open_log(path)
    try:
        while piece := os.read(reading, _PIPE_BYTES):
            if kept := reader.read(piece):
                with contextlib.suppress(OSError):  # a full disk: what is refused is counted all the same
                    os.write(log, kept)
    finally:
        os.close(log)
        os.close(reading)


def _joined(before: Seen | None, one: Seen, client_id: str) -> Seen:
    if before is None:
        return Seen(client_id, one.kind, one.count, one.topic, one.first_at, one.last_at)
    return Seen(
        client_id,
        one.kind,
        before.count + one.count,
        one.topic or before.topic,
        min(before.first_at, one.first_at),
        max(before.last_at, one.last_at),
    )
