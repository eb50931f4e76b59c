"""How much of what was measured in the last 24 hours is stored in the cloud, and where the rest is. Pure."""

from typing import Final

from msgspec import Struct

from farmiq.console.overview.figures import Day, Fleet, Summary

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
    on_the_way: int = 0
    """At the edge, and so young that they are expected in the cloud at any moment. Not in `measured`."""

    @property
    def measured(self) -> int:
        return self.stored + self.at_edge + self.on_devices + self.lost + self.unexplained

    @property
    def percent(self) -> float | None:
        """None when nothing was measured."""
        return 100 * self.stored / self.measured if self.measured else None


def completeness(
    day: Day,
    fleet: Fleet | None,
    *,
    outbox_oldest_seconds: float | None,
    samples_per_second: float | None,
    is_link_up: bool = True,
) -> Completeness | None:
    """None when one of the two tiers was not asked: half an answer would look like a whole one."""
    if day.edge is None or day.cloud is None:
        return None
    behind = behind_edge(day.edge, day.cloud)
    is_late = (outbox_oldest_seconds or 0.0) >= GRACE_SECONDS or not is_link_up
    on_its_way = (samples_per_second or 0.0) * GRACE_SECONDS
    at_edge = behind if is_late or behind > on_its_way else 0
    held = fleet.unacked_samples if fleet and fleet.oldest_seconds >= GRACE_SECONDS else 0
    on_devices = max(held, min(day.edge.missing, fleet.unacked_samples if fleet else 0))
    lost = max(day.edge.lost.samples, day.cloud.lost.samples)
    return Completeness(
        day.cloud.stored,
        at_edge,
        on_devices,
        lost,
        unexplained=max(0, day.edge.missing - on_devices),
        on_the_way=behind - at_edge,
    )


def behind_edge(edge: Summary, cloud: Summary) -> int:
    """Device by device: the cloud has those of the tenant's other edges too, and what one has more makes up for no other."""
    if not edge.by_device:
        return max(0, edge.stored - cloud.stored)
    return sum(max(0, stored - cloud.by_device.get(device_id, 0)) for device_id, stored in edge.by_device.items())
