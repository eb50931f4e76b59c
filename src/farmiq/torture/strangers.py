"""Neighbours with valid credentials of their own who try to make the data of others vanish, or to replace it.

Two devices on the same edge, one of the farm's tenant and one of another, and a second edge of the farm's tenant. Each attack is
bounded in messages and time, uses nothing but these credentials and public knowledge, and is over when it returns. They know the
ids that a log or a screenshot may show: streams, sequences, sessions, and ids that were used before."""

import asyncio
import json
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit
from uuid import UUID, uuid4, uuid5

import asyncpg
import msgspec
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from farmiq.contracts import event_types, topics
from farmiq.contracts.timestamps import to_us
from farmiq.contracts.topics import TelemetryBatchTopic, TelemetryTopic
from farmiq.kit.clock import Clock
from farmiq.kit.errors import Fatal
from farmiq.kit.http_client import NeighbourAway, call, open_session
from farmiq.stack.demo_farm import EDGE_CLUSTER_ID
from farmiq.torture import poison
from farmiq.torture.farm import Farm
from farmiq.torture.plan import Fault, Kind
from farmiq.torture.telling import Login

NEAR: Final = "torture-near"
FAR: Final = "torture-far"
FAR_TENANT: Final = "torture-tenant"
SECOND_EDGE: Final = "torture-edge"
DEVICES: Final = (NEAR, FAR)

GROUP: Final = "edge-ingress-gateway"
AHEAD: Final = 150
"""How far behind the newest sequence a forged one begins: the node has not sent it yet."""
FORGED_SAMPLES: Final = 50
FORGED_VALUE: Final = -273.0
CLASHES: Final = 200
FLOOD_MESSAGES: Final = 2_000
RETAINED_TOPICS: Final = 60
RETAINED_BYTES: Final = 60_000
MQTT_SECONDS_MAX: Final = 15.0
ATTACK_SECONDS_MAX: Final = 40.0
LOW_64: Final = (1 << 64) - 1

_STREAM: Final = """
    SELECT stream_id, tenant_id, farm_id, barn_id, device_id, upper(received) AS next_seq FROM streams
     WHERE device_id = $1 AND NOT isempty(received) ORDER BY last_seen_at DESC LIMIT 1
"""
_USED_IDS: Final = """
    SELECT event_id FROM ingress_dedupe WHERE device_id <> ALL($1::text[]) ORDER BY first_seen_at DESC LIMIT $2
"""
_ROWS: Final = "SELECT id, occurred_at FROM telemetry_raw WHERE device_id = $1 ORDER BY occurred_at DESC LIMIT $2"
_SESSION: Final = """
    SELECT id, tenant_id, farm_id, barn_id FROM weight_sessions WHERE status = 'finalized' ORDER BY created_at DESC LIMIT 1
"""
# An edge that may speak for the tenant: what the stranger's device sends is stored like anybody's.
_GRANT: Final = """
    UPDATE edges SET tenant_ids = array_append(tenant_ids, $2)
     WHERE edge_cluster_id = $1 AND NOT tenant_ids @> ARRAY[$2::text]
"""

Message = tuple[str, bytes]


class StrangerNotAdded(Fatal):
    """A command that gives a stranger its credentials was refused."""


class Strangers:
    def __init__(self, farm: Farm, logins: Mapping[str, Login], edge_token: str, clock: Clock) -> None:
        self._farm = farm
        self._logins = logins
        self._edge_token = edge_token
        self._clock = clock

    @classmethod
    async def add(cls, farm: Farm, clock: Clock) -> "Strangers":
        await farm.fetch("cloud", _GRANT, EDGE_CLUSTER_ID, FAR_TENANT)
        logins = {NEAR: await farm.add_device(NEAR, "sensor"), FAR: await farm.add_device(FAR, "node", FAR_TENANT)}
        tenant_id = logins[NEAR].tenant_id
        code, output, complaint = await farm.command("edge", "add", SECOND_EDGE, "--tenant", tenant_id, "--json")
        if code:
            raise StrangerNotAdded(f"{SECOND_EDGE} could not be added: {complaint.decode(errors='replace')}")
        return cls(farm, logins, json.loads(output)["token"], clock)

    async def attack(self, fault: Fault) -> bool:
        """False: what it needs did not answer for a while, and nothing was done. Other faults may have taken it away."""
        try:
            async with asyncio.timeout(ATTACK_SECONDS_MAX):
                while True:
                    try:
                        await self._attack_now(fault)
                    except (OSError, NeighbourAway, asyncpg.PostgresError, asyncpg.InterfaceError):
                        await asyncio.sleep(1)
                    else:
                        return True
        except TimeoutError:
            return False

    async def _attack_now(self, fault: Fault) -> None:
        match fault.kind:
            case Kind.SHARE_GROUP:
                await asyncio.to_thread(_join_group, self._logins[fault.target], fault.seconds)
            case Kind.FOREIGN_EDGE:
                await self._speak_as_second_edge(fault.target)
            case Kind.ID_CLASH:
                await self._publish(NEAR, await self._used_ids(fault.target))
            case Kind.SAMPLE_ID_CLASH:
                await self._publish(FAR, await self._neighbouring_streams(fault.target))
                await self._publish(NEAR, await self._taken_row_ids(fault.target))
            case Kind.FLOOD:
                await self._publish(fault.target, self._readings(fault.target, FLOOD_MESSAGES))
            case _:
                await self._publish(fault.target, self._garbage(fault.target), is_retained=True)

    async def _publish(self, device: str, messages: Iterable[Message], *, is_retained: bool = False) -> None:
        await asyncio.to_thread(_publish_all, self._logins[device], list(messages), is_retained=is_retained)

    async def _used_ids(self, victim: str) -> list[Message]:
        """Readings under the ids of what others have sent, and under those that 0.1.0 would give to a node's next packs."""
        rows = await self._farm.fetch("edge", _USED_IDS, list(DEVICES), CLASHES // 2)
        ids = [row["event_id"] for row in rows]
        for stream in await self._farm.fetch("edge", _STREAM, victim):
            firsts = range(stream["next_seq"], stream["next_seq"] + CLASHES // 20)
            ids += [uuid5(stream["stream_id"], f"{first}-{first + length}") for first in firsts for length in range(10)]
        return [self._reading(NEAR, event_id) for event_id in ids]

    async def _neighbouring_streams(self, victim: str) -> list[Message]:
        """In 0.1.0 a sample's row id was the sum of its stream's id and its sequence."""
        login, messages = self._logins[FAR], []
        topic = TelemetryBatchTopic(**login.place, device_id=FAR).path
        for stream in await self._farm.fetch("edge", _STREAM, victim):
            number, next_seq, now_us = stream["stream_id"].int, stream["next_seq"], to_us(self._clock.now())
            for ahead in range(CLASHES):
                neighbour = UUID(int=(number & ~LOW_64) | ((number + next_seq + ahead - 1) & LOW_64))
                batch = _batch(neighbour, 1, [now_us + ahead * 1000], [FORGED_VALUE])
                envelope = poison.envelope(login, uuid4(), event_types.TELEMETRY_BATCH, now_us, batch)
                messages.append((topic, msgspec.json.encode(envelope)))
        return messages

    async def _taken_row_ids(self, victim: str) -> list[Message]:
        """Readings whose id and time are those of a sample that is stored."""
        rows = await self._farm.fetch("edge", _ROWS, victim, CLASHES // 4)
        return [self._reading(NEAR, row["id"], to_us(row["occurred_at"])) for row in rows]

    def _readings(self, device: str, count: int) -> list[Message]:
        return [self._reading(device, uuid4()) for _ in range(count)]

    def _reading(self, device: str, event_id: UUID, at_us: int | None = None) -> Message:
        login = self._logins[device]
        at_us = to_us(self._clock.now()) if at_us is None else at_us
        payload = {"value": FORGED_VALUE, "unit": "C"}
        envelope = poison.envelope(login, event_id, event_types.TELEMETRY_READING, at_us, payload)
        topic = TelemetryTopic(**login.place, device_id=device, metric="forged").path
        return topic, msgspec.json.encode(envelope)

    def _garbage(self, device: str) -> list[Message]:
        place = self._logins[device].place
        metrics = (f"m{number}" for number in range(RETAINED_TOPICS))
        return [
            (TelemetryTopic(**place, device_id=device, metric=metric).path, b"x" * RETAINED_BYTES) for metric in metrics
        ]

    async def _speak_as_second_edge(self, victim: str) -> None:
        """Samples and a loss of a node that is not its own, and the end of somebody's weigh session."""
        events = []
        for stream in await self._farm.fetch("edge", _STREAM, victim):
            now_us, first = to_us(self._clock.now()), stream["next_seq"] + AHEAD
            times = [now_us + number for number in range(FORGED_SAMPLES)]
            batch = _batch(stream["stream_id"], first, times, [FORGED_VALUE] * FORGED_SAMPLES)
            loss = {
                "stream_id": str(stream["stream_id"]), "first_seq": first + FORGED_SAMPLES,
                "last_seq": first + 2 * FORGED_SAMPLES, "count": FORGED_SAMPLES + 1,
                "reason": "spool_full", "dropped_at": self._clock.now().isoformat(),
            }  # fmt: skip
            events.append(self._event(event_types.TELEMETRY_BATCH_INGESTED, batch, stream, victim))
            events.append(self._event(event_types.TELEMETRY_LOSS, loss, stream, victim))
        for session in await self._farm.fetch("cloud", _SESSION):
            payload = {"status": "cancelled", "reason": "by a stranger", "revision": 999_999}
            event = self._event(event_types.SESSION_CANCELLED, payload, session, "nobody-knows")
            events.append(event | {"session_id": str(session["id"])})
        url = f"{self._farm.environment['CLOUD_INGESTION_URL']}/api/v1/edge/batch"
        headers = {"authorization": f"Bearer {self._edge_token}", "content-type": "application/json"}
        async with open_session("torture") as http:
            await call(http, "POST", url, body=msgspec.json.encode(events), headers=headers)

    def _event(self, event_type: str, payload: Mapping[str, Any], place: asyncpg.Record, device: str) -> dict[str, Any]:
        return {
            "event_id": str(uuid4()), "event_type": event_type, "tenant_id": place["tenant_id"], "farm_id": place["farm_id"],
            "barn_id": place["barn_id"], "device_id": device, "occurred_at": self._clock.now().isoformat(),
            "schema_version": "1.0", "payload": payload,
        }  # fmt: skip


def _batch(stream_id: UUID, first: int, times: list[int], values: list[float]) -> dict[str, Any]:
    return {
        "stream_id": str(stream_id), "boot_id": str(uuid4()), "lane": "live", "seq0": first, "time_quality": 2,
        "channels": [{"metric": "forged", "unit": "C", "sensor": "forged"}],
        "t": times, "c": [0] * len(times), "v": values,
    }  # fmt: skip


class _Connection:
    """One MQTT connection of a stranger, used from a thread of its own."""

    def __init__(self, login: Login, *, keeps_session: bool = False) -> None:
        address = urlsplit(login.mqtt_url)
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2, client_id=login.device_id, clean_session=not keeps_session
        )
        self.client.username_pw_set(unquote(address.username or ""), unquote(address.password or ""))
        self.client.max_inflight_messages_set(500)
        self._is_connected = threading.Event()
        self._is_answered = threading.Event()
        self.client.on_connect = lambda *_: self._is_connected.set()
        self.client.on_subscribe = lambda *_: self._is_answered.set()
        self.client.connect(address.hostname or "", address.port or 1883, 30)
        self.client.loop_start()
        if not self._is_connected.wait(MQTT_SECONDS_MAX):
            self.close()
            raise TimeoutError("the broker did not answer a stranger")

    def subscribe(self, filters: Iterable[str]) -> None:
        self.client.subscribe([(one, topics.QOS) for one in filters])
        self._is_answered.wait(MQTT_SECONDS_MAX)

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def _join_group(login: Login, seconds: float) -> None:
    """Leaves a persistent session behind, with whatever subscriptions the broker granted."""
    connection = _Connection(login, keeps_session=True)
    try:
        connection.subscribe([f"$share/{GROUP}/{one}" for one in topics.GATEWAY_FILTERS] + list(topics.GATEWAY_FILTERS))
        threading.Event().wait(seconds)  # how long it takes part: the length of the fault
    finally:
        connection.close()


def _publish_all(login: Login, messages: list[Message], *, is_retained: bool) -> None:
    connection = _Connection(login)
    try:
        sent = [connection.client.publish(topic, body, topics.QOS, retain=is_retained) for topic, body in messages]
        if sent:
            sent[-1].wait_for_publish(MQTT_SECONDS_MAX)
    except RuntimeError as error:  # paho's word for a connection that has ended
        raise ConnectionError(f"the broker went away from {login.device_id}") from error
    finally:
        connection.close()
