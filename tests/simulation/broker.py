"""Mosquitto, and the lines to it: QoS 1, kept sessions, a shared subscription, and a memory that it can lose.

A line keeps the order of what is sent on it. Cut, it carries nothing any more, and each end finds out for itself, later. A broker
that is killed comes back with no sessions at all, or with those of its last snapshot: what was acknowledged since then is
delivered again, what was published since then is gone.
"""

import asyncio
import copy
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from farmiq.kit.mqtt import MqttClient
from farmiq.kit.mqtt_link import Closed, Confirmed, Message, Opened, Ready
from simulation.chance import Chance, Trace
from simulation.process import PROCESS, Process
from simulation.virtual_loop import VirtualLoop

INFLIGHT_MAX = 20
SHARED = "$share/"


class Held(NamedTuple):
    topic: str
    payload: bytes


@dataclass
class Session:
    """What the broker keeps for one client id. `group`: it shares the devices' messages with others of that name."""

    client_id: str
    topics: tuple[str, ...]
    group: str | None
    is_clean: bool
    waiting: deque[Held] = field(default_factory=deque)
    under_way: dict[int, Held] = field(default_factory=dict)
    next_mid: int = 1


class Line:
    """One connection of one client. What `MqttClient` calls its link."""

    def __init__(self, broker: "Broker", client: "SimulatedClient", process: Process, number: int, hop: "Hop") -> None:
        self.number = number
        self.client = client
        self.process = process
        self.hop = hop
        self.is_cut = False
        self.session: Session | None = None
        self.closed: asyncio.Future[None] = broker.loop.create_future()
        self._broker = broker
        self._mid = 0
        self._clear_at = {"up": 0.0, "down": 0.0}

    # What the client calls

    def publish(self, topic: str, payload: bytes, _qos: int, _retain: bool) -> int | None:
        if self.closed.done():
            return None
        self._mid += 1
        mid = self._mid
        self.carry("up", lambda: self._broker.published(self, topic, payload, mid))
        return mid

    def acknowledge(self, mid: int) -> None:
        self.carry("up", lambda: self._broker.acknowledged(self, mid))

    def carry(self, way: str, arrive: Callable[[], None]) -> None:
        """Later, in order, and never once the line is cut."""
        loop = self._broker.loop
        self._clear_at[way] = max(self._clear_at[way], loop.time() + self.hop.seconds())
        loop.call_at(self._clear_at[way], self._arrive, arrive, context=self._context(way))

    def _context(self, way: str) -> Any:
        return self.process.context() if way == "down" else self._broker.process.context()

    def _arrive(self, arrive: Callable[[], None]) -> None:
        if not self.is_cut:
            arrive()

    def cut(self) -> None:
        """Nothing passes any more. The client finds out by a missing ping, or because it is told at once."""
        if self.is_cut:
            return
        self.is_cut = True
        seconds = self.hop.chance.seconds(0.01, 30.0) if self.hop.is_slow_to_notice else 0.01
        self._broker.loop.call_later(seconds, self._notice, context=self.process.context())
        self._broker.loop.call_later(seconds / 2, self._broker.left, self, context=self._broker.process.context())

    def _notice(self) -> None:
        if not self.closed.done():
            self.closed.set_result(None)


class Hop:
    """The way between a machine and the broker."""

    def __init__(self, name: str, chance: Chance) -> None:
        self.name = name
        self.chance = chance
        self.is_up = True
        self.is_slow_to_notice = True
        self.slowness = 1.0

    def seconds(self) -> float:
        return self.chance.seconds(0.0005, 0.01) * self.slowness


class Broker:
    def __init__(self, loop: VirtualLoop, chance: Chance, trace: Trace) -> None:
        self.loop = loop
        self.process = Process("broker")
        self.is_up = True
        self.lines: list[Line] = []
        self._chance = chance
        self._trace = trace
        self._sessions: dict[str, Session] = {}
        self._saved: dict[str, Session] = {}

    def save(self) -> None:
        """Its periodic snapshot."""
        self._saved = {name: copy.deepcopy(session) for name, session in self._sessions.items() if not session.is_clean}

    def crash(self, *, forgets_all: bool) -> None:
        self.is_up = False
        self.process.end()
        for line in self.lines:
            line.cut()
        self.lines = []
        saved = copy.deepcopy(self._saved)
        self._sessions = {} if forgets_all else saved

    def start(self) -> None:
        self.process = Process("broker")
        self.is_up = True

    def repeat(self) -> None:
        """Deliver again what was delivered and not acknowledged, as after a reconnection."""
        for line in self.lines:
            for mid, held in list(line.session.under_way.items()) if line.session else []:
                self._deliver(line, mid, held, is_redelivered=True)

    # What clients do

    def connected(self, line: Line, subscriptions: tuple[str, ...], *, is_clean: bool) -> bool:
        """True when there was a session to go on with."""
        name = line.client.client_id
        for other in [one for one in self.lines if one.client.client_id == name]:
            other.cut()
            self.lines.remove(other)
        session = self._sessions.get(name)
        is_present = session is not None and not is_clean
        if session is None or is_clean:
            group = subscriptions[0].removeprefix(SHARED).split("/")[0] if subscriptions[0].startswith(SHARED) else None
            session = self._sessions[name] = Session(name, subscriptions, group, is_clean)
        line.session = session
        self.lines.append(line)
        for mid, held in session.under_way.items():
            self._deliver(line, mid, held, is_redelivered=True)
        self._send_more(line)
        return is_present

    def published(self, line: Line, topic: str, payload: bytes, mid: int) -> None:
        if topic.endswith("/ack"):
            takers = [session for session in self._sessions.values() if topic in session.topics]
        else:
            sharing = [session for session in self._sessions.values() if session.group is not None]
            takers = [self._chance.choice(sharing)] if sharing else []
        for session in takers:
            session.waiting.append(Held(topic, payload))
            for other in [one for one in self.lines if one.session is session]:
                self._send_more(other)
        line.carry("down", lambda: line.client.heard(Confirmed(mid)))

    def acknowledged(self, line: Line, mid: int) -> None:
        if line.session is not None and line.session.under_way.pop(mid, None) is not None:
            self._send_more(line)

    def left(self, line: Line) -> None:
        if line in self.lines:
            self.lines.remove(line)
            if (
                line.session is not None
                and line.session.is_clean
                and self._sessions.get(line.session.client_id) is line.session
            ):
                del self._sessions[line.session.client_id]

    def _send_more(self, line: Line) -> None:
        session = line.session
        while session is not None and session.waiting and len(session.under_way) < INFLIGHT_MAX:
            mid, session.next_mid = session.next_mid, session.next_mid + 1
            held = session.under_way[mid] = session.waiting.popleft()
            self._deliver(line, mid, held, is_redelivered=False)

    def _deliver(self, line: Line, mid: int, held: Held, *, is_redelivered: bool) -> None:
        message = Message(held.topic, held.payload, 1, False, is_redelivered, mid, line.number)
        line.carry("down", lambda: line.client.heard(message))


class _NoThread:
    def wake(self) -> None:
        """The network thread of the real client would look at its queue now."""


class SimulatedClient(MqttClient):
    """The real client, with the broker above where its network thread would be."""

    def __init__(self, broker: Broker, hop: Hop, **plan: Any) -> None:
        super().__init__("mqtt://simulated:1883", **plan)
        self.client_id = plan["client_id"]
        self._broker = broker
        self._hop = hop
        self._line: Line | None = None

    async def start(self) -> None:
        self._loop = self._broker.loop
        self._waker = _NoThread()  # type: ignore[assignment]  # there is none
        process = PROCESS.get()
        assert process is not None
        process.at_end.append(self._break_off)
        self._connecting = asyncio.create_task(self._connect(process))

    async def stop(self) -> None:
        self._inbox.close()
        self._connecting.cancel()
        self._break_off()

    def heard(self, event: Message | Confirmed) -> None:
        self._take(event)

    def _break_off(self) -> None:
        """The kernel closes the connection, and the broker is told at once."""
        if self._line is not None and not self._line.is_cut:
            self._line.is_cut = True
            self._broker.loop.call_soon(self._broker.left, self._line, context=self._broker.process.context())

    async def _connect(self, process: Process) -> None:
        number, loop, chance = 0, self._broker.loop, self._hop.chance
        while True:
            await loop.pause(chance.seconds(0.05, 2.0))
            if not (self._broker.is_up and self._hop.is_up):
                continue
            number += 1
            line = self._line = Line(self._broker, self, process, number, self._hop)
            is_present = self._broker.connected(line, self._plan.subscriptions, is_clean=self._plan.clean_session)
            self._take(Opened(line, is_present))  # type: ignore[arg-type]  # a line instead of a link
            line.carry("down", lambda: self._take(Ready()))
            await line.closed
            self._take(Closed("the line was cut"))
