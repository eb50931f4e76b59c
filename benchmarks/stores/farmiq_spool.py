"""Ours, as the node-forwarder opens it."""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

from farmiq.spool import Channel, Limits, Run, Spool
from stores import CHANNELS, PIECE_SAMPLES, Reading, Sample, Store

SHORT_SEGMENT_BYTES = 16 << 10  # 400 samples

_BOOT = UUID(int=1)


class FarmiqSpool(Store):
    def __init__(self, folder: Path, limits: Limits | None = None) -> None:
        self._spool = Spool(folder / "spool", limits or Limits(max_spool_bytes=8 << 30))
        self._spool.begin(_BOOT, [Channel("temperature", "C", f"t{number}") for number in range(CHANNELS)])

    def append(self, group: list[Sample]) -> None:
        self._spool.append_many(group)

    def sync(self) -> None:
        self._spool.sync()

    def pieces(self) -> Iterator[int]:
        for run in self._runs():
            yield len(run.frames)

    def readings(self) -> Iterator[Reading]:
        for run in self._runs():
            for frame in run.frames:
                yield frame.wall_us // 1000, frame.channel, frame.value

    def _runs(self) -> Iterator[Run]:
        reader, after_seq = self._spool.reader(), 0
        while (run := reader.read(after_seq, PIECE_SAMPLES)) is not None:
            after_seq = run.frames[-1].seq
            yield run


def short_segments(folder: Path) -> FarmiqSpool:
    """Segments as small as they can be, so that some are closed, renamed and begun in a few seconds."""
    return FarmiqSpool(folder, Limits(max_spool_bytes=8 << 30, segment_bytes=SHORT_SEGMENT_BYTES))
