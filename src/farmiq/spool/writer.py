"""Writing: append to the one open segment, sync, rotate; and what to do when the disk refuses."""

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, NoReturn, TypeVar
from uuid import UUID

from farmiq.spool import disk
from farmiq.spool.catalogue import Catalogue
from farmiq.spool.errors import NotBegun, SpoolFull, SyncFailed
from farmiq.spool.format import FRAME_BYTES, Channel, Header, SampleFields, pack_frames, pack_header
from farmiq.spool.keeper import Keeper
from farmiq.spool.losses import Cause, LossJournal
from farmiq.spool.marks import SyncedMark
from farmiq.spool.ranges import Range
from farmiq.spool.segment import OpenSegment
from farmiq.spool.streams import Streams

T = TypeVar("T")


class SyncPolicy(enum.StrEnum):
    """When a sample may be acknowledged to its producer."""

    ALWAYS = "always"  # every append is synced before it returns
    GROUP = "group"  # after the sync that the caller makes for many appends at once
    OS = "os"  # when the kernel has it: a power cut takes what the last sync did not cover, and nothing declares it


class Capture(NamedTuple):
    """Where a sample stands in its producer's own order."""

    boot_id: UUID
    monotonic_us: int
    channel: int


class Clocks(NamedTuple):
    wall_us: Callable[[], int]
    monotonic: Callable[[], float]


class Writer:
    def __init__(
        self,
        streams: Streams,
        catalogue: Catalogue,
        keeper: Keeper,
        journal: LossJournal,
        mark: SyncedMark,
        policy: SyncPolicy,
        clocks: Clocks,
        next_seq: int,
        last_capture: Capture | None,
    ) -> None:
        self._streams = streams
        self._catalogue = catalogue
        self._keeper = keeper
        self._journal = journal
        self._mark = mark
        self._policy = policy
        self._clocks = clocks
        self._begun: tuple[UUID, tuple[Channel, ...]] | None = None
        self._segment_began_at = clocks.monotonic()
        self.next_seq = next_seq
        self.synced_seq = next_seq - 1
        self.last_capture = self._last_synced = last_capture
        self._owed: Range | None = None  # acknowledged under the policy `os`, refused by the disk, and not declared yet

    def settle(self) -> None:
        """After recovery: a segment whose frames do not lead up to the next sequence cannot be continued."""
        segment = self._catalogue.open
        if segment is not None and segment.first_seq + segment.frames != self.next_seq:
            self._end(segment)
        if self.synced_seq > self._mark.seq:
            self._mark.note(self.synced_seq)

    def begin(self, boot_id: UUID, channels: Sequence[Channel]) -> None:
        pack_header(
            Header(self._streams.current.stream_id, boot_id, 1, 0, tuple(channels))
        )  # refuses a table that does not fit
        self._begun = (boot_id, tuple(channels))

    def append_many(self, samples: Iterable[SampleFields]) -> None:
        waiting = samples if isinstance(samples, list) else list(samples)
        while waiting:
            segment = self._writable()
            room = self._room(segment)
            part, waiting = waiting[:room], waiting[room:]
            self._write(segment, pack_frames(self.next_seq, part))
            self.next_seq += len(part)
            self.last_capture = Capture(segment.header.boot_id, part[-1][1], part[-1][2])
        if self._policy is SyncPolicy.ALWAYS:
            self.sync()

    def sync(self) -> None:
        self._declare_owed()
        segment = self._catalogue.open
        if segment is not None and segment.frames > segment.synced_frames:
            try:
                segment.sync()
            except OSError as error:
                self._abandon(segment, error)
        self.synced_seq = self.next_seq - 1
        self._last_synced = self.last_capture
        if self.synced_seq > self._mark.seq:
            self._mark.note(self.synced_seq)

    def skip(self, loss_id: UUID, count: int, wall_us: Range) -> None:
        """Number samples that never reached this folder, and name them as lost. The same id is taken once."""
        self.sync()
        span = (self.next_seq, self.next_seq + count - 1)
        if self._journal.declare_once(loss_id, span, Cause.NOT_CAPTURED, wall_us):
            self.next_seq = span[1] + 1
            self.synced_seq = span[1]

    def _writable(self) -> OpenSegment:
        if self._begun is None:
            raise NotBegun("the producer has not said which boot and channels its samples belong to")
        segment = self._catalogue.open
        if segment is not None and self._is_due(segment, *self._begun):
            self._roll(segment)
            segment = None
        return segment or self._create(*self._begun)

    def _is_due(self, segment: OpenSegment, boot_id: UUID, channels: tuple[Channel, ...]) -> bool:
        if (segment.header.boot_id, segment.header.channels) != (boot_id, channels) or self._room(segment) < 1:
            return True
        if segment.header.stream_id != self._streams.current.stream_id:
            return True
        if segment.is_given_up:
            return True  # the disk refused to end it the last time
        if segment.first_seq + segment.frames != self.next_seq:
            return True  # a frame's place fixes its sequence: what follows a skipped range needs a segment of its own
        # Counted on the monotonic clock: a wall clock that jumps neither holds a segment open nor closes it early.
        age_seconds = self._clocks.monotonic() - self._segment_began_at
        return segment.frames > 0 and age_seconds >= self._keeper.limits.segment_seconds

    def _room(self, segment: OpenSegment) -> int:
        return (self._keeper.limits.segment_bytes - segment.end_bytes) // FRAME_BYTES

    def _roll(self, segment: OpenSegment) -> None:
        self.sync()
        self._end(segment)

    def _create(self, boot_id: UUID, channels: tuple[Channel, ...]) -> OpenSegment:
        header = Header(self._streams.current.stream_id, boot_id, self.next_seq, self._clocks.wall_us(), channels)
        reserve_bytes = min(self._keeper.limits.grow_bytes, self._keeper.limits.segment_bytes)
        try:
            segment = self._with_room(
                reserve_bytes, lambda: OpenSegment.create(self._catalogue.folder, header, reserve_bytes)
            )
        except OSError as error:
            raise SyncFailed(self.synced_seq) from error
        self._segment_began_at = self._clocks.monotonic()
        self._catalogue.opened(segment)
        return segment

    def _write(self, segment: OpenSegment, packed: bytes) -> None:
        try:
            self._journal.repair()
            self._reserve(segment, segment.shortfall_bytes(len(packed)))
            segment.append(packed)
        except OSError as error:
            # What was written before is whole. Part of this may stand behind the logical end, where it could be taken for
            # frames after the next, shorter write: so the segment ends there, now or before anything else is written.
            segment.is_given_up = True
            self.sync()
            self._abandon(segment, error)

    def _reserve(self, segment: OpenSegment, short_bytes: int) -> None:
        if short_bytes:
            limits = self._keeper.limits
            steps = -(-short_bytes // limits.grow_bytes)
            more_bytes = min(steps * limits.grow_bytes, limits.segment_bytes - segment.size_bytes)
            self._with_room(more_bytes, lambda: segment.reserve(more_bytes))

    def _with_room(self, growth_bytes: int, grow: Callable[[], T]) -> T:
        """Keep to the cap first; and when the disk is full before the cap is reached, make that the reason."""
        self._keeper.make_room(growth_bytes)
        try:
            return grow()
        except SpoolFull:
            self._keeper.make_room(growth_bytes, is_disk_full=True)
            return grow()

    def _abandon(self, segment: OpenSegment, cause: OSError) -> NoReturn:
        """The disk refused. Frames after the last sync are gone, whatever a second try would say."""
        kept_through = self.synced_seq
        segment.give_up_after(segment.synced_frames)
        if self._policy is SyncPolicy.OS and self.next_seq - 1 > self.synced_seq:
            # Under this policy they were acknowledged already, so they are named.
            self._owed = (self.synced_seq + 1, self.next_seq - 1)
        else:
            self.next_seq = self.synced_seq + 1
            self.last_capture = self._last_synced
        # Named first, then cut off: until they are named, a start may still find them in memory.
        self._declare_owed()
        self._end(segment)
        raise SyncFailed(kept_through) from cause

    def _declare_owed(self) -> None:
        if self._owed is not None:
            self._journal.declare(self._owed, Cause.SYNC_FAILED)
            self._owed = None

    def _end(self, segment: OpenSegment) -> None:
        try:
            if segment.synced_frames:
                self._catalogue.ended(segment.seal())
            else:
                segment.discard()
                self._catalogue.ended(None)
            disk.sync_folder(self._catalogue.folder)
        except OSError as error:
            raise SyncFailed(self.synced_seq) from error
