"""One stream: whose it is, and which of its sequences are here."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import msgspec

from farmiq.contracts.telemetry import Channel
from farmiq.timeseries.coverage import Span, normalise, without

StreamKey = tuple[str, UUID]
"""Tenant and stream: a stream id that another tenant uses as well is another stream."""


class Origin(msgspec.Struct, frozen=True, order=True):
    """Where a measurement comes from, as its credential and topic say, never as its body says."""

    tenant_id: str
    farm_id: str
    barn_id: str
    device_id: str

    def is_same_device(self, other: "Origin") -> bool:
        """Wherever it stands now: a node that was carried to another barn goes on with its stream."""
        return (self.tenant_id, self.device_id) == (other.tenant_id, other.device_id)


class StreamLimit(msgspec.Struct, frozen=True):
    """How many streams a device, and all devices of a tenant together, may open within a time. Older ones do not count."""

    of_device: int
    of_tenant: int
    window: timedelta


class Coverage(msgspec.Struct):
    """One stream's row, locked."""

    origin: Origin
    received: list[Span]
    lost: list[Span]
    boot_id: UUID | None = None
    channels: list[Channel] | None = None

    def add(self, spans: Sequence[Span]) -> None:
        # A sample that turns up after it was declared lost is simply here.
        self.received = normalise([*self.received, *spans])
        self.lost = without(self.lost, self.received)

    def filled(self) -> list[Span]:
        return normalise([*self.received, *self.lost])
