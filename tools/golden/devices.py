"""Those that feed the farm, and what each of them was told that is safe.

The generators of the release (`farmiq.torture.generators`) are a process of their own with a ledger of their own: nodes behind
real forwarders, a sensor, a weigh station. `Speaker` is a device of another make, which does what generators don't."""

import hashlib
import io
import json
import signal
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TextIO
from urllib.parse import urlsplit

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from PIL import Image, ImageDraw

ANSWER_SECONDS_MAX: Final = 120.0

# An animal every 12 s, so that a station fills its queue within a minute.
STATION_FILE: Final = """\
[camera]
driver = "simulated"
width = 160
height = 120
seed = 7
herd = 4
period_seconds = 12
stay_seconds = 9

[scale]
driver = "simulated"
seed = 7
herd = 4
period_seconds = 12
stay_seconds = 9

[session]
batch_id = "golden"
pictures = 2
picture_interval_seconds = 0.5
"""


@dataclass(frozen=True)
class Login:
    """What `farmiq device add --json` prints, as far as a device needs it."""

    tenant_id: str
    farm_id: str
    barn_id: str
    device_id: str
    mqtt_url: str
    http_token: str

    @classmethod
    def of(cls, printed: Mapping[str, Any]) -> "Login":
        return cls(**{name: printed[name] for name in cls.__dataclass_fields__})

    @property
    def place(self) -> str:
        return f"{self.tenant_id}/{self.farm_id}/{self.barn_id}/{self.device_id}"

    @property
    def variables(self) -> dict[str, str]:
        return {
            "TENANT_ID": self.tenant_id, "FARM_ID": self.farm_id, "BARN_ID": self.barn_id,
            "DEVICE_ID": self.device_id, "MQTT_URL": self.mqtt_url,
        }  # fmt: skip


def forwarder_variables(login: Login, home: Path, spool_bytes_max: int | None) -> dict[str, str]:
    cap = {} if spool_bytes_max is None else {"NODE_FORWARDER_MAX_SPOOL_BYTES": str(spool_bytes_max)}
    return login.variables | cap | {
        "NODE_FORWARDER_SOCKET": str(home / "run" / f"{login.device_id}.sock"),
        "NODE_FORWARDER_SPOOL_DIR": str(home / "devices" / login.device_id / "spool"),
        "NODE_FORWARDER_KEEP_FREE_BYTES": "0",
        "NODE_FORWARDER_RESEND_SECONDS": "3",
    }  # fmt: skip


def station_variables(login: Login, home: Path, media_url: str) -> dict[str, str]:
    folder = home / "devices" / login.device_id
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "station.toml").write_text(STATION_FILE)
    return login.variables | {
        "HTTP_TOKEN": login.http_token,
        "EDGE_MEDIA_STORE_URL": media_url,
        "WEIGHVISION_STATION": str(folder / "station.toml"),
        "WEIGHVISION_QUEUE_DIR": str(folder / "queue"),
        "WEIGHVISION_EVENTS_MAX": "10",
        "WEIGHVISION_KEEP_FREE_BYTES": "0",
        "WEIGHVISION_RESEND_SECONDS": "3",
    }  # fmt: skip


class Generators:
    def __init__(self, folder: Path, task: Mapping[str, Any]) -> None:
        self.ledger = folder / "generators.jsonl"
        orders = folder / "generators.json"
        orders.write_text(json.dumps({**task, "ledger": str(self.ledger)}))
        with (folder / "generators.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "farmiq.torture.generators", str(orders)],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True,
            )  # fmt: skip

    def order(self, **order: object) -> None:
        pipe = self._process.stdin
        if pipe is None or self._process.poll() is not None:
            raise RuntimeError(f"the generators ended with code {self._process.returncode}")
        pipe.write(json.dumps(order).encode() + b"\n")
        pipe.flush()

    def lines(self) -> list[dict[str, Any]]:
        text = self.ledger.read_text() if self.ledger.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def end(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGTERM)
    process.wait(60)


class Speaker:
    """Speaks MQTT as any device would, and waits for the edge's word on each event. Writes both into the ledger."""

    def __init__(self, login: Login, ledger: TextIO) -> None:
        self.login = login
        self._ledger = ledger
        self._results: dict[str, str] = {}
        self._answered = threading.Condition()
        url = urlsplit(login.mqtt_url)
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=login.device_id, clean_session=True)
        self._client.username_pw_set(url.username, url.password)
        self._client.on_connect = lambda client, *_: client.subscribe(f"iot/{login.device_id}/ack", qos=1)
        self._client.on_message = lambda _client, _data, message: self._take(json.loads(message.payload))
        self._client.connect(url.hostname or "", url.port or 1883)
        self._client.loop_start()

    def reading(self, metric: str, value: float, unit: str = "C") -> str:
        topic = f"iot/telemetry/{self.login.place}/{metric}"
        return self._send(topic, "telemetry.reading", {"value": value, "unit": unit}, value=value)

    def event(self, event_type: str, payload: Mapping[str, Any], event_id: str | None = None, **facts: object) -> str:
        return self._send(f"iot/event/{self.login.place}/{event_type}", event_type, payload, event_id, **facts)

    def session_event(self, session: str, event_type: str, payload: Mapping[str, Any], **facts: object) -> str:
        login = self.login
        topic = f"iot/weighvision/{login.place}/session/{session}/{event_type}"
        return self._send(topic, event_type, payload, None, session=session, **facts)

    def publish_unanswered(self, metric: str, values: list[float]) -> list[str]:
        """While nobody takes messages from the broker: its PUBACK is all that there is. Their ids."""
        published = []
        for value in values:
            event_id, at_us, message = self._envelope("telemetry.reading", {"value": value, "unit": "C"})
            sent = self._client.publish(f"iot/telemetry/{self.login.place}/{metric}", message, qos=1)
            sent.wait_for_publish(ANSWER_SECONDS_MAX)
            if not sent.is_published():
                raise RuntimeError(f"the broker did not take {event_id}")
            self._note("said", event_id, "telemetry.reading", at_us, value=value)
            self._write({"type": "published", "event_id": event_id})
            published.append(event_id)
        return published

    def presign(self, body: bytes, session: str | None) -> dict[str, Any]:
        login = self.login
        request = {
            "tenantId": login.tenant_id, "farmId": login.farm_id, "barnId": login.barn_id,
            "deviceId": login.device_id, "stationId": login.device_id, "sessionId": session,
            "capturedAt": datetime.now(UTC).isoformat(), "contentType": "image/jpeg",
            "contentLength": len(body), "sha256": hashlib.sha256(body).hexdigest(),
        }  # fmt: skip
        url = f"{self.media_url}/api/v1/media/images/presign"
        return dict(json.loads(_http("POST", url, json.dumps(request).encode(), self._bearer("application/json"))))

    media_url = ""

    def put(self, body: bytes, session: str | None) -> str:
        """Into the object store, without a word to the edge."""
        signed = self.presign(body, session)
        _http("PUT", signed["upload_url"], body, signed["required_headers"])
        return str(signed["media_id"])

    def upload(self, body: bytes, session: str | None) -> str:
        media = self.put(body, session)
        url = f"{self.media_url}/api/v1/media/images/{media}/complete?awaited=false"
        _http("POST", url, b"{}", self._bearer("application/json"))
        return media

    def capture(self, session: str, body: bytes) -> str:
        """Uploaded, told, and in the ledger as a picture that the farm has."""
        media, sha256 = self.upload(body, session), hashlib.sha256(body).hexdigest()
        self._write({"type": "picture", "media": media, "session": session, "sha256": sha256})
        facts = {"media_id": media, "content_type": "image/jpeg", "size_bytes": len(body), "sha256": sha256}
        self.session_event(session, "weighvision.image.captured", facts, media=media)
        return media

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def _bearer(self, content_type: str) -> dict[str, str]:
        return {"authorization": f"Bearer {self.login.http_token}", "content-type": content_type}

    def _send(
        self, topic: str, event_type: str, payload: Mapping[str, Any], event_id: str | None = None, **facts: object
    ) -> str:
        event_id, at_us, message = self._envelope(event_type, payload, event_id)
        self._note("said", event_id, event_type, at_us, **facts)
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        with self._answered:
            while event_id not in self._results:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"the edge did not acknowledge {event_type} {event_id}")
                self._client.publish(topic, message, qos=1)
                self._answered.wait(5.0)
        result = self._results[event_id]
        self._write({"type": "heard", "event_id": event_id, "result": result})
        if result not in {"stored", "duplicate"}:
            raise RuntimeError(f"the edge answered {result} to {event_type}")
        return event_id

    def _envelope(
        self, event_type: str, payload: Mapping[str, Any], event_id: str | None = None
    ) -> tuple[str, int, bytes]:
        event_id, at = event_id or str(uuid.uuid4()), datetime.now(UTC)
        message = {
            "schema_version": "1.0", "event_id": event_id, "tenant_id": self.login.tenant_id,
            "device_id": self.login.device_id, "event_type": event_type, "ts": at.isoformat(), "payload": payload,
        }  # fmt: skip
        return event_id, int(at.timestamp()) * 1_000_000 + at.microsecond, json.dumps(message).encode()

    def _take(self, ack: Mapping[str, Any]) -> None:
        with self._answered:
            self._results |= {one["event_id"]: one["result"] for one in ack.get("events", [])}
            self._answered.notify_all()

    def _note(self, kind: str, event_id: str, event_type: str, at_us: int, **facts: object) -> None:
        self._write(
            {
                "type": kind,
                "device": self.login.device_id,
                "event_id": event_id,
                "event_type": event_type,
                "at_us": at_us,
            }
            | {name: value for name, value in facts.items() if value is not None}
        )

    def _write(self, line: Mapping[str, object]) -> None:
        self._ledger.write(json.dumps(line) + "\n")
        self._ledger.flush()


def jpeg(seed: int) -> bytes:
    """Small, and like no other."""
    image = Image.new("RGB", (96, 72), (seed * 37 % 256, seed * 91 % 256, 120))
    draw = ImageDraw.Draw(image)
    for number in range(6):
        left, top = (seed * 13 + number * 17) % 80, (seed * 7 + number * 11) % 60
        draw.ellipse((left, top, left + 14, top + 10), fill=(number * 40, seed * 53 % 256, 60))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=80)
    return buffer.getvalue()


def _http(method: str, url: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    request = urllib.request.Request(url, body, dict(headers), method=method)  # noqa: S310 - our own farm
    with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310 - our own farm
        return bytes(response.read())
