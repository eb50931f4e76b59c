"""The process that feeds the farm, outside of it: nodes, a sensor, a weigh station, and the ledger that they write.

It reads orders from its standard input and says on its standard output how far it is, one JSON object a line each."""

import asyncio
import signal
import sys
from pathlib import Path
from random import Random

import msgspec
from msgspec import Struct

from farmiq.kit.clock import Clock
from farmiq.kit.logging import configure
from farmiq.torture.ledger import LedgerWriter
from farmiq.torture.node import Node
from farmiq.torture.sensor import Sensor
from farmiq.torture.station import Station
from farmiq.torture.telling import Login

REPORT_SECONDS = 0.5


class NodeTask(Struct, frozen=True):
    device: str
    socket: str
    rate: float


class Task(Struct, frozen=True):
    """What to generate, given when the process starts."""

    seed: int
    ledger: str
    nodes: list[NodeTask]
    sensor: Login
    readings_per_second: float
    station: Login
    media_url: str
    session_seconds: float


class Jump(Struct, frozen=True, tag="jump"):
    device: str
    seconds: float


class Storm(Struct, frozen=True, tag="storm"):
    pass


class Poison(Struct, frozen=True, tag="poison"):
    pass


class Finish(Struct, frozen=True, tag="finish"):
    """Make nothing new, and end when everything that was begun is acknowledged."""


Order = Jump | Storm | Poison | Finish


class Progress(Struct, frozen=True):
    taken: dict[str, int] = {}
    stored: dict[str, int] = {}
    said: int = 0
    heard: int = 0
    repeated: int = 0
    pubacked_only: int = 0
    sessions: int = 0
    pictures: int = 0


class Generators:
    def __init__(self, task: Task, clock: Clock) -> None:
        rng = Random(task.seed)  # noqa: S311 - values that can be made again, not a secret
        self._ledger = LedgerWriter(Path(task.ledger))
        self._nodes = {
            one.device: Node(one.device, Path(one.socket), one.rate, self._ledger, clock) for one in task.nodes
        }
        self._sensor = Sensor(task.sensor, task.readings_per_second, self._ledger, clock, rng)
        self._station = Station(task.station, task.media_url, task.session_seconds, self._ledger, clock, rng)

    async def run(self, orders: asyncio.StreamReader) -> None:
        reporting = asyncio.create_task(self._report())
        listening = asyncio.create_task(self._listen(orders))
        try:
            async with asyncio.TaskGroup() as group:
                for node in self._nodes.values():
                    group.create_task(node.run())
                group.create_task(self._sensor.run())
                group.create_task(self._station.run())
        finally:
            reporting.cancel()
            listening.cancel()
            self._ledger.close()
        _write(self.progress())

    def progress(self) -> Progress:
        telling = (self._sensor.telling, self._station.telling)
        return Progress(
            taken={name: node.samples.taken for name, node in self._nodes.items()},
            stored={name: node.samples.stored for name, node in self._nodes.items()},
            said=sum(one.said for one in telling),
            heard=sum(one.heard for one in telling),
            repeated=sum(one.repeated for one in telling),
            pubacked_only=sum(one.pubacked_only for one in telling),
            sessions=self._station.sessions,
            pictures=self._station.pictures,
        )

    async def _report(self) -> None:
        while True:
            _write(self.progress())
            await asyncio.sleep(REPORT_SECONDS)

    async def _listen(self, orders: asyncio.StreamReader) -> None:
        while line := await orders.readline():
            self._follow(msgspec.json.decode(line, type=Order))
        self._follow(Finish())  # nobody is left who could say it

    def _follow(self, order: Order) -> None:
        match order:
            case Jump(device, seconds):
                self._nodes[device].jump(seconds)
            case Storm():
                self._sensor.storm()
            case Poison():
                self._sensor.poison()
            case Finish():
                for node in self._nodes.values():
                    node.finish()
                self._sensor.finish()
                self._station.finish()


def _write(progress: Progress) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(progress) + b"\n")
    sys.stdout.buffer.flush()


async def _standard_input() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def _main(task: Task) -> None:
    await Generators(task, Clock()).run(await _standard_input())


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it decides when it is over
    configure("CRITICAL")  # its standard output is for progress; what matters is raised
    asyncio.run(_main(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Task)))
