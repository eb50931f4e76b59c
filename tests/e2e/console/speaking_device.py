"""A device of the test's own at the farm's broker: it says what the test wants said, with nothing of ours in between."""

import json
import time
from types import TracebackType
from typing import Any
from uuid import UUID, uuid4

from e2e.farm import Farm
from farmiq.cli import exits
from support.paho_client import Client


class SpeakingDevice:
    def __init__(self, farm: Farm, device_id: str, kind: str = "node", *, tenant_id: str | None = None) -> None:
        tenant = ("--tenant", tenant_id) if tenant_id else ()
        told = farm.command("device", "add", device_id, "--kind", kind, "--json", *tenant)
        assert told.returncode == exits.OK, told.stderr
        self._issued: dict[str, Any] = json.loads(told.stdout)
        self._farm = farm
        self.device_id = device_id
        self.stream = uuid4()
        self._client = Client(self._issued["mqtt_url"], device_id)

    @property
    def password(self) -> str:
        return str(self._issued["mqtt_password"])

    def __enter__(self) -> "SpeakingDevice":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def measure(self, first: int, last: int, *, unit: str = "C", first_at: float | None = None) -> None:
        """Samples of one channel, ten in a second, up to now unless the test says from when."""
        begins = time.time() - (last - first) / 10 if first_at is None else first_at
        seqs = range(first, last + 1)
        batch = {
            "stream_id": str(self.stream),
            "boot_id": str(uuid4()),
            "lane": "live",
            "seq0": first,
            "time_quality": 2,
            "channels": [{"metric": "temperature", "unit": unit, "sensor": "t1"}],
            "t": [int((begins + number / 10) * 1_000_000) for number in range(len(seqs))],
            "c": [0] * len(seqs),
            "v": [20.0] * len(seqs),
        }
        self.say(self._topic("telemetry", "batch"), "telemetry.batch", batch)

    def lose(self, first: int, last: int, reason: str = "cap_reached") -> None:
        loss = {
            "stream_id": str(self.stream),
            "first_seq": first,
            "last_seq": last,
            "count": last - first + 1,
            "reason": reason,
            "dropped_at": now(),
            "first_ts": now(),
            "last_ts": now(),
        }
        self.say(self._topic("event", "telemetry.loss"), "telemetry.loss", loss)

    def event(self, event_type: str, payload: dict[str, Any]) -> None:
        self.say(self._topic("event", event_type), event_type, payload)

    def status(self, *, is_retained: bool = False, **figures: Any) -> None:
        said = {"state": "online", "stream_id": str(self.stream), **figures}
        self.say(self._topic("status"), "device.status", said, is_retained=is_retained)

    def say(self, topic: str, event_type: str, payload: dict[str, Any], *, is_retained: bool = False) -> UUID:
        event_id = uuid4()
        body = {
            "event_id": str(event_id),
            "tenant_id": self._issued["tenant_id"],
            "device_id": self.device_id,
            "event_type": event_type,
            "ts": now(),
            "payload": payload,
        }
        self._client.publish(topic, json.dumps(body).encode(), is_retained)
        return event_id

    def _topic(self, kind: str, *more: str) -> str:
        place = (self._issued["tenant_id"], self._issued["farm_id"], self._issued["barn_id"], self.device_id)
        return "/".join(("iot", kind, *place, *more))


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
