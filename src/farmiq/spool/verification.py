"""Reading every frame of a spool from outside, and saying what is wrong with it."""

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from farmiq.spool import losses, marks
from farmiq.spool.format import FRAME_BYTES, bad_frames
from farmiq.spool.inspection import SpoolView
from farmiq.spool.ranges import Range, merged, runs, without
from farmiq.spool.segment import open_files
from farmiq.spool.segment_view import SegmentView, chunks, listed

OnProgress = Callable[[int, int], None]  # bytes done, bytes in all


class Kind(enum.StrEnum):
    DAMAGED = "damaged"  # the frames are there and cannot be read
    MISSING = "missing"  # no segment holds them
    TORN_TAIL = "torn_tail"  # the last write of a dead process, never finished and never promised: normal


class Standing(enum.StrEnum):
    ACKNOWLEDGED = "acknowledged"  # the edge has them
    DECLARED = "declared"  # a loss record names them
    UNDECLARED = "undeclared"  # they were promised, and nothing says where they are
    UNPROMISED = "unpromised"  # nobody was told that they are kept


@dataclass(frozen=True, slots=True)
class Finding:
    kind: Kind
    segment: str | None  # the file's name; None for what is in no file
    first_seq: int
    last_seq: int
    standing: Standing
    detail: str = ""

    @property
    def count(self) -> int:
        return self.last_seq - self.first_seq + 1

    @property
    def is_breach(self) -> bool:
        """The spool's promise does not hold for these."""
        return self.standing is Standing.UNDECLARED


class _Reasons(NamedTuple):
    acked_seq: int
    declared: list[Range]


def verify(view: SpoolView, on_progress: OnProgress = lambda _done, _all: None) -> Iterator[Finding]:
    """In order of sequence, and what is missing last. Memory stays bounded: a segment is read by the megabyte."""
    yield from _joined(_findings(view, on_progress))


def _findings(view: SpoolView, on_progress: OnProgress) -> Iterator[Finding]:
    done, total = 0, sum(segment.samples for segment in view.segments) * FRAME_BYTES
    on_progress(done, total)
    for segment in view.segments:
        for count, found in _walked(view, segment):
            yield from found
            done += count * FRAME_BYTES
            on_progress(done, total)
        if segment.torn_bytes:
            yield _torn(segment)
    for span in view.missing:
        yield from _judged(_reasons(view), Finding(Kind.MISSING, None, *span, Standing.UNDECLARED))


def _walked(view: SpoolView, segment: SegmentView) -> Iterator[tuple[int, list[Finding]]]:
    """Number of frames looked at, and what was found in them, read by read."""
    file = segment.open()
    if file is None:
        is_news = segment.samples > 0 and not _was_deleted(segment)
        yield segment.samples, _judged(_reasons(view), _unreadable(segment)) if is_news else []
        return
    name = segment.path.name
    try:
        for seq, count in chunks((segment.first_seq, segment.last_seq)):
            bad = runs(bad_frames(file.read(seq, count), seq))
            reasons = _reasons(view) if bad else None
            found = [Finding(Kind.DAMAGED, name, seq + first, seq + last, Standing.UNDECLARED) for first, last in bad]
            yield count, [piece for finding in found for piece in _judged(reasons, finding)] if reasons else []
    finally:
        file.close()


def _was_deleted(segment: SegmentView) -> bool:
    """By its owner, who deletes from the oldest on and never without a reason. Other files that go leave older ones behind."""
    folder = segment.path.parent
    left = [first_seq for first_seq, _ in open_files(folder)] + [entry.first_seq for entry in listed(folder)]
    return not segment.path.exists() and bool(left) and min(left) > segment.last_seq


def _unreadable(segment: SegmentView) -> Finding:
    is_there = segment.path.exists()
    return Finding(
        Kind.DAMAGED if is_there else Kind.MISSING,
        segment.path.name,
        segment.first_seq,
        segment.last_seq,
        Standing.UNDECLARED,
        "neither copy of the header can be read" if is_there else "the file went while this was read",
    )


def _torn(segment: SegmentView) -> Finding:
    seq = segment.last_seq + 1
    detail = f"{segment.torn_bytes} bytes of a frame that was never finished"
    return Finding(Kind.TORN_TAIL, segment.path.name, seq, seq, Standing.UNPROMISED, detail)


def _reasons(view: SpoolView) -> _Reasons:
    """Read again at each finding: the forwarder may have found it too, and declared it, meanwhile."""
    declared = losses.read(view.folder / "losses")
    return _Reasons(marks.read(view.folder / "acked").seq, merged((loss.first_seq, loss.last_seq) for loss in declared))


def _judged(reasons: _Reasons, finding: Finding) -> list[Finding]:
    """The same, in pieces by what became of them."""
    span = (finding.first_seq, finding.last_seq)
    unacked = without(span, [(1, reasons.acked_seq)])
    undeclared = [piece for part in unacked for piece in without(part, reasons.declared)]
    declared = [piece for part in unacked for piece in without(part, undeclared)]
    pieces = [(piece, Standing.ACKNOWLEDGED) for piece in without(span, unacked)]
    pieces += [(piece, Standing.DECLARED) for piece in declared]
    pieces += [(piece, Standing.UNDECLARED) for piece in undeclared]
    return [replace(finding, first_seq=first, last_seq=last, standing=it) for (first, last), it in sorted(pieces)]


def _joined(findings: Iterator[Finding]) -> Iterator[Finding]:
    """A stretch that several reads found piece by piece is one."""
    waiting: Finding | None = None
    for finding in findings:
        if (
            waiting is not None
            and replace(waiting, last_seq=finding.last_seq) == replace(finding, first_seq=waiting.first_seq)
            and finding.first_seq == waiting.last_seq + 1
        ):
            waiting = replace(waiting, last_seq=finding.last_seq)
            continue
        if waiting is not None:
            yield waiting
        waiting = finding
    if waiting is not None:
        yield waiting
