"""What may go: by the edge's acknowledgement, or by the caps of size and age and then with a loss record.

The order is always: the reason is on disk, then the file is unlinked, then the folder is synced. Whatever is missing
after a crash has its reason on disk already.
"""

from collections.abc import Iterable

from farmiq.spool import disk, quarantine, retention
from farmiq.spool.ages import Ages
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
    def __init__(self, catalogue: Catalogue, journal: LossJournal, ack: AckMark, limits: Limits, ages: Ages) -> None:
        self.limits = limits
        self.ack = ack
        self._catalogue = catalogue
        self._journal = journal
        self._ages = ages
        self._received: list[Range] = []

    @property
    def with_the_edge(self) -> list[Range]:
        """What the edge has said that it holds, in order or ahead of it."""
        return [(1, self.ack.current.seq), *self._received]

    @property
    def received(self) -> list[Range]:
        return self._received

    def acknowledge(self, acked_seq: int, received: Iterable[Range], ceiling_seq: int) -> None:
        """Never goes back: an acknowledgement that was late on its way says nothing new."""
        self._received = _believable(ceiling_seq, acked_seq, received)
        if acked_seq > self.ack.current.seq:
            self.ack.current = Acked(acked_seq, self.ack.current.epoch)
        self._declare_not_kept(ceiling_seq)

    def go_back(self, acked_seq: int, epoch: str, received: Iterable[Range], ceiling_seq: int) -> None:
        """Another edge database answers and holds only this much: what it was never told is told again."""
        if len(epoch.encode()) > EPOCH_BYTES_MAX:
            raise AckRefused(f"the epoch is longer than {EPOCH_BYTES_MAX} bytes")
        self._received = _believable(ceiling_seq, acked_seq, received)
        self._journal.declare_again(acked_seq)
        self.ack.current = Acked(acked_seq, epoch)
        self._declare_not_kept(ceiling_seq)
        self.ack.save()

    def make_room(self, growth_bytes: int, *, is_disk_full: bool = False) -> Plan:
        """Delete what is too old, and until `growth_bytes` more fit under the cap; on a full disk, until as much is free."""
        used_bytes = self._catalogue.used_bytes()
        cap = used_bytes if is_disk_full else self.cap_bytes(used_bytes)
        over_bytes = used_bytes + growth_bytes - cap
        if over_bytes > 0:
            used_bytes -= quarantine.give_back(self._catalogue.folder, over_bytes)
        self._ages.note(self._catalogue.closed)
        segments = self._catalogue.deletable
        plan = retention.plan(
            segments, self._ages.held_seconds(segments),
            self.ack.current.seq, used_bytes + growth_bytes, self.limits, cap,
        )  # fmt: skip
        if plan.doomed:
            self._delete(plan)
        return plan

    def cap_bytes(self, used_bytes: int) -> int:
        return retention.cap_bytes(self.limits, used_bytes, disk.free_bytes(self._catalogue.folder))

    def room_bytes(self, used_bytes: int) -> int:
        """How much can still be written before the cap costs a sample that the edge has not acknowledged."""
        acked = [entry for entry in self._catalogue.deletable if entry.last_seq <= self.ack.current.seq]
        spare_bytes = sum(entry.size_bytes for entry in acked) + quarantine.size_bytes(self._catalogue.folder)
        segment = self._catalogue.open
        reserved_bytes = segment.size_bytes - segment.end_bytes if segment else 0
        return max(0, self.cap_bytes(used_bytes) - used_bytes + spare_bytes + reserved_bytes)

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
        for segment in plan.aged:
            self._declare_dropped(segment, Cause.AGED_OUT)
        for segment in plan.lost:
            self._declare_dropped(segment, Cause.CAP_REACHED)
        for segment in plan.doomed:
            segment.path.unlink(missing_ok=True)
        disk.sync_folder(self._catalogue.folder)
        self._catalogue.removed(plan.doomed)
        self._journal.forget(self._catalogue.oldest_seq or 0)

    def _declare_dropped(self, segment: Segment, cause: Cause) -> None:
        """Only what the edge has not said that it holds."""
        span = (max(segment.first_seq, self.ack.current.seq + 1), segment.last_seq)
        file = SegmentFile.open(segment.path, segment.first_seq) if segment.path.exists() else None
        try:
            for piece in without(span, self._received):
                self._journal.declare(piece, cause, _wall_us_of(file, piece))
        finally:
            if file is not None:
                file.close()

    def _declare_not_kept(self, ceiling_seq: int) -> None:
        """What the edge lacks and this folder no longer holds can only be named. Whatever the cause, no hole is silent."""
        acked_seq = self.ack.current.seq
        for piece in without((acked_seq + 1, ceiling_seq), [*self._received, *self._catalogue.held(acked_seq)]):
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
