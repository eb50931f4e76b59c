"""Events that have no owner at the edge and go to the cloud as they are: an integrator's own, and pictures outside sessions."""

import re
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec

from farmiq import outbox
from farmiq.contracts import event_types
from farmiq.contracts.decoding import MalformedMessage, parse, refuse_size
from farmiq.contracts.envelope import MqttEnvelope
from farmiq.contracts.weighvision import ImageCaptured
from farmiq.timeseries.stream import Origin

PAYLOAD_BYTES_MAX: Final = 64 * 1024
WRITTEN_BYTES_MAX: Final = 128 * 1024
"""PostgreSQL writes numbers out: nine bytes of `1e131071` become 131,072, and one message the death of whoever reads it."""

PRIORITY: Final = 10

_STRINGS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')
_EXPONENTS: Final = re.compile(rb"[eE][+-]?([0-9]+)")
_EXPONENT_DIGITS_MAX: Final = 6


class IntegratorEvent(msgspec.Struct, frozen=True):
    """`at` is the device's clock."""

    event_type: str
    at: datetime
    payload: msgspec.Raw


class LoneCapture(msgspec.Struct, frozen=True):
    """A picture outside any session."""

    at: datetime
    payload: ImageCaptured

    @property
    def event_type(self) -> str:
        return event_types.IMAGE_CAPTURED


def integrator_event(envelope: MqttEnvelope) -> IntegratorEvent:
    if event_types.is_reserved(envelope.event_type):
        raise MalformedMessage("reserved_event_type", f"{envelope.event_type} does not belong on the event topic")
    payload = bytes(envelope.payload)
    refuse_size(payload, PAYLOAD_BYTES_MAX)
    # Nobody here knows its fields, but it must be JSON that can be stored and read again.
    parse(dict[str, Any], payload)
    _refuse_written_size(payload)
    return IntegratorEvent(envelope.event_type, envelope.ts, msgspec.Raw(payload))


def forwarded(origin: Origin, event_id: UUID, trace_id: str, event: IntegratorEvent | LoneCapture) -> outbox.Event:
    return outbox.Event(
        id=event_id,
        tenant_id=origin.tenant_id,
        farm_id=origin.farm_id,
        barn_id=origin.barn_id,
        device_id=origin.device_id,
        event_type=event.event_type,
        occurred_at=event.at,
        trace_id=trace_id,
        payload=event.payload,
        priority=PRIORITY,
    )


def _refuse_written_size(payload: bytes) -> None:
    written = len(payload)
    for digits in _EXPONENTS.findall(_STRINGS.sub(b"", payload)):
        significant = digits.lstrip(b"0")
        written += int(significant or b"0") if len(significant) <= _EXPONENT_DIGITS_MAX else WRITTEN_BYTES_MAX
    if written > WRITTEN_BYTES_MAX:
        raise MalformedMessage("too_large", f"its numbers written out take more than {WRITTEN_BYTES_MAX} bytes")
