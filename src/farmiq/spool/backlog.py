"""What is held here and the edge has not acknowledged: how much, and how old. Asked for every second, so it costs little."""

import os

from farmiq.spool.catalogue import Catalogue, Place
from farmiq.spool.format import Header
from farmiq.spool.keeper import Keeper
from farmiq.spool.losses import LossJournal
from farmiq.spool.ranges import Range, merged, without
from farmiq.spool.segment_file import SegmentFile


class Backlog:
    def __init__(self, catalogue: Catalogue, keeper: Keeper, journal: LossJournal) -> None:
        self._catalogue = catalogue
        self._keeper = keeper
        self._journal = journal
        self._header: tuple[Header, int] | None = None
        self._oldest: tuple[int, int | None] = (0, None)

    def ranges(self) -> list[Range]:
        """Synced, not with the edge as far as that is known, and not declared lost."""
        settled = [*self._keeper.with_the_edge, *self._journal.ranges()]
        held = merged(self._catalogue.held(self._keeper.ack.current.seq))
        return [piece for span in held for piece in without(span, settled)]

    def oldest_wall_us(self, ranges: list[Range]) -> int | None:
        """When the first sample of `ranges` was captured; None when there is none, or when it cannot be read."""
        if not ranges:
            return None
        seq = ranges[0][0]
        if self._oldest[0] != seq or self._oldest[1] is None:
            place = self._catalogue.locate(seq - 1)
            self._oldest = (seq, self._wall_us(place, seq) if place else None)
        return self._oldest[1]

    def _wall_us(self, place: Place, seq: int) -> int | None:
        """The file is not kept open: it may be deleted at any time, and its space has to come free then."""
        try:
            file = self._open(place)
        except FileNotFoundError:
            return None
        if file is None:
            return None
        try:
            frame = file.frame_at(seq)
        finally:
            file.close()
        return frame.wall_us if frame else None

    def _open(self, place: Place) -> SegmentFile | None:
        if self._header is not None and self._header[0].first_seq == place.first_seq:
            return SegmentFile(os.open(place.path, os.O_RDONLY | os.O_CLOEXEC), *self._header)
        file = SegmentFile.open(place.path, place.first_seq)
        self._header = (file.header, file.region_bytes) if file else None
        return file
