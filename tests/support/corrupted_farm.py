"""A farm that runs and is at rest, audited as the command does it while its databases are corrupted."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import asyncpg
from msgspec import Raw, Struct

from farmiq.audit.asking import Question, read
from farmiq.audit.balance import Balance
from farmiq.audit.findings import Finding
from farmiq.audit.rounds import look_until_sure
from farmiq.console.neighbours import Neighbours
from farmiq.contracts import event_types
from farmiq.contracts.decoding import encode
from farmiq.contracts.envelope import MqttEnvelope
from farmiq.contracts.services import SERVICES
from farmiq.contracts.station import STATION_LOSS, StationLoss
from farmiq.contracts.telemetry import Channel, Reading, TelemetryBatch, TelemetryLoss
from farmiq.contracts.timestamps import to_us
from farmiq.kit.http_client import open_session
from farmiq.kit.ids import new_id
from support.corruptions import Corruption, Corruptor
from support.paho_client import Client
from support.waiting import eventually

NODE, STATION = "probe-1", "scale-9"
ROWS_MAX = 2_000_000


@dataclass(frozen=True)
class Outcome:
    """What an audit made of one corruption. `named`: the finding that names its place, if any; `other`: kinds of all others."""

    corruption: Corruption
    is_deep: bool
    named: Finding | None
    others: Sequence[str]

    @property
    def is_found(self) -> bool:
        return self.named is not None


def speak(mqtt_url_of: Mapping[str, str], now: datetime) -> None:
    """What the farm's own devices do not say: single readings, and losses; weeks ago, and now."""
    client = Client(mqtt_url_of[NODE], NODE)
    try:
        for at in (now - timedelta(days=40), now - timedelta(hours=3)):
            stream = uuid4()
            for first, last in ((1, 20), (31, 60)):
                _publish(
                    client,
                    NODE,
                    "iot/telemetry/{}/batch",
                    event_types.TELEMETRY_BATCH,
                    _batch(stream, first, last, at),
                    at,
                )
            lost = TelemetryLoss(
                stream_id=stream, first_seq=21, last_seq=30, count=10, reason="cap_reached",
                first_ts=at, last_ts=at, dropped_at=at,
            )  # fmt: skip
            _publish(client, NODE, "iot/event/{}/telemetry.loss", event_types.TELEMETRY_LOSS, lost, at)
            for minute in range(12):
                reading = Reading(value=20.0 + minute, unit="C")
                said_at = at + timedelta(minutes=minute)
                _publish(client, NODE, "iot/telemetry/{}/water", event_types.TELEMETRY_READING, reading, said_at)
    finally:
        client.close()
    client = Client(mqtt_url_of[STATION], STATION)
    try:
        for number in (1, 2):
            at = now - timedelta(days=number)
            loss = StationLoss(reason="queue_full", dropped_at=at, count=number, pictures=1, first_ts=at, last_ts=at)
            _publish(client, STATION, f"iot/event/{{}}/{STATION_LOSS}", STATION_LOSS, loss, at)
    finally:
        client.close()


def _batch(stream: Any, first: int, last: int, at: datetime) -> TelemetryBatch:
    seqs = range(first, last + 1)
    return TelemetryBatch(
        stream_id=stream,
        boot_id=uuid4(),
        lane="live",
        seq0=first,
        time_quality=2,
        channels=[
            Channel(metric="pressure", unit="hPa", sensor="p1"),
            Channel(metric="flow", unit="l/min", sensor="f1"),
        ],
        t=[to_us(at + timedelta(seconds=20 * seq)) for seq in seqs],
        c=[seq % 2 for seq in seqs],
        v=[1000.0 + seq / 7 for seq in seqs],
    )


def _publish(client: Client, device_id: str, topic: str, event_type: str, payload: Struct, said_at: datetime) -> None:
    envelope = MqttEnvelope(
        event_id=new_id(),
        event_type=event_type,
        tenant_id="demo",
        device_id=device_id,
        ts=said_at,
        payload=Raw(encode(payload)),
    )
    client.publish(topic.format(f"demo/farm-1/barn-1/{device_id}"), encode(envelope))


class AuditedFarm:
    def __init__(self, neighbours: Neighbours, connections: "Mapping[Any, asyncpg.Connection[asyncpg.Record]]") -> None:
        self._neighbours = neighbours
        self.corruptor = Corruptor(connections)

    async def audit(self, *, is_deep: bool = False) -> Balance:
        asked = Question(
            tenant_id="demo",
            asked_at=datetime.now(UTC),
            rows_max=10**15 if is_deep else ROWS_MAX,
            is_exact=is_deep,
        )
        return await look_until_sure(lambda: read(self._neighbours, asked), _no_pause)

    async def until_at_rest(self) -> None:
        """Nothing is on its way any more, and everything balances, also in the rows."""

        async def is_at_rest() -> bool:
            verdict = await self.audit(is_deep=True)
            return verdict.balanced and not verdict.in_flight and not verdict.events_waiting

        await eventually(is_at_rest, 120.0, "a farm at rest that balances")

    async def outcome(self, corruption: Corruption) -> Outcome | None:
        """None: the farm has no row that could be corrupted so."""
        places = await self.corruptor.corrupt(corruption)
        if not places:
            return None
        try:
            for is_deep in (False, True):
                findings = (await self.audit(is_deep=is_deep)).findings
                named = next((one for one in findings if is_place(one, corruption, places)), None)
                if named is not None or is_deep:
                    return Outcome(corruption, is_deep, named, sorted({one.kind for one in findings}))
        finally:
            await self.corruptor.undo(corruption)
        raise AssertionError


def is_place(finding: Finding, corruption: Corruption, places: Sequence[tuple[str, int | None]]) -> bool:
    """Whether it names the device or the id that was corrupted, no other tier, sequences around the right one, and what helps."""
    if finding.tier not in (None, corruption.table.tier) or not finding.fix:
        return False
    return any(
        subject in (finding.device_id, finding.subject)
        and (finding.first_seq is None or seq is None or finding.first_seq <= seq <= (finding.last_seq or 0))
        for subject, seq in places
    )


async def _no_pause(_seconds: float) -> None:
    """A farm at rest looks the same at once as later."""


@asynccontextmanager
async def audited_farm(environment: Mapping[str, str]) -> AsyncIterator[AuditedFarm]:
    addresses = {service.name: environment.get(service.url_variable, "").rstrip("/") for service in SERVICES}
    tokens: dict[str, str | None] = dict.fromkeys(("edge", "cloud"), environment["ADMIN_TOKEN"])
    connections = {
        tier: await asyncpg.connect(environment[f"{tier.upper()}_DATABASE_URL"]) for tier in ("edge", "cloud")
    }
    try:
        async with open_session("audit", total_seconds=60.0) as session:
            known = {name: url for name, url in addresses.items() if url}
            yield AuditedFarm(Neighbours(session, known, tokens, 64 << 20), connections)
    finally:
        await asyncio.gather(*(connection.close() for connection in connections.values()))


def login_of(told: str) -> str:
    url: str = json.loads(told)["mqtt_url"]
    return url
