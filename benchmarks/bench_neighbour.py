"""How long a device waits for its acknowledgement while another device floods the edge, beside the same without the flood.

Mosquitto, edge-ingress-gateway and PostgreSQL, all real and with their default settings, on this machine. The flood is a process
of its own: one connection that publishes readings at QoS 1 as fast as the broker confirms them. The neighbour sends a reading of
its own at a steady pace, and its clock runs from the moment when it publishes until its acknowledgement is there.
"""

import asyncio
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from edge import Edge
from farmiq.contracts import event_types, topics
from farmiq.contracts.ack import DeviceAck
from farmiq.contracts.decoding import decode, encode
from farmiq.contracts.envelope import mqtt_envelope
from farmiq.contracts.telemetry import Reading
from farmiq.kit.clock import Clock
from farmiq.kit.ids import new_id, new_trace_id
from farmiq.kit.mqtt import BrokerAway, MqttClient
from harness import Progress, Result, arguments, compared, machine, quiet_logs, report, scratch, write_json
from node import BARN, FARM, TENANT
from processes import until

NEIGHBOUR, FLOODER = "neighbour", "flooder"
UNDER_WAY = 500
WAIT_SECONDS_MAX = 120.0
FLOOD_SECONDS_BEFORE = 2.0
"""The flood runs before the neighbour's clock does: a burst is let in at first."""


@dataclass(frozen=True, slots=True)
class Plan:
    rounds: int
    seconds: float
    per_second: float


@dataclass
class Figures:
    quiet: dict[int, list[float]] = field(default_factory=dict)
    flooded: dict[int, list[float]] = field(default_factory=dict)
    flood: list[float] = field(default_factory=list)
    """Readings a second that the broker confirmed to the flooder, by round."""


def reading(device_id: str, event_id: UUID) -> tuple[str, bytes]:
    topic = topics.TelemetryTopic(
        tenant_id=TENANT, farm_id=FARM, barn_id=BARN, device_id=device_id, metric="temperature"
    )
    envelope = mqtt_envelope(
        Reading(value=21.5, unit="C"), event_id=event_id, event_type=event_types.TELEMETRY_READING, tenant_id=TENANT,
        device_id=device_id, ts=Clock().now(), trace_id=new_trace_id(),
    )  # fmt: skip
    return topic.path, encode(envelope)


class Neighbour:
    def __init__(self, url: str) -> None:
        self._mqtt = MqttClient(url, client_id=NEIGHBOUR, subscriptions=[f"iot/{NEIGHBOUR}/ack"], clean_session=True)
        self._sent_at: dict[UUID, float] = {}
        self._seconds: list[float] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Neighbour"]:
        await self._mqtt.start()
        await self._mqtt.wait_connected()
        hearing = asyncio.create_task(self._hear())
        try:
            yield self
        finally:
            hearing.cancel()
            await self._mqtt.stop()

    async def send(self, plan: Plan) -> list[float]:
        """Seconds until each reading was acknowledged."""
        self._seconds = []
        begun_at, count = time.monotonic(), int(plan.seconds * plan.per_second)
        async with asyncio.TaskGroup() as group:
            for number in range(count):
                await asyncio.sleep(max(0.0, begun_at + number / plan.per_second - time.monotonic()))
                group.create_task(self._publish(new_id()))

        async def are_acknowledged() -> bool:
            return len(self._seconds) == count

        async with asyncio.timeout(WAIT_SECONDS_MAX):
            await until(are_acknowledged)
        return self._seconds

    async def _publish(self, event_id: UUID) -> None:
        topic, payload = reading(NEIGHBOUR, event_id)
        self._sent_at[event_id] = time.monotonic()
        await self._mqtt.publish(topic, payload)

    async def _hear(self) -> None:
        while messages := await self._mqtt.next_batch(100, 0.0):
            now = time.monotonic()
            for message in messages:
                for event in decode(DeviceAck, message.payload, max_bytes=1 << 20).events:
                    if (sent_at := self._sent_at.pop(event.event_id, None)) is not None:
                        self._seconds.append(now - sent_at)
            self._mqtt.acknowledge(messages)


async def flood(url: str) -> None:
    """Until stdin is closed. Prints a line when it has begun, and at the end how many readings the broker has confirmed."""
    mqtt = MqttClient(url, client_id=FLOODER, clean_session=True, inflight_max=UNDER_WAY)
    await mqtt.start()
    await mqtt.wait_connected()
    confirmed = 0

    async def publish_for_ever() -> None:
        nonlocal confirmed
        while True:
            try:
                await mqtt.publish(*reading(FLOODER, new_id()))
            except BrokerAway:
                await mqtt.wait_connected()
            else:
                confirmed += 1

    publishing = [asyncio.create_task(publish_for_ever()) for _ in range(UNDER_WAY)]
    print("begun", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for task in publishing:
        task.cancel()
    await mqtt.stop()
    print(confirmed)


@asynccontextmanager
async def flooding(url: str, figures: Figures) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--flood",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env={**os.environ, "MQTT_URL": url},
    )  # fmt: skip
    assert process.stdout is not None  # noqa: S101 - a pipe was asked for
    await process.stdout.readline()
    begun_at = time.monotonic()
    try:
        await asyncio.sleep(FLOOD_SECONDS_BEFORE)
        yield
    finally:
        seconds = time.monotonic() - begun_at
        out, _ = await process.communicate(b"")
    figures.flood.append(int(out) / seconds)


async def measure(plan: Plan, folder: Path, progress: Progress) -> Figures:
    edge, figures = Edge(folder), Figures()
    progress.step("servers and services start")
    async with edge.database() as url:
        await edge.register([NEIGHBOUR, FLOODER])
        async with edge.broker_running(), edge.gateway(url):
            await edge.until_gateway_is_ready()
            async with Neighbour(edge.nodes_url).running() as neighbour:
                await neighbour.send(Plan(1, 1.0, plan.per_second))
                for number in range(plan.rounds):
                    progress.step(f"round {number + 1}: alone")
                    figures.quiet[number] = await neighbour.send(plan)
                    progress.step(f"round {number + 1}: beside a flood")
                    async with flooding(edge.nodes_url, figures):
                        figures.flooded[number] = await neighbour.send(plan)
                    # What is left of the flood is not part of the next round's quiet half.
                    await neighbour.send(Plan(1, 0.1, 10.0))
    progress.end()
    return figures


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def outcome(figures: Figures) -> list[Result]:
    def at(share: float, by_round: dict[int, list[float]]) -> dict[int, float]:
        return {number: percentile(seconds, share) for number, seconds in by_round.items()}

    note = f"the flooder: {statistics.median(figures.flood):,.0f} readings/s confirmed by the broker"
    against = "the same device alone"
    return [
        compared(
            name, at(share, figures.flooded), against, at(share, figures.quiet), "s", is_better_below=True, note=more
        )
        for name, share, more in (("neighbour_ack_p99", 0.99, note), ("neighbour_ack_p50", 0.5, ""))
    ]


def main() -> int:
    if sys.argv[1:] == ["--flood"]:
        quiet_logs()
        asyncio.run(flood(os.environ["MQTT_URL"]))
        return 0
    parser = arguments(__doc__.split("\n\n")[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, help="of each half of a round")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--rate", type=float, default=50.0, help="readings a second of the neighbour")
    options = parser.parse_args()
    plan = Plan(
        options.rounds or (1 if options.quick else 3), options.seconds or (8.0 if options.quick else 20.0), options.rate
    )
    quiet_logs()
    with scratch(options.folder) as folder:
        # PostgreSQL runs as another user when we are root, and has to get in.
        os.chmod(folder, 0o755)  # noqa: S103, PTH101 - nothing secret lies in the folder itself
        facts: dict[str, Any] = machine(folder)
        figures = asyncio.run(measure(plan, folder, Progress(1 + 2 * plan.rounds)))
    results = outcome(figures)
    report("Beside a flood", results, facts, [])
    if options.json:
        write_json(options.json, "bench_neighbour", results, facts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
