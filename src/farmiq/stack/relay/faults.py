"""What can be wrong with a route. The names are those of Toxiproxy; the figures are in seconds and bytes.

Upstream is from whoever connected towards the server, downstream is the way back."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

Seconds = Annotated[float, Meta(ge=0, le=86_400)]
Size = Annotated[int, Meta(ge=1, le=1 << 40)]
SizeOrNone = Annotated[int, Meta(ge=0, le=1 << 40)]


class Latency(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every byte comes this much later, give or take the jitter. Order is kept, and so is the rate."""

    seconds: Seconds
    jitter_seconds: Seconds = 0.0


class Bandwidth(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    bytes_per_second: Size


class Timeout(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Half-open: bytes vanish, and so does the end of the connection. After `seconds` it is closed; 0 means never."""

    seconds: Seconds = 0.0


class ResetPeer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Both ends are reset after `seconds`."""

    seconds: Seconds = 0.0


class Slicer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bytes come in small pieces, with a pause after each."""

    average_bytes: Size
    variation_bytes: SizeOrNone = 0
    delay_seconds: Seconds = 0.0


class SlowClose(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The end of a connection arrives this much later than its last byte."""

    seconds: Seconds


class LimitData(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The connection is closed when so many bytes have passed."""

    bytes: Size


class Faults(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Of one direction. Several may hold at once."""

    latency: Latency | None = None
    bandwidth: Bandwidth | None = None
    timeout: Timeout | None = None
    reset_peer: ResetPeer | None = None
    slicer: Slicer | None = None
    slow_close: SlowClose | None = None
    limit_data: LimitData | None = None


NO_FAULTS = Faults()


class RouteFaults(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """`down`: whoever is connected is reset, and nobody is let in. `since` is when it was told."""

    down: bool = False
    upstream: Faults = NO_FAULTS
    downstream: Faults = NO_FAULTS
    since: datetime | None = None

    @property
    def is_healthy(self) -> bool:
        return not self.down and self.upstream == NO_FAULTS and self.downstream == NO_FAULTS

    @property
    def names(self) -> list[str]:
        """Of everything that is wrong, each once."""
        directions = (self.upstream, self.downstream)
        found = [name for name in Faults.__struct_fields__ if any(getattr(one, name) is not None for one in directions)]
        return ["down", *found] if self.down else found


HEALTHY = RouteFaults()


def both_ways(faults: Faults) -> RouteFaults:
    return RouteFaults(upstream=faults, downstream=faults)
