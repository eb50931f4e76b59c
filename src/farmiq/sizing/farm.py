"""A farm as far as its size goes."""

from math import ceil, inf
from typing import Final

from msgspec import Struct

DAY_SECONDS: Final = 86_400
HOUR_SECONDS: Final = 3_600
BATCH_SECONDS: Final = 0.2
"""NODE_FORWARDER_BATCH_MS: how long live samples wait for others."""
BATCH_SAMPLES_MAX: Final = 500
"""NODE_FORWARDER_BATCH_SAMPLES."""


class BadFarm(ValueError):
    """There is no such farm: a number is negative, or something is measured less than once in a year."""


class Kept(Struct, frozen=True, kw_only=True):
    """How long the edge keeps things, in days: the defaults of its settings."""

    raw_days: float = 90
    """TELEMETRY_RAW_RETENTION_DAYS. Whole months go, so that a sample stays up to 31 days longer."""
    aggregate_days: float = 365
    """TELEMETRY_AGG_RETENTION_DAYS."""
    outbox_days: float = 30
    """OUTBOX_RETENTION_DAYS, from the acknowledgement on."""
    picture_days: float = 90
    """MEDIA_RETENTION_DAYS."""
    dedupe_days: float = 3
    """INGRESS_DEDUPE_TTL_HOURS."""


class Farm(Struct, frozen=True, kw_only=True):
    nodes: int = 1
    channels: int = 10
    """Of one node. They are read together."""
    interval_seconds: float = 1.0
    stations: int = 0
    pictures_per_day: float = 0.0
    """Of one station."""
    picture_bytes: int = 0
    outage_seconds: float = 48 * HOUR_SECONDS
    """That the node survives without the edge, and the edge without the cloud."""
    catch_up_seconds: float = 4 * HOUR_SECONDS
    """In which the edge has sent to the cloud what waited."""
    kept: Kept = Kept()

    def __post_init__(self) -> None:
        counts = (self.nodes, self.channels, self.stations, self.pictures_per_day, self.picture_bytes)
        if any(not 0 <= number < inf for number in (*counts, self.outage_seconds)):
            raise BadFarm("numbers of things, and an outage, are 0 or more")
        if not 0.001 <= self.interval_seconds <= 365 * DAY_SECONDS:
            raise BadFarm("a channel is read every 0.001 seconds to every 365 days")
        if not 1 <= self.catch_up_seconds < inf:
            raise BadFarm("catching up takes 1 second or more")

    @property
    def samples_per_second(self) -> float:
        """Of one node."""
        return self.channels / self.interval_seconds

    @property
    def batch_samples(self) -> float:
        """In one live message of a node: what its channels give in 200 ms, at least one reading of each."""
        together = self.channels * max(1.0, BATCH_SECONDS / self.interval_seconds)
        return together / max(1, ceil(together / BATCH_SAMPLES_MAX))

    @property
    def batches_per_second(self) -> float:
        """Of all nodes."""
        return self.nodes * self.samples_per_second / self.batch_samples if self.channels else 0.0

    @property
    def all_samples_per_second(self) -> float:
        return self.nodes * self.samples_per_second

    @property
    def all_pictures_per_second(self) -> float:
        return self.stations * self.pictures_per_day / DAY_SECONDS
