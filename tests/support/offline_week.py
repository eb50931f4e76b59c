"""A node without a battery-backed clock that is away from its edge for a week: how right are the times of its samples afterwards?

    PYTHONPATH=tests .venv/bin/python -m support.offline_week

Time is virtual; what asks for the time, keeps the anchors, answers at the edge and corrects batches is the services' own code.
"""

import math
import random
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

import msgspec

from farmiq.contracts.ack import DeviceAck
from farmiq.contracts.decoding import decode, encode
from farmiq.contracts.envelope import MqttEnvelope, payload_of
from farmiq.contracts.limits import MQTT_MESSAGE_BYTES_MAX
from farmiq.contracts.telemetry import TelemetryBatch
from farmiq.contracts.timestamps import from_us
from farmiq.device.node_forwarder.batches import Messages
from farmiq.device.node_forwarder.node_time import NodeTime
from farmiq.device.node_forwarder.settings import ForwarderSettings
from farmiq.edge.ingress_gateway.acknowledgements import Pending, TimeRequest
from farmiq.kit.clock import Clock
from farmiq.spool import Channel, Frame, Header, Run

SECOND_US = 1_000_000
HOUR_US = 3600 * SECOND_US
DAY_US = 24 * HOUR_US
START_US = 1_790_000_000 * SECOND_US
EXACT_US = 100_000
BATCH = 500
SETTINGS = ForwarderSettings(
    tenant_id="t", farm_id="f", barn_id="b", device_id="node-1", mqtt_url="mqtt://simulated:1883",
    node_forwarder_socket="", node_forwarder_spool_dir="",
)  # fmt: skip


@dataclass(frozen=True)
class Scenario:
    online_before_us: int = 7 * DAY_US
    drift_ppm: float = 100.0
    wander_ppm: float = 0.0
    """How far the temperature of day and night moves the crystal."""
    contact_of_middle_boot: bool = False
    """Whether the node reaches the edge for some minutes between its two reboots."""
    edge_quality: int = 2
    sample_seconds: int = 10


@dataclass
class Result:
    boots: list[UUID] = field(default_factory=list)
    samples: Counter[UUID] = field(default_factory=Counter)
    exact: Counter[UUID] = field(default_factory=Counter)
    corrected: Counter[UUID] = field(default_factory=Counter)
    worst_us: Counter[UUID] = field(default_factory=Counter)
    correction_bytes: int = 0

    def share(self, *boots: UUID) -> float:
        return sum(self.exact[boot] for boot in boots) / sum(self.samples[boot] for boot in boots)


class _Node:
    """Its crystal, its wall clock, and what is in its spool."""

    def __init__(self, scenario: Scenario, chance: random.Random, folder: Path) -> None:
        self.scenario = scenario
        self.chance = chance
        self.folder = folder
        self.true_us = START_US
        self.frames: dict[UUID, list[Frame]] = {}
        self.taken_us: dict[int, int] = {}
        self.seq = 0
        self.pending = Pending()
        self.boot()

    def boot(self) -> None:
        """The wall clock begins in 1970, as it does without a battery."""
        self.boot_id = UUID(int=self.chance.getrandbits(128))
        self.booted_us = self.true_us
        self.wall_base_us = 5 * SECOND_US
        self.frames[self.boot_id] = []
        self.start()

    def start(self) -> None:
        self.time = NodeTime(self.boot_id, self.monotonic_us, self.folder)
        self.time.connected()

    def monotonic_us(self) -> int:
        passed_us = self.true_us - self.booted_us
        day = 2 * math.pi / DAY_US
        swing_us = (math.cos(day * self.booted_us) - math.cos(day * self.true_us)) / day
        return round(passed_us * (1 + self.scenario.drift_ppm * 1e-6) + swing_us * self.scenario.wander_ppm * 1e-6)

    def step(self, us: int) -> None:
        self.wall_base_us += us

    def sample_until(self, until_us: int, *, is_online: bool) -> None:
        while self.true_us < until_us:
            monotonic_us = self.monotonic_us()
            self.seq += 1
            frame = Frame(self.seq, self.wall_base_us + monotonic_us, monotonic_us, 0, 0, 20.0)
            self.frames[self.boot_id].append(frame)
            self.taken_us[self.seq] = self.true_us
            self.time.note(self.boot_id, [(frame.wall_us, monotonic_us, 0, 0, 20.0)])
            if is_online and self.time.is_request_due:
                self.ask()
            if self.seq % 500 == 0:
                self.keep()
            self.true_us += self.scenario.sample_seconds * SECOND_US + self.chance.randrange(2000)

    def ask(self) -> None:
        """A status there, an acknowledgement back: over a wireless link, and with other devices' messages before it."""
        event_id = UUID(int=self.chance.getrandbits(128))
        began_us = self.true_us
        self.time.requested(event_id)
        self._pass(0.002, 0.03)
        received_us = self.true_us
        self._pass(0.001, 0.12)
        self.pending.note(UUID(int=1), [], [])
        self.pending.note_time_requests([TimeRequest("node-1", event_id, self._edge_time(received_us))])
        for _, ack in self.pending.take(self._edge_time(self.true_us), self.scenario.edge_quality):
            wire = encode(ack)
            self._pass(0.002, 0.03)
            self.time.take(decode(DeviceAck, wire, max_bytes=10_000))
        assert self.true_us > began_us

    def keep(self) -> None:
        if (changes := self.time.changes()) is not None:
            self.time.write(changes)

    def _edge_time(self, true_us: int) -> datetime:
        return from_us(true_us) + timedelta(microseconds=1500)

    def _pass(self, least: float, most: float) -> None:
        seconds = least + min(self.chance.expovariate(4 / most), 10 * most)
        self.true_us += round(seconds * SECOND_US)


def offline_week(scenario: Scenario, seed: int = 1) -> Result:
    """Two reboots and one step of an hour, at times that follow from the seed."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        node = _Node(scenario, chance, Path(folder))
        node.sample_until(START_US + scenario.online_before_us, is_online=True)
        away_us, first_seq = node.true_us, node.seq + 1
        boots = [node.boot_id]
        events = sorted(chance.randrange(HOUR_US, 7 * DAY_US - HOUR_US) for _ in range(3))
        kinds = ["reboot", "reboot", "step"]
        chance.shuffle(kinds)
        for at_us, kind in zip(events, kinds, strict=True):
            node.sample_until(away_us + at_us, is_online=False)
            if kind == "step":
                node.step(chance.choice([-HOUR_US, HOUR_US]))
                continue
            node.keep()
            node.true_us += chance.randrange(20 * SECOND_US, 300 * SECOND_US)
            node.boot()
            boots.append(node.boot_id)
            if scenario.contact_of_middle_boot and len(boots) == 2:
                node.sample_until(node.true_us + 600 * SECOND_US, is_online=True)
                node.time.connected()
        node.sample_until(away_us + 7 * DAY_US, is_online=False)
        node.time.connected()
        while not node.time.settled.is_set():
            node.ask()
        return _sent(node, boots, first_seq)


def _sent(node: _Node, boots: list[UUID], first_seq: int) -> Result:
    """The backlog in batches, as the edge reads it."""
    result, messages = Result(boots), Messages(SETTINGS, Clock())
    for boot_id in boots:
        header = Header(UUID(int=9), boot_id, 1, 0, (Channel("temperature", "C", ""),))
        frames = [frame for frame in node.frames[boot_id] if frame.seq >= first_seq]
        for start in range(0, len(frames), BATCH):
            run = Run(header, frames[start : start + BATCH])
            message, last_seq = messages.batch(run, "replay", node.time.correction)
            assert last_seq == run.frames[-1].seq
            batch = payload_of(decode(MqttEnvelope, message, max_bytes=MQTT_MESSAGE_BYTES_MAX))
            assert isinstance(batch, TelemetryBatch)
            if isinstance(batch.time_correction, list):
                result.corrected[boot_id] += batch.count
                result.correction_bytes += len(msgspec.json.encode(batch.time_correction))
            for seq, at_us in enumerate(batch.occurred_us, batch.seq0):
                error_us = abs(at_us - node.taken_us[seq])
                result.samples[boot_id] += 1
                result.exact[boot_id] += error_us <= EXACT_US
                result.worst_us[boot_id] = max(result.worst_us[boot_id], error_us)
    return result


def main() -> None:
    rows = [
        ("a week online before, the edge reached in each boot", Scenario(contact_of_middle_boot=True)),
        ("a day online before, the edge reached in each boot", Scenario(DAY_US, contact_of_middle_boot=True)),
        ("an hour online before, the edge reached in each boot", Scenario(HOUR_US, contact_of_middle_boot=True)),
        ("a week before, crystal +-1 ppm by day", Scenario(wander_ppm=1.0, contact_of_middle_boot=True)),
        ("a week before, the middle boot never reached the edge", Scenario()),
    ]
    sys.stdout.write("| scenario | samples | within 100 ms | largest error of a corrected sample | boot by boot |\n")
    sys.stdout.write("|---|---|---|---|---|\n")
    for name, scenario in rows:
        results = [offline_week(scenario, seed) for seed in range(1, 6)]
        samples = sum(one.samples.total() for one in results)
        exact = sum(one.exact.total() for one in results)
        worst = max(one.worst_us[boot] for one in results for boot in one.boots if one.corrected[boot]) / 1000
        places = [
            sum(one.exact[one.boots[place]] for one in results) / sum(one.samples[one.boots[place]] for one in results)
            for place in range(3)
        ]
        boots = ", ".join(f"{share:.2%}" for share in places)
        sys.stdout.write(f"| {name} | {samples:,} | {exact / samples:.3%} | {worst:,.0f} ms | {boots} |\n")


if __name__ == "__main__":
    main()
