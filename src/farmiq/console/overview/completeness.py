"""How much of what was measured in the last 24 hours is stored in the cloud, and where the rest is. Pure."""

from typing import Final

from msgspec import Struct

from farmiq.console.overview.figures import Day, Fleet

GRACE_SECONDS: Final = 30.0
"""What is younger is on its way, and is not called missing: there is always something on its way."""


class Completeness(Struct, frozen=True):
    """Samples. Together they are all that was measured, as far as anybody was told."""

    stored: int
    at_edge: int = 0
    on_devices: int = 0
    lost: int = 0
    unexplained: int = 0
    """Missing at the edge, and no device has said that it holds them."""

    @property
    def measured(self) -> int:
        return self.stored + self.at_edge + self.on_devices + self.lost + self.unexplained

    @property
    def percent(self) -> float | None:
        """None when nothing was measured."""
        return 100 * self.stored / self.measured if self.measured else None


def completeness(
    day: Day, fleet: Fleet | None, *, outbox_oldest_seconds: float | None, samples_per_second: float | None
) -> Completeness | None:
    """None when one of the two tiers was not asked: half an answer would look like a whole one."""
    if day.edge is None or day.cloud is None:
        return None
    behind = max(0, day.edge.stored - day.cloud.stored)
    is_late = (outbox_oldest_seconds or 0.0) >= GRACE_SECONDS
    on_its_way = (samples_per_second or 0.0) * GRACE_SECONDS
    at_edge = behind if is_late or behind > on_its_way else 0
    held = fleet.unacked_samples if fleet and fleet.oldest_seconds >= GRACE_SECONDS else 0
    on_devices = max(held, min(day.edge.missing, fleet.unacked_samples if fleet else 0))
    lost = max(day.edge.lost.samples, day.cloud.lost.samples)
    return Completeness(day.cloud.stored, at_edge, on_devices, lost, unexplained=max(0, day.edge.missing - on_devices))
