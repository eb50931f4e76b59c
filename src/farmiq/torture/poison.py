"""Messages that can never be good, from a device that is trusted. Some can be answered for by their id, some have none."""

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

import msgspec

from farmiq.contracts import event_types
from farmiq.contracts.timestamps import from_us
from farmiq.torture.telling import Login


def envelope(login: Login, event_id: UUID, event_type: str, at_us: int, payload: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "schema_version": "1.0",
        "event_id": str(event_id),
        "tenant_id": login.tenant_id,
        "device_id": login.device_id,
        "event_type": event_type,
        "ts": from_us(at_us).isoformat(),
        "payload": payload,
    }


def readable(at_us: int) -> Iterator[Mapping[str, Any]]:
    """What is wrong with a reading whose id can still be read. Each is to be laid over a good envelope."""
    yield {"tenant_id": "somebody-else"}
    yield {"device_id": "another-device"}
    yield {"event_type": "telemetry.unheard"}
    yield {"schema_version": "99.0"}
    yield {"payload": {"value": "warm", "unit": "C"}}
    yield {"payload": {"unit": "C"}}
    yield {"ts": "yesterday"}
    yield {"event_type": event_types.TELEMETRY_BATCH, "payload": {"value": 1.0, "unit": str(at_us)}}


def unreadable(good: Mapping[str, Any]) -> Iterator[bytes]:
    text = msgspec.json.encode(good)
    yield text[: len(text) // 2]
    yield b"\xff\xfe" + text
    yield b"[" * 10_000
    yield b""
    yield text.replace(b'"value":1.0', b'"value":NaN')
    yield b" " * 200_000 + b"{"
