"""Ours, as the node-forwarder opens it."""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

from farmiq.spool import Channel, Limits, Spool
from stores import CHANNELS, PIECE_SAMPLES, Sample, Store

_BOOT = UUID(int=1)


class FarmiqSpool(Store):
    def __init__(self, folder: Path) -> None:
        self._spool = Spool(folder / "spool", Limits(max_spool_bytes=8 << 30))
        self._spool.begin(_BOOT, [Channel("temperature", "C", f"t{number}") for number in range(CHANNELS)])

    def append(self, group: list[Sample]) -> None:
        self._spool.append_many(group)

    def sync(self) -> None:
        self._spool.sync()

    def pieces(self) -> Iterator[int]:
        reader, after_seq = self._spool.reader(), 0
        while (run := reader.read(after_seq, PIECE_SAMPLES)) is not None:
            after_seq = run.frames[-1].seq
            yield len(run.frames)
