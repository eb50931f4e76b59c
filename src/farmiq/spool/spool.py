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
from farmiq.spool.comparison import Comparison, HeldBoot
from farmiq.spool.errors import AckRefused
from farmiq.spool.format import Channel, SampleFields
from farmiq.spool.keeper import Keeper
from farmiq.spool.losses import Cause, LossJournal
from farmiq.spool.marks import Acked, AckMark, SyncedMark
from farmiq.spool.ranges import Range, merged, without
from farmiq.spool.reader import Reader
from farmiq.spool.recovery import Recovery, recover
from farmiq.spool.retention import Limits, Plan
from farmiq.spool.segment_file import SegmentFile
from farmiq.spool.streams import Owner, Streams
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
        owner: Owner | None = None,
    ) -> None:
        disk.make_folder(folder)
        self._lock_fd = lock.take(folder)
        self._written_before_bytes = disk.written.total_bytes
        try:
            self._assemble(
                folder, limits or Limits(), policy, Clocks(wall_us, monotonic), Streams(folder, new_id, owner), new_id
            )
        except BaseException:
            os.close(self._lock_fd)
            raise

    def _assemble(
        self,
        folder: Path,
        limits: Limits,
        policy: SyncPolicy,
        clocks: Clocks,
        streams: Streams,
        new_id: Callable[[], UUID],
    ) -> None:
        self.folder = folder
        self.policy = policy
        self.streams = streams
        self._covered: dict[UUID, list[Range]] = {}
        self.losses = LossJournal(folder, streams, new_id, clocks.wall_us)
        self._mark = SyncedMark(folder)
        found = recover(folder, self.losses, self._mark.seq)
        self.recovery: Recovery = found.report
        self._catalogue = Catalogue(folder, found.closed, found.open)
        ages = Ages(clocks.monotonic)
        self._keeper = Keeper(self._catalogue, self.losses, AckMark(folder), limits, ages)
        self._backlog = Backlog(self._catalogue, self._keeper, self.losses)
        self._writer = Writer(
            streams, self._catalogue, self._keeper, self.losses, self._mark, policy,
            clocks, self._account_for_all(), self._newest_capture(),
        )  # fmt: skip
        self._began_seq = self._writer.next_seq
        self._given_up_count = 0
        self._writer.settle()
        self.is_moved = streams.follow_owner(self._began_seq)
        self._comparison = Comparison(self._catalogue, self._keeper, streams, self._began_seq)
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
        return Reader(self._catalogue, self._keeper, self.streams)

    # Acknowledging and deleting

    @property
    def acked(self) -> Acked:
        return self._keeper.ack.current

    @property
    def stream_id(self) -> UUID:
        """Of what is written now."""
        return self.streams.current.stream_id

    @property
    def former_streams(self) -> list[UUID]:
        """Of what was written before, oldest first."""
        known = dict.fromkeys(part.stream_id for part in self.streams.layout.parts)
        return [stream_id for stream_id in known if stream_id != self.stream_id]

    def acknowledge(self, acked_seq: int, received: Iterable[Range] = (), stream_id: UUID | None = None) -> None:
        """The edge holds everything up to `acked_seq`, and `received` above it: numbers of one stream, by default of the newest.
        Never goes back."""
        acked, above = self._settled_with(stream_id or self.stream_id, acked_seq, received, self.acked.seq)
        self._keeper.acknowledge(acked, above, self._writer.synced_seq)

    def go_back(
        self, acked_seq: int, epoch: str, received: Iterable[Range] = (), stream_id: UUID | None = None
    ) -> None:
        """An edge database answers that lacks what this node took for stored, and holds only this much of the stream. What is
        still here is unacknowledged again; what is not here, and what the edge was told about losses, is declared.

        What another database holds of the node's other streams is not known yet: what is here of them is sent again, and what
        is not waits for the edge's word."""
        stream, end_seq, was = stream_id or self.stream_id, self._writer.synced_seq, self.acked
        if epoch != was.epoch:
            held = self._catalogue.held(0)
            self._covered = {
                other: [piece for span in self._sequences_of(other, end_seq) for piece in without(span, held)]
                for other in (*self.former_streams, self.stream_id)
                if other != stream
            }
        acked, above = self._settled_with(stream, acked_seq, received, 0)
        # What the database holds beyond the lower mark, it says again in its next acknowledgement.
        believed = min(acked, was.seq) if was.epoch not in ("", epoch) else acked
        self._keeper.go_back(believed, epoch, above, end_seq)

    def _sequences_of(self, stream_id: UUID, end_seq: int) -> list[Range]:
        spans = self.streams.layout.of_stream(stream_id, [(1, end_seq)])
        return [(first, min(last, end_seq)) for first, last in spans if first <= end_seq]

    def mark_of(self, stream_id: UUID) -> int:
        """Up to which number of the stream everything is believed to be with the edge."""
        settled = self._sequences_of(stream_id, self.acked.seq)
        return settled[-1][1] - self.streams.layout.of(settled[-1][1]).offset if settled else 0

    @property
    def received(self) -> list[Range]:
        """What the edge holds above `acked`, in sequences of this spool."""
        return self._keeper.received

    def _settled_with(
        self, stream_id: UUID, acked_seq: int, received: Iterable[Range], least_seq: int
    ) -> tuple[int, list[Range]]:
        """What is with the edge by all of its words: up to which sequence of this spool, and the ranges above it."""
        ranges = [(1, acked_seq), *received] if acked_seq else [*received]
        part = self.streams.current
        highest_seq = max((last for _, last in ranges), default=0) + part.offset
        if stream_id == part.stream_id and highest_seq > self._writer.synced_seq:
            raise AckRefused(f"acknowledged up to {highest_seq}, written only up to {self._writer.synced_seq}")
        self._covered[stream_id] = self.streams.layout.of_stream(stream_id, ranges)
        settled = merged([(0, least_seq), *(span for spans in self._covered.values() for span in spans)])
        return settled[0][1], settled[1:]

    def first_unlike(
        self, boots: Sequence[HeldBoot], covered: Sequence[Range], *, is_refuted: bool = False
    ) -> int | None:
        """The first sequence for which the edge has another sample; None as long as nothing speaks for that. An
        acknowledgement of what was never written does, and so does an edge that has compared the samples itself."""
        end_seq = self._writer.synced_seq
        is_absurd = max((last for _, last in covered), default=0) + self.streams.current.offset > end_seq
        return self._comparison.first_unlike(boots, covered, end_seq, is_refuted=is_refuted or is_absurd)

    def begin_stream(self, first_seq: int) -> UUID:
        """What was captured from `first_seq` on gets a stream of its own: the edge has other samples under its numbers. It is all
        unacknowledged again, and its losses are told anew."""
        self._writer.sync()
        stream_id = self.streams.begin(max(first_seq, self.acked.seq + 1))
        self.losses.follow_streams()
        self._covered = {
            known: [(low, min(high, first_seq - 1)) for low, high in spans if low < first_seq]
            for known, spans in self._covered.items()
        }
        spans = merged([(0, self.acked.seq), *(span for spans in self._covered.values() for span in spans)])
        self._keeper.acknowledge(spans[0][1], spans[1:], self._writer.synced_seq)
        return stream_id

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
