"""What a start does about the segment that was being written when the last process ended.

Only open segments are read. A torn tail is cut off and writing goes on at the logical end. Damage before that is declared
lost, its bytes go to the quarantine, and the rest stays readable. Every step may be interrupted and done again.
"""

import itertools
from dataclasses import dataclass, field
from pathlib import Path

from farmiq.spool import disk, quarantine
from farmiq.spool.format import Header
from farmiq.spool.losses import Cause, Loss, LossJournal
from farmiq.spool.ranges import Range
from farmiq.spool.segment import OpenSegment, Segment, closed_segments, open_files
from farmiq.spool.segment_file import Examined, SegmentFile, examine


@dataclass(slots=True)
class Recovery:
    """What was found and done at the start, for the log."""

    frames: int = 0
    torn_bytes: int = 0
    lost: list[Loss] = field(default_factory=list)


@dataclass(slots=True)
class Found:
    closed: list[Segment]
    open: OpenSegment | None
    report: Recovery


def recover(folder: Path, journal: LossJournal, synced_seq: int) -> Found:
    for draft in folder.glob("*.tmp"):
        draft.unlink()
    # A killed process may have left names that only memory holds, and a segment that goes on under one would go with it.
    disk.sync_folder(folder)
    found = Found(closed_segments(folder), None, Recovery())
    files = open_files(folder)
    for (first_seq, path), following in itertools.zip_longest(files, files[1:]):
        examined = examine(path, first_seq)
        if examined.header is None:
            last_seq = max(synced_seq, first_seq + examined.frames - 1)
            last_seq = min(last_seq, following[0] - 1) if following else last_seq
            _give_up(folder, path, (first_seq, last_seq), journal, found.report)
            continue
        # What a segment that the disk refused has behind its end took the sequences of the next one, which are stored there.
        frames = min(examined.frames, following[0] - first_seq) if following else examined.frames
        damaged = [
            (first, min(last, first_seq + frames - 1)) for first, last in examined.damaged if first < first_seq + frames
        ]
        for span in damaged:
            _set_aside(folder, path, first_seq, span, journal, found.report)
        segment, is_stored = _resume(path, *examined.header, frames, synced_seq, journal, found.report)
        _report(found.report, segment, examined)
        if following is None and is_stored and not damaged:
            found.open = segment
        else:
            _close(folder, segment, found)
    found.closed.sort(key=lambda segment: segment.first_seq)
    return found


def _set_aside(folder: Path, path: Path, first_seq: int, span: Range, journal: LossJournal, report: Recovery) -> None:
    file = SegmentFile.open(path, first_seq)
    if file is None:
        return
    try:
        fresh = lose_frames(folder, file, span, journal)
    finally:
        file.close()
    report.lost += fresh


def lose_frames(folder: Path, file: SegmentFile, span: Range, journal: LossJournal) -> list[Loss]:
    """Declare frames that cannot be read and keep their bytes; nothing when that was done before."""
    fresh = journal.declare(span, Cause.DAMAGED, file.wall_us_around(span))
    if fresh:
        quarantine.keep(folder, f"{span[0]:020d}-{span[1]:020d}.frames", file.read(span[0], span[1] - span[0] + 1))
    return fresh


def _resume(
    path: Path, header: Header, region_bytes: int, frames: int, synced_seq: int, journal: LossJournal, report: Recovery
) -> tuple[OpenSegment, bool]:
    """The segment, cut at its logical end, and whether the disk took that."""
    segment = OpenSegment.reopen(path, header, region_bytes, frames)
    try:
        segment.cut()
    except OSError:
        # The disk will not store what memory still shows, so only what an earlier sync covered is believed.
        kept = max(0, min(frames, synced_seq - header.first_seq + 1))
        if kept < frames:
            span = (header.first_seq + kept, header.first_seq + frames - 1)
            report.lost += journal.declare(span, Cause.SYNC_FAILED)
        segment.give_up_after(kept)
        return segment, False
    return segment, True


def _close(folder: Path, segment: OpenSegment, found: Found) -> None:
    if segment.frames:
        found.closed.append(segment.seal())
    else:
        segment.discard()
    disk.sync_folder(folder)


def _give_up(folder: Path, path: Path, span: Range, journal: LossJournal, report: Recovery) -> None:
    """Neither copy of the header can be read. A file without a frame is one whose making was interrupted."""
    if span[1] < span[0]:
        path.unlink()
        disk.sync_folder(folder)
        return
    report.lost += journal.declare(span, Cause.DAMAGED)
    quarantine.move(folder, path)


def _report(report: Recovery, segment: OpenSegment, examined: Examined) -> None:
    report.frames += segment.frames
    report.torn_bytes += examined.torn_bytes
