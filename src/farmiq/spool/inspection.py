"""Looking at a spool without owning it: no lock is taken and no byte is changed, also while a forwarder writes.

What is read in which order matters, because a segment may be closed, renamed or deleted at any time. First the synced mark,
so that every frame up to it is in some file. Then open segments, then closed ones. Last the acknowledgement and the
losses: whatever had gone by then has its reason on disk already.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

from farmiq.spool import losses, marks, streams
from farmiq.spool.errors import NotASpool
from farmiq.spool.format import FRAME_BYTES, bad_frames, unpack_frames
from farmiq.spool.lock_holder import holder_pid
from farmiq.spool.losses import Loss
from farmiq.spool.marks import Acked
from farmiq.spool.ranges import Range, merged, runs, without
from farmiq.spool.reader import Run
from farmiq.spool.segment import open_files
from farmiq.spool.segment_file import SegmentFile
from farmiq.spool.segment_view import SegmentView, chunks, listed, views
from farmiq.spool.streams import Layout, Part

_FILES = ("stream", "synced", "acked", "losses")


@dataclass(frozen=True, slots=True)
class QuarantinedFile:
    path: Path
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SpoolView:
    """A spool as it was a moment ago."""

    folder: Path
    stream_id: UUID | None  # of what is written now. None: no file tells it any more
    writer_pid: int | None
    synced_seq: int
    acked: Acked
    segments: tuple[SegmentView, ...]
    losses: tuple[Loss, ...]
    quarantined: tuple[QuarantinedFile, ...]
    layout: Layout | None = None  # None: no file tells it any more

    @property
    def held(self) -> list[Range]:
        return merged((segment.first_seq, segment.last_seq) for segment in self.segments if segment.samples > 0)

    @property
    def settled(self) -> list[Range]:
        """With the edge, or declared lost: nobody waits for these."""
        return merged([(1, self.acked.seq), *((loss.first_seq, loss.last_seq) for loss in self.losses)])

    @property
    def unacked(self) -> list[Range]:
        return [piece for span in self.held for piece in without(span, self.settled)]

    @property
    def missing(self) -> list[Range]:
        """What no segment holds, for whatever reason. Deleting goes from the oldest on, so it is asked only behind that."""
        held = self.held
        begin_seq = held[0][0] if held else self.acked.seq + 1
        end_seq = max([self.synced_seq, *(last for _, last in held)])
        return without((begin_seq, end_seq), held)

    @property
    def gaps(self) -> list[Range]:
        """What is missing although the edge has not acknowledged it, and no loss record explains."""
        return [piece for span in self.missing for piece in without(span, self.settled)]


def inspect(folder: Path) -> SpoolView:
    _refuse_foreign(folder)
    writer_pid = holder_pid(folder)
    synced_seq = marks.read(folder / "synced").seq
    lost = [(loss.first_seq, loss.last_seq) for loss in losses.read(folder / "losses")]
    segments = views(folder, synced_seq, lost, is_written=writer_pid is not None)
    return SpoolView(
        folder,
        _stream_id(folder, segments),
        writer_pid,
        synced_seq,
        marks.read(folder / "acked"),
        tuple(segments),
        tuple(losses.read(folder / "losses")),
        tuple(_quarantined(folder / "quarantine")),
        streams.read(folder),
    )


def read(view: SpoolView, span: Range, on_unreadable: Callable[[Range], None]) -> Iterator[Run]:
    """The frames of `span` that are held, in order. Those that cannot be read, or are gone by now, are told and left out."""
    for segment in view.segments:
        first_seq, last_seq = max(span[0], segment.first_seq), min(span[1], segment.last_seq)
        if first_seq > last_seq:
            continue
        file = segment.open()
        if file is None:
            on_unreadable((first_seq, last_seq))
            continue
        try:
            for part, span_of_part in _parts(view, file, (first_seq, last_seq)):
                for run in _readable(file, span_of_part, on_unreadable):
                    yield replace(run, header=replace(run.header, stream_id=part.stream_id), offset=part.offset)
        finally:
            file.close()


def _parts(view: SpoolView, file: SegmentFile, span: Range) -> list[tuple[Part, Range]]:
    return view.layout.split(span) if view.layout else [(Part(1, file.header.stream_id), span)]


def _readable(file: SegmentFile, span: Range, on_unreadable: Callable[[Range], None]) -> Iterator[Run]:
    for seq, count in chunks(span):
        data = file.read(seq, count)
        bad = runs(bad_frames(data, seq))
        for first, last in bad:
            on_unreadable((seq + first, seq + last))
        for first, last in without((0, count - 1), bad):
            yield Run(file.header, unpack_frames(data[first * FRAME_BYTES : (last + 1) * FRAME_BYTES]))


def _refuse_foreign(folder: Path) -> None:
    if not folder.is_dir():
        raise NotASpool(f"{folder} is not a folder" if folder.exists() else f"{folder} does not exist")
    if not any((folder / name).exists() for name in _FILES) and not open_files(folder) and not listed(folder):
        raise NotASpool(f"there is no spool in {folder}")


def _stream_id(folder: Path, segments: Iterable[SegmentView]) -> UUID | None:
    layout = streams.read(folder)
    if layout is not None:
        return layout.parts[-1].stream_id
    headers = [segment.header for segment in segments if segment.header is not None]
    return headers[-1].stream_id if headers else None


def _quarantined(folder: Path) -> Iterator[QuarantinedFile]:
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        try:
            yield QuarantinedFile(path, path.stat().st_size)
        except FileNotFoundError:
            continue  # given back to make room
