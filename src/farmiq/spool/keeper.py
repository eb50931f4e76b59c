"""What may go: by the edge's acknowledgement, or by the cap and then with a loss record.

The order is always: the reason is on disk, then the file is unlinked, then the folder is synced. Whatever is missing
after a crash has its reason on disk already.
"""

from collections.abc import Iterable

from farmiq.spool import disk, quarantine, retention
from farmiq.spool.catalogue import Catalogue, Place
from farmiq.spool.errors import AckRefused
from farmiq.spool.losses import Cause, LossJournal
from farmiq.spool.marks import EPOCH_BYTES_MAX, Acked, AckMark
from farmiq.spool.ranges import Range, without
from farmiq.spool.recovery import lose_frames
from farmiq.spool.retention import Limits, Plan
from farmiq.spool.segment import Segment
from farmiq.spool.segment_file import SegmentFile


class Keeper:
    def __init__(self, catalogue: Catalogue, journal: LossJournal, ack: AckMark, limits: Limits) -> None:
        self.limits = limits
        self.ack = ack
        self._catalogue = catalogue
        self._journal = journal
        self._received: list[Range] = []

    def acknowledge(self, acked_seq: int, received: Iterable[Range], ceiling_seq: int) -> None:
        """Never goes back: an acknowledgement that was late on its way says nothing new."""
        self._received = _believable(ceiling_seq, acked_seq, received)
        if acked_seq > self.ack.current.seq:
            self.ack.current = Acked(acked_seq, self.ack.current.epoch)
        self._declare_not_kept()

    def go_back(self, acked_seq: int, epoch: str, received: Iterable[Range], ceiling_seq: int) -> None:
        """Another edge database answers and holds only this much: what it was never told is told again."""
        if len(epoch.encode()) > EPOCH_BYTES_MAX:
            raise AckRefused(f"the epoch is longer than {EPOCH_BYTES_MAX} bytes")
        self._received = _believable(ceiling_seq, acked_seq, received)
        self._journal.declare_again(acked_seq)
        self.ack.current = Acked(acked_seq, epoch)
        self._declare_not_kept()
        self.ack.save()

    def make_room(self, growth_bytes: int, *, is_disk_full: bool = False) -> Plan:
        """Delete until `growth_bytes` more fit under the cap; on a full disk, until as much has been freed."""
        used_bytes = self._catalogue.used_bytes()
        cap = used_bytes if is_disk_full else self.cap_bytes(used_bytes)
        over_bytes = used_bytes + growth_bytes - cap
        if over_bytes > 0:
            used_bytes -= quarantine.give_back(self._catalogue.folder, over_bytes)
        plan = retention.plan(
            self._catalogue.deletable, self.ack.current.seq, used_bytes + growth_bytes, self.limits, cap
        )
        if plan.acked or plan.lost:
            self._delete(plan)
        return plan

    def cap_bytes(self, used_bytes: int) -> int:
        return retention.cap_bytes(self.limits, used_bytes, disk.free_bytes(self._catalogue.folder))

    def lose_frames(self, file: SegmentFile, span: Range) -> None:
        lose_frames(self._catalogue.folder, file, span, self._journal)

    def lose_segment(self, place: Place, cause: Cause) -> None:
        """A closed segment that is gone, or that cannot be read at all."""
        span = (max(place.first_seq, self.ack.current.seq + 1), place.last_seq)
        gone = [segment for segment in self._catalogue.closed if segment.path == place.path]
        if span[0] <= span[1]:
            self._journal.declare(span, cause)
        if place.path.exists():
            quarantine.move(self._catalogue.folder, place.path)
        self._catalogue.removed(gone)

    def _delete(self, plan: Plan) -> None:
        self.ack.save()
        for segment in plan.lost:
            self._declare_dropped(segment)
        doomed = [*plan.acked, *plan.lost]
        for segment in doomed:
            segment.path.unlink(missing_ok=True)
        disk.sync_folder(self._catalogue.folder)
        self._catalogue.removed(doomed)
        self._journal.forget(self._catalogue.oldest_seq or 0)

    def _declare_dropped(self, segment: Segment) -> None:
        """Only what the edge has not said that it holds."""
        span = (max(segment.first_seq, self.ack.current.seq + 1), segment.last_seq)
        file = SegmentFile.open(segment.path, segment.first_seq) if segment.path.exists() else None
        try:
            for piece in without(span, self._received):
                self._journal.declare(piece, Cause.CAP_REACHED, _wall_us_of(file, piece))
        finally:
            if file is not None:
                file.close()

    def _declare_not_kept(self) -> None:
        """What the edge lacks and this folder no longer holds can only be named. Whatever the cause, no hole is silent."""
        oldest_seq = self._catalogue.oldest_seq
        if oldest_seq is None or oldest_seq <= self.ack.current.seq + 1:
            return
        for piece in without((self.ack.current.seq + 1, oldest_seq - 1), self._received):
            self._journal.declare(piece, Cause.NOT_KEPT)


def _believable(ceiling_seq: int, acked_seq: int, received: Iterable[Range]) -> list[Range]:
    """What is received is dropped without a loss record when the cap is reached, so it is held to the same ceiling."""
    ranges = list(received)
    highest_seq = max([acked_seq, *(last for _, last in ranges)])
    if highest_seq > ceiling_seq:
        raise AckRefused(f"acknowledged up to {highest_seq}, written only up to {ceiling_seq}")
    return ranges


def _wall_us_of(file: SegmentFile | None, span: Range) -> Range | None:
    first, last = (file.frame_at(span[0]), file.frame_at(span[1])) if file else (None, None)
    return (first.wall_us, last.wall_us) if first and last else None
