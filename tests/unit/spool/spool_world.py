"""Small spools with samples that say where they came from."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

from farmiq.spool import Channel, Frame, Limits, Spool, SyncPolicy

BOOT = UUID(int=1)
OTHER_BOOT = UUID(int=2)
CHANNELS = (Channel("temperature", "C", "t1"), Channel("humidity", "%", "h1"))
START_US = 1_735_725_600_000_000

SampleFields = tuple[int, int, int, int, float]


def samples(count: int, start: int = 1) -> list[SampleFields]:
    """Sample `i` has the value `i`, and becomes sequence `i` when nothing else is written."""
    return [(START_US + i * 1000, i * 1000, i % 2, 2, float(i)) for i in range(start, start + count)]


def small(**changes: Any) -> Limits:
    """89 frames to a segment, behind a header region of 512 bytes."""
    limits = {"segment_bytes": 4096, "grow_bytes": 4096, "max_spool_bytes": 1 << 20, "keep_acked_bytes": 1 << 20}
    return Limits(**{**limits, **changes})


def open_spool(
    folder: Path,
    limits: Limits | None = None,
    policy: SyncPolicy = SyncPolicy.GROUP,
    boot: UUID = BOOT,
    monotonic: Callable[[], float] = lambda: 0.0,
) -> Spool:
    spool = Spool(folder, limits or small(), policy, wall_us=lambda: START_US, monotonic=monotonic)
    spool.begin(boot, CHANNELS)
    return spool


def kept(spool: Spool, limit: int = 7) -> dict[int, Frame]:
    """What can be read, by sequence. In order, or this fails."""
    reader = spool.reader()
    frames = list(reader.frames(limit=limit))
    reader.close()
    assert [frame.seq for frame in frames] == sorted({frame.seq for frame in frames})
    return {frame.seq: frame for frame in frames}


def lost(spool: Spool) -> set[int]:
    return {seq for first, last in spool.losses.ranges() for seq in range(first, last + 1)}


def values(spool: Spool) -> list[float]:
    return [frame.value for frame in kept(spool).values()]


def segment_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix in (".seg", ".open"))
