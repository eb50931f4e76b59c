"""Reading: in capture order, across closed segments and the open one, never past what a sync has covered.

A reader may run on another thread than the writer. Frames that turn out to be unreadable are declared lost here, once,
and passed over, so that a damaged segment never stops what comes after it.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

from farmiq.spool.catalogue import Catalogue, Place
from farmiq.spool.format import FRAME_BYTES, Frame, Header, bad_frames, unpack_frames
from farmiq.spool.keeper import Keeper
from farmiq.spool.losses import Cause
from farmiq.spool.segment_file import SegmentFile
from farmiq.spool.streams import Streams


@dataclass(frozen=True, slots=True)
class Run:
    """Frames with no gap between them, all of one segment and one stream: one boot, one channel table.

    The header names the stream that the frames are in now. A frame's sequence less `offset` is its number there."""

    header: Header
    frames: list[Frame]
    offset: int = 0


class Reader:
    def __init__(self, catalogue: Catalogue, keeper: Keeper, streams: Streams) -> None:
        self._catalogue = catalogue
        self._streams = streams
        self._keeper = keeper
        self._file: SegmentFile | None = None

    def read(self, after_seq: int, limit: int) -> Run | None:
        """The next readable frames above `after_seq`, at most `limit`; None when there are none yet."""
        while (place := self._catalogue.locate(after_seq)) is not None:
            file = self._file_of(place)
            if file is None:
                if place.is_open:
                    return None
                continue
            start = max(after_seq + 1, place.first_seq)
            data = file.read(start, min(limit, place.last_seq - start + 1))
            bad = bad_frames(data, start)
            good = data[: bad[0] * FRAME_BYTES] if bad else data
            if good:
                frames = unpack_frames(good)
                part, (_, last_seq) = self._streams.layout.split((start, frames[-1].seq))[0]
                header = file.header
                if header.stream_id != part.stream_id:
                    header = replace(header, stream_id=part.stream_id)
                return Run(header, frames[: last_seq - start + 1], part.offset)
            span = file.damage_from(start, place.last_seq)
            self._keeper.lose_frames(file, span)
            after_seq = span[1]
        return None

    def frames(self, after_seq: int = 0, limit: int = 1000) -> Iterator[Frame]:
        """Every readable frame above `after_seq`, to the synced end."""
        while (run := self.read(after_seq, limit)) is not None:
            yield from run.frames
            after_seq = run.frames[-1].seq

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _file_of(self, place: Place) -> SegmentFile | None:
        """None when the place is not what it was. A closed segment that is gone for good is declared and left out."""
        if self._file is not None and self._file.first_seq == place.first_seq:
            return self._file
        self.close()
        try:
            self._file = self._open(place)
        except FileNotFoundError:
            if not place.is_open and self._catalogue.locate(place.last_seq - 1) == place:
                self._keeper.lose_segment(place, Cause.MISSING)
            return None
        if self._file is None:
            self._keeper.lose_segment(place, Cause.DAMAGED)
        return self._file

    def _open(self, place: Place) -> SegmentFile | None:
        segment = self._catalogue.open
        if not place.is_open or segment is None or segment.first_seq != place.first_seq:
            return SegmentFile.open(place.path, place.first_seq)
        return SegmentFile(os.open(place.path, os.O_RDONLY | os.O_CLOEXEC), segment.header, segment.region_bytes)
