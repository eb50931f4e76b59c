"""A device of the farm that says what a test wants, over MQTT as every device does; and the services' APIs, asked directly."""

import json
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from e2e.farm import Farm
from farmiq.contracts import event_types, topics
from farmiq.contracts.decoding import encode
from farmiq.contracts.envelope import DevicePayload, mqtt_envelope
from farmiq.contracts.telemetry import Channel, Reading, TelemetryBatch, TelemetryLoss
from farmiq.contracts.timestamps import to_us
from farmiq.kit.ids import new_id
from support.paho_client import Client


class Device:
    def __init__(self, client: Client, told: dict[str, str]) -> None:
        self._client = client
        self.device_id = told["device_id"]
        self.http_token = told["http_token"]
        self.place = {name: told[name] for name in ("tenant_id", "farm_id", "barn_id")}
        self.stream_id = uuid4()

    def say(self, topic: str, event_type: str, payload: DevicePayload, at: datetime) -> None:
        envelope = mqtt_envelope(
            payload,
            event_id=new_id(),
            event_type=event_type,
            tenant_id=self.place["tenant_id"],
            device_id=self.device_id,
            ts=at,
        )
        self._client.publish(topic, encode(envelope))

    def reading(self, metric: str, value: float, unit: str, at: datetime) -> None:
        topic = topics.TelemetryTopic(**self.place, device_id=self.device_id, metric=metric).path
        self.say(topic, event_types.TELEMETRY_READING, Reading(value=value, unit=unit), at)

    def batch(self, first_seq: int, times: list[datetime], values: list[float], channel: Channel) -> None:
        batch = TelemetryBatch(
            stream_id=self.stream_id,
            boot_id=UUID(int=1),
            lane="replay",
            seq0=first_seq,
            time_quality=2,
            channels=[channel],
            t=[to_us(at) for at in times],
            c=[0] * len(times),
            v=values,
        )
        topic = topics.TelemetryBatchTopic(**self.place, device_id=self.device_id).path
        self.say(topic, event_types.TELEMETRY_BATCH, batch, times[-1])

    def loss(self, first_seq: int, last_seq: int, first_at: datetime, last_at: datetime, dropped_at: datetime) -> None:
        count = last_seq - first_seq + 1
        loss = TelemetryLoss(
            stream_id=self.stream_id, first_seq=first_seq, last_seq=last_seq, count=count, reason="spool_cap",
            dropped_at=dropped_at, first_ts=first_at, last_ts=last_at,
        )  # fmt: skip
        topic = topics.EventTopic(**self.place, device_id=self.device_id, event_type=event_types.TELEMETRY_LOSS).path
        self.say(topic, event_types.TELEMETRY_LOSS, loss, dropped_at)

    def of_session(self, session_id: UUID, event_type: str, payload: DevicePayload, at: datetime) -> None:
        topic = topics.WeighvisionTopic(
            **self.place, station_id=self.device_id, session_id=session_id, event_type=event_type
        ).path
        self.say(topic, event_type, payload, at)


@contextmanager
def device(farm: Farm, kind: str) -> Iterator[Device]:
    added = farm.command("device", "add", f"{kind}-{uuid4().hex[:8]}", "--kind", kind, "--json")
    assert added.returncode == 0, added.stderr
    told: dict[str, str] = json.loads(added.stdout)
    client = Client(told["mqtt_url"], client_id=told["device_id"])
    yield Device(client, told)
    client.close()


class Services:
    """Their APIs, as a program with the admin token sees them."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment

    def get(self, service: str, path: str, **parameters: Any) -> Any:
        url = self._environment[f"{service.replace('-', '_').upper()}_URL"] + path
        asked = f"{url}?{urllib.parse.urlencode({'tenant_id': 'demo', **parameters}, doseq=True)}"
        headers = {"authorization": f"Bearer {self._environment['ADMIN_TOKEN']}"}
        request = urllib.request.Request(asked, headers=headers)  # noqa: S310 - an address of the farm under test
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - as above
            return json.load(answer)
