"""The spool of one node, put together: recover, then write on one thread and read on any."""

import os
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from farmiq.spool import disk, lock
from farmiq.spool.ages import Ages
from farmiq.spool.backlog import Backlog
from farmiq.spool.catalogue import Catalogue
from farmiq.spool.format import Channel, SampleFields
from farmiq.spool.keeper import Keeper
from farmiq.spool.losses import Cause, LossJournal
from farmiq.spool.marks import Acked, AckMark, SyncedMark
from farmiq.spool.ranges import Range, without
from farmiq.spool.reader import Reader
from farmiq.spool.recovery import Recovery, recover
from farmiq.spool.retention import Limits, Plan
from farmiq.spool.segment import closed_segments, open_files
from farmiq.spool.segment_file import SegmentFile
from farmiq.spool.writer import Capture, Clocks, SyncPolicy, Writer


class Usage(NamedTuple):
    spool_bytes: int
    cap_bytes: int
    closed_segments: int
    open_segments: int
    oldest_seq: int
    room_bytes: int  # that can still be written before the cap costs a sample which the edge has not acknowledged
    unacked_samples: int
    oldest_unacked_wall_us: int | None  # None: there is none, or it cannot be read
    # Since this spool was opened. Bytes are all that was handed to the kernel: frames, headers, marks, the journal.
    written_bytes: int
    written_samples: int


def wall_clock_us() -> int:
    return time.time_ns() // 1000


class Spool:
    """Opening takes the folder's lock and recovers. One thread calls everything but the readers."""

    def __init__(
        self,
        folder: Path,
        limits: Limits | None = None,
        policy: SyncPolicy = SyncPolicy.GROUP,
        *,
        new_id: Callable[[], UUID] = uuid.uuid4,
        wall_us: Callable[[], int] = wall_clock_us,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        disk.make_folder(folder)
        self._lock_fd = lock.take(folder)
        self._written_before_bytes = disk.written.total_bytes
        try:
            self._assemble(folder, limits or Limits(), policy, new_id, Clocks(wall_us, monotonic))
        except BaseException:
            os.close(self._lock_fd)
            raise

    def _assemble(
        self, folder: Path, limits: Limits, policy: SyncPolicy, new_id: Callable[[], UUID], clocks: Clocks
    ) -> None:
        self.folder = folder
        self.policy = policy
        self.stream_id = _stream_id(folder, new_id)
        self.losses = LossJournal(folder, self.stream_id, new_id, clocks.wall_us)
        self._mark = SyncedMark(folder)
        found = recover(folder, self.losses, self._mark.seq)
        self.recovery: Recovery = found.report
        self._catalogue = Catalogue(folder, found.closed, found.open)
        ages = Ages(clocks.monotonic)
        self._keeper = Keeper(self._catalogue, self.losses, AckMark(folder), limits, ages)
        self._backlog = Backlog(self._catalogue, self._keeper, self.losses)
        self._writer = Writer(
            self.stream_id, self._catalogue, self._keeper, self.losses, self._mark, policy,
            clocks, self._account_for_all(), self._newest_capture(),
        )  # fmt: skip
        self._began_seq = self._writer.next_seq
        self._given_up_count = 0
        self._writer.settle()
        if limits.max_spool_seconds is not None:
            ages.look_back(self._catalogue.closed, self._catalogue.open)
        self._keeper.make_room(0)

    # Writing

    def begin(self, boot_id: UUID, channels: Sequence[Channel]) -> None:
        """Say what the samples that follow belong to. A segment holds one boot and one channel table."""
        self._writer.begin(boot_id, channels)

    def append_many(self, samples: Iterable[SampleFields]) -> Range | None:
        """Write samples; their first and last sequence. They may be acknowledged once `safe_seq` covers them.

        When this raises, the front of the group may have been kept: `last_capture` says how far.
        """
        first_seq = self._writer.next_seq
        self._writer.append_many(samples)
        return (first_seq, self._writer.next_seq - 1) if self._writer.next_seq > first_seq else None

    def give_up(self, loss_id: UUID, count: int, wall_us: Range) -> None:
        """The producer had to give up `count` samples, captured in that span of time, before they came here.

        They get sequences like any others and are declared lost, so that whoever counts finds them. Durable when this
        returns; told twice under one id, they count once.
        """
        self._writer.sync()
        before_seq = self._writer.next_seq
        self._writer.skip(loss_id, count, wall_us)
        self._given_up_count += self._writer.next_seq - before_seq

    def sync(self) -> int:
        """Store everything written so far; the last sequence that is stored."""
        self._writer.sync()
        return self._writer.synced_seq

    @property
    def synced_seq(self) -> int:
        """As far as readers look."""
        return self._writer.synced_seq

    @property
    def safe_seq(self) -> int:
        """As far as the policy lets the producer be told that its samples are kept."""
        return self._writer.next_seq - 1 if self.policy is SyncPolicy.OS else self._writer.synced_seq

    @property
    def last_capture(self) -> Capture | None:
        """The last sample held, in the producer's own order. One that it sends again at or before this is here already."""
        return self._writer.last_capture

    # Reading

    def reader(self) -> Reader:
        return Reader(self._catalogue, self._keeper)

    # Acknowledging and deleting

    @property
    def acked(self) -> Acked:
        return self._keeper.ack.current

    def acknowledge(self, acked_seq: int, received: Iterable[Range] = ()) -> None:
        """The edge holds everything up to `acked_seq`, and `received` above it. Never goes back."""
        self._keeper.acknowledge(acked_seq, received, self._writer.synced_seq)

    def go_back(self, acked_seq: int, epoch: str, received: Iterable[Range] = ()) -> None:
        """Another edge database answers, and holds only this much. What is still here is unacknowledged again; what is
        not here, and what the old database had been told about losses, is declared."""
        self._keeper.go_back(acked_seq, epoch, received, self._writer.synced_seq)

    def save_ack(self) -> None:
        """Make the mark durable, so that a restart does not send again what the edge has."""
        self._keeper.ack.save()

    def trim(self) -> Plan:
        """Delete what the limits do not let stay. An age cap holds only if this is called now and then."""
        return self._keeper.make_room(0)

    def usage(self) -> Usage:
        used_bytes = self._catalogue.used_bytes()
        oldest_seq = self._catalogue.oldest_seq
        unacked = self._backlog.ranges()
        return Usage(
            used_bytes,
            self._keeper.cap_bytes(used_bytes),
            len(self._catalogue.closed),
            int(self._catalogue.open is not None),
            self._writer.next_seq if oldest_seq is None else oldest_seq,
            self._keeper.room_bytes(used_bytes),
            sum(last - first + 1 for first, last in unacked),
            self._backlog.oldest_wall_us(unacked),
            disk.written.total_bytes - self._written_before_bytes,
            self._writer.next_seq - self._began_seq - self._given_up_count,
        )

    def close(self) -> None:
        try:
            self.sync()
            self.save_ack()
        finally:
            self.release()

    def release(self) -> None:
        """Let go without storing anything, as the end of the process would."""
        if self._catalogue.open is not None:
            self._catalogue.open.close()
        self.losses.close()
        self._mark.close()
        self._keeper.ack.close()
        os.close(self._lock_fd)

    def _account_for_all(self) -> int:
        """Declare what should be here and is not, and give the next sequence: above everything ever used."""
        closed, segment = self._catalogue.closed, self._catalogue.open
        held = [(entry.first_seq, entry.last_seq) for entry in closed]
        if segment is not None and segment.frames:
            held.append((segment.first_seq, segment.synced_seq))
        acked_seq = self._keeper.ack.current.seq
        begin_seq = min((first for first, _ in held), default=acked_seq + 1)
        end_seq = max([self._mark.seq, segment.first_seq - 1 if segment else 0, *(last for _, last in held)])
        for piece in without((begin_seq, end_seq), [(1, acked_seq), *held]):
            self.recovery.lost += self.losses.declare(piece, Cause.MISSING)
        return max([end_seq, acked_seq, *(last for _, last in self.losses.ranges())]) + 1

    def _newest_capture(self) -> Capture | None:
        segment = self._catalogue.open
        places = [(entry.path, entry.first_seq, entry.last_seq) for entry in self._catalogue.closed[-1:]]
        if segment is not None and segment.frames:
            places.append((segment.path, segment.first_seq, segment.synced_seq))
        for path, first_seq, last_seq in reversed(places):
            file = SegmentFile.open(path, first_seq)
            if file is None:
                continue
            try:
                frame = file.last_frame(last_seq)
            finally:
                file.close()
            if frame is not None:
                return Capture(file.header.boot_id, frame.monotonic_us, frame.channel)
        return None


def _stream_id(folder: Path, new_id: Callable[[], UUID]) -> UUID:
    """One stream for the life of the folder, across boots."""
    path = folder / "stream"
    try:
        return UUID(path.read_text().strip())
    except (FileNotFoundError, ValueError):
        stream_id = _stream_of_newest_segment(folder) or new_id()
        disk.replace_file(path, f"{stream_id}\n".encode())
        return stream_id


def _stream_of_newest_segment(folder: Path) -> UUID | None:
    files = [(entry.first_seq, entry.path) for entry in closed_segments(folder)] + open_files(folder)
    for first_seq, path in sorted(files, reverse=True):
        file = SegmentFile.open(path, first_seq)
        if file is not None:
            file.close()
            return file.header.stream_id
    return None
