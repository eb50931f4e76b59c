"""Feeds one real node-forwarder over its socket, as an agent does, and writes down what it answered."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from farmiq.contracts.timestamps import to_us
from farmiq.device import handover
from farmiq.device.handover import BadHandover, FromAgent, FromForwarder, Refused, Welcome
from farmiq.kit.clock import Clock
from farmiq.kit.errors import Fatal
from farmiq.kit.ids import new_id
from farmiq.torture.ledger import LedgerWriter, Stored
from farmiq.torture.samples import Samples

ANSWER_SECONDS_MAX = 15.0
AGAIN_SECONDS = 0.3
TICK_SECONDS = 0.25


class SamplesRefused(Fatal):
    """The forwarder will never take what the generator made: the campaign itself is wrong."""


class ForwarderAway(Exception):
    """Nothing was promised."""


class Node:
    def __init__(self, device: str, socket: Path, rate: float, ledger: LedgerWriter, clock: Clock) -> None:
        self.device = device
        self.samples = Samples(device, new_id())
        self._socket = socket
        self._rate = rate
        self._ledger = ledger
        self._clock = clock
        self._clock_seconds = 0.0
        self._owed = 0.0
        self._number = 0
        self._is_over = asyncio.Event()

    def jump(self, seconds: float) -> None:
        """From now on its wall clock is wrong by so much, and it boots again: the monotonic one starts from zero."""
        self._clock_seconds = seconds
        self.samples.reboot(new_id())

    def finish(self) -> None:
        self._is_over.set()

    async def run(self) -> None:
        """Until told to finish and everything is stored."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._measure())
            group.create_task(self._hand_over())

    async def _measure(self) -> None:
        while not self._is_over.is_set():
            self._owed = min(self._owed + self._rate * TICK_SECONDS, self._rate * 2)
            at_us = to_us(self._clock.now())
            wall_us = at_us + int(self._clock_seconds * 1_000_000)
            offer = self.samples.measure(int(self._owed), wall_us, at_us)
            if offer is not None:
                self._owed -= offer.last - offer.first + 1
                self._ledger.note(offer)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await self._is_over.wait()

    async def _hand_over(self) -> None:
        while not (self._is_over.is_set() and not self.samples.waiting):
            try:
                await self._converse()
            except (OSError, TimeoutError, BadHandover, ForwarderAway):
                await asyncio.sleep(AGAIN_SECONDS)

    async def _converse(self) -> None:
        """One connection: it ends when it breaks, when there is another boot to announce, and when all is done."""
        boot = self.samples.boot
        async with self._connected() as ask:
            welcome = await ask(boot.hello())
            if not isinstance(welcome, Welcome):
                raise ForwarderAway(str(welcome))
            self._take(boot.number_at(welcome.last))
            while self.samples.boot is boot:
                rows = self.samples.next_rows()
                if not rows:
                    if self._is_over.is_set():
                        return
                    await asyncio.sleep(TICK_SECONDS / 2)
                    continue
                self._number += 1
                answer = await ask(handover.Samples(self._number, rows))
                _require_stored(answer, self._number)
                self._take(self.samples.next_last())

    def _take(self, last: int) -> None:
        if self.samples.is_stored(last):
            self._ledger.note(Stored(self.device, last))

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncIterator["Ask"]:
        reader, writer = await asyncio.open_unix_connection(self._socket)
        try:
            yield Ask(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


class Ask:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def __call__(self, message: FromAgent) -> FromForwarder:
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            self._writer.write(handover.pack(message))
            await self._writer.drain()
            answer = await handover.read_from_forwarder(self._reader)
        if answer is None:
            raise ForwarderAway("it closed the connection")
        return answer


def _require_stored(answer: FromForwarder, number: int) -> None:
    if isinstance(answer, Refused) and answer.is_final:
        raise SamplesRefused(f"the forwarder refuses the samples of this campaign: {answer.reason}")
    if answer != handover.Stored(number):
        raise ForwarderAway(str(answer))
