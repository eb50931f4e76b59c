"""The loss journal: what is gone, by range and cause, until the edge has it in its database.

Small, apart from the segments, exempt from the spool's cap, and reserved ahead, so that a loss can be written down on a
full disk. A record is one slot of 128 bytes, rewritten in place when it is acknowledged. Frozen like the frames.
"""

import enum
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from struct import Struct
from uuid import UUID
from zlib import crc32

from farmiq.spool import disk
from farmiq.spool.errors import SpoolFull
from farmiq.spool.ranges import Range, without
from farmiq.spool.streams import Layout, Streams

_SLOT = Struct("<B7x16s16sQQQqqq24s12xI")
_SLOT_BYTES = _SLOT.size
_TITLE = b"FIQLOSS1".ljust(_SLOT_BYTES, b"\0")
_GROW_BYTES = 64 * 1024
_TIME_UNKNOWN = -(2**63)
_FREE, _DECLARED, _ACKNOWLEDGED = 0, 1, 2


class Cause(enum.StrEnum):
    CAP_REACHED = "cap_reached"  # the spool's cap: the oldest unacknowledged segment was dropped
    AGED_OUT = "aged_out"  # the spool's age cap: held longer than the operator allows, and still not acknowledged
    DAMAGED = "damaged"  # frames that were stored can no longer be read
    MISSING = "missing"  # a segment, or the end of one, is not where it was
    SYNC_FAILED = "sync_failed"  # the disk refused after the sample had been acknowledged under the `os` policy
    NOT_KEPT = "not_kept"  # the edge asks for what it once acknowledged and this node no longer holds
    NOT_CAPTURED = "not_captured"  # the producer measured it and could not hand it over before its own memory was full


@dataclass(frozen=True, slots=True)
class Loss:
    loss_id: UUID
    stream_id: UUID
    first_seq: int
    last_seq: int
    first_wall_us: int | None  # None: the damage ate the times too
    last_wall_us: int | None
    dropped_at_us: int
    cause: str
    is_acknowledged: bool = False
    offset: int = 0
    """Between a sequence of the spool and its number in the stream, which is what the edge is told."""

    @property
    def count(self) -> int:
        return self.last_seq - self.first_seq + 1


class LossJournal:
    """Safe to use from the writing and the reading thread at once."""

    def __init__(self, folder: Path, streams: Streams, new_id: Callable[[], UUID], wall_us: Callable[[], int]) -> None:
        self._streams = streams
        self._new_id = new_id
        self._wall_us = wall_us
        self._lock = threading.Lock()
        self._slots: dict[int, Loss] = {}
        self._doubtful: set[int] = set()  # the disk refused to store them, and may show either content after a crash
        self._fd = os.open(folder / "losses", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        self._reserved_bytes = os.fstat(self._fd).st_size
        if self._reserved_bytes < _GROW_BYTES:
            self._reserve()
            disk.sync_folder(folder)
        # A killed process may have left a record that only memory holds. What is believed from here on is stored first.
        disk.sync_file(self._fd)
        self._load()
        self.follow_streams()

    def declare(self, span: Range, cause: Cause, wall_us: Range | None = None) -> list[Loss]:
        """Write down what of `span` is not written down yet. Durable when this returns."""
        with self._lock:
            known = [(loss.first_seq, loss.last_seq) for loss in self._slots.values()]
            now_us = self._wall_us()
            first_wall_us, last_wall_us = wall_us or (None, None)
            fresh = [
                Loss(
                    self._new_id(),
                    part.stream_id,
                    first,
                    last,
                    first_wall_us,
                    last_wall_us,
                    now_us,
                    cause,
                    offset=part.offset,
                )
                for piece in without(span, known)
                for part, (first, last) in self._streams.layout.split(piece)
            ]
            self._store(self._placed(fresh))
            return fresh

    def declare_once(self, loss_id: UUID, span: Range, cause: Cause, wall_us: Range) -> bool:
        """One record under an id of the caller's, who may not know whether it was declared before. False when it was."""
        with self._lock:
            if any(loss.loss_id == loss_id for loss in self._slots.values()):
                return False
            part = self._streams.current
            loss = Loss(loss_id, part.stream_id, *span, *wall_us, self._wall_us(), cause, offset=part.offset)
            self._store({self._free_slot(0): loss})
            return True

    def follow_streams(self) -> None:
        """A record of sequences that another stream has taken over is told anew as that one's, under a new id. Also at a start:
        the new stream may be on disk, and this not yet."""
        with self._lock:
            changed: dict[int, Loss] = {}
            more: list[Loss] = []
            for slot, loss in self._slots.items():
                if not _is_of(self._streams.layout, loss):
                    changed[slot], *rest = self._pieces(loss)
                    more += rest
            changed |= {self._free_slot(ahead): loss for ahead, loss in enumerate(more)}
            if changed:
                self._store(changed)

    def _pieces(self, loss: Loss) -> list[Loss]:
        return [
            loss
            if part.stream_id == loss.stream_id and (first, last) == (loss.first_seq, loss.last_seq)
            else replace(
                loss,
                loss_id=self._new_id(),
                stream_id=part.stream_id,
                first_seq=first,
                last_seq=last,
                offset=part.offset,
                is_acknowledged=loss.is_acknowledged and part.stream_id == loss.stream_id,
            )
            for part, (first, last) in self._streams.layout.split((loss.first_seq, loss.last_seq))
        ]

    def acknowledge(self, loss_ids: Iterable[UUID]) -> list[Loss]:
        """The edge has these. They stay until nothing before them is kept: a restored edge may ask again."""
        wanted = set(loss_ids)
        with self._lock:
            return self._settle(lambda loss: loss.loss_id in wanted and not loss.is_acknowledged, is_acknowledged=True)

    def declare_again(self, after_seq: int) -> list[Loss]:
        """The edge went back to `after_seq`: what it knew about losses above that is gone with it."""
        with self._lock:
            return self._settle(lambda loss: loss.last_seq > after_seq and loss.is_acknowledged, is_acknowledged=False)

    def rename(self, loss_ids: Iterable[UUID]) -> None:
        """The edge knows something else under these ids. They are told under new ones."""
        wanted = set(loss_ids)
        with self._lock:
            self._store(
                {
                    slot: replace(loss, loss_id=self._new_id())
                    for slot, loss in self._slots.items()
                    if loss.loss_id in wanted and not loss.is_acknowledged
                }
            )

    def forget(self, before_seq: int) -> None:
        """Free acknowledged records older than anything kept. Not synced: one that comes back is only kept longer."""
        with self._lock:
            for slot in [s for s, loss in self._slots.items() if loss.is_acknowledged and loss.last_seq < before_seq]:
                disk.write_all(self._fd, bytes(_SLOT_BYTES), slot * _SLOT_BYTES)
                del self._slots[slot]

    def repair(self) -> None:
        """Make the disk say again what this journal says, where it refused a change. Until then nothing else may be promised:
        a refused record that comes back after a crash would name samples that took its sequences since."""
        if self._doubtful:
            with self._lock:
                self._store({})

    def all(self) -> list[Loss]:
        with self._lock:
            return sorted(self._slots.values(), key=lambda loss: loss.first_seq)

    def outstanding(self) -> list[Loss]:
        return [loss for loss in self.all() if not loss.is_acknowledged]

    def ranges(self) -> list[Range]:
        return [(loss.first_seq, loss.last_seq) for loss in self.all()]

    def close(self) -> None:
        os.close(self._fd)

    def _settle(self, chosen: Callable[[Loss], bool], *, is_acknowledged: bool) -> list[Loss]:
        changed = {
            slot: replace(loss, is_acknowledged=is_acknowledged) for slot, loss in self._slots.items() if chosen(loss)
        }
        self._store(changed)
        return list(changed.values())

    def _store(self, changed: Mapping[int, Loss]) -> None:
        content = {slot: self._slots.get(slot) for slot in self._doubtful} | dict(changed)
        self._doubtful.update(content)
        for slot, loss in content.items():
            disk.write_all(self._fd, _pack(loss) if loss else bytes(_SLOT_BYTES), slot * _SLOT_BYTES)
        if content:
            disk.sync_file(self._fd)
        self._doubtful.clear()
        self._slots.update(changed)

    def _placed(self, fresh: list[Loss]) -> dict[int, Loss]:
        """Each in a free slot. When there is none and the disk has no room for more, a loss joins the record that it follows:
        without that, a full disk could never be relieved of its oldest segment. The joined record has a new id, because
        the edge may know the old one already, with its old end."""
        placed: dict[int, Loss] = {}
        for ahead, loss in enumerate(fresh):
            try:
                placed[self._free_slot(ahead)] = loss
            except SpoolFull:
                slot, before = self._followed_by(loss, placed)
                placed[slot] = replace(loss, first_seq=before.first_seq, first_wall_us=before.first_wall_us)
        return placed

    def _followed_by(self, loss: Loss, placed: dict[int, Loss]) -> tuple[int, Loss]:
        for slot, before in (self._slots | placed).items():
            if (before.last_seq + 1, before.cause, before.is_acknowledged) == (loss.first_seq, loss.cause, False):
                return slot, before
        raise SpoolFull("the loss journal is full, and the disk has no room for more of it")

    def _free_slot(self, ahead: int) -> int:
        """The free slot after `ahead` others, which the caller is about to fill."""
        slot = 1
        while True:
            if slot not in self._slots:
                if ahead == 0:
                    break
                ahead -= 1
            slot += 1
        while (slot + 1) * _SLOT_BYTES > self._reserved_bytes:
            self._reserve()
        return slot

    def _reserve(self) -> None:
        disk.allocate(self._fd, self._reserved_bytes, _GROW_BYTES)
        if self._reserved_bytes == 0:
            disk.write_all(self._fd, _TITLE, 0)
        self._reserved_bytes += _GROW_BYTES
        disk.sync_file(self._fd)

    def _load(self) -> None:
        slots = _unpack_slots(os.pread(self._fd, self._reserved_bytes, 0))
        layout = self._streams.layout
        self._slots = {slot: replace(loss, offset=layout.of(loss.first_seq).offset) for slot, loss in slots.items()}


def read(path: Path) -> list[Loss]:
    """What a journal says, for somebody who does not own it."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    return sorted(_unpack_slots(data).values(), key=lambda loss: loss.first_seq)


def _is_of(layout: Layout, loss: Loss) -> bool:
    return [part.stream_id for part, _ in layout.split((loss.first_seq, loss.last_seq))] == [loss.stream_id]


def _unpack_slots(data: bytes) -> dict[int, Loss]:
    slots = ((slot, data[slot * _SLOT_BYTES : (slot + 1) * _SLOT_BYTES]) for slot in range(1, len(data) // _SLOT_BYTES))
    losses = ((slot, _unpack(content)) for slot, content in slots if content[0] != _FREE)
    return {slot: loss for slot, loss in losses if loss is not None}


def _pack(loss: Loss) -> bytes:
    packed = _SLOT.pack(
        _ACKNOWLEDGED if loss.is_acknowledged else _DECLARED, loss.loss_id.bytes, loss.stream_id.bytes,
        loss.first_seq, loss.last_seq, loss.count, _time(loss.first_wall_us), _time(loss.last_wall_us), loss.dropped_at_us,
        loss.cause.encode(), 0,
    )[:-4]  # fmt: skip
    return packed + crc32(packed).to_bytes(4, "little")


def _unpack(data: bytes) -> Loss | None:
    """None for one that was torn while being written: what it was for had not been done yet."""
    state, loss_id, stream_id, first, last, _, first_wall, last_wall, dropped_at, cause, crc = _SLOT.unpack(data)
    if crc32(data[:-4]) != crc:
        return None
    return Loss(
        UUID(bytes=loss_id), UUID(bytes=stream_id), first, last, _time_or_none(first_wall), _time_or_none(last_wall), dropped_at,
        cause.rstrip(b"\0").decode(), state == _ACKNOWLEDGED,
    )  # fmt: skip


def _time(wall_us: int | None) -> int:
    return _TIME_UNKNOWN if wall_us is None else wall_us


def _time_or_none(packed: int) -> int | None:
    return None if packed == _TIME_UNKNOWN else packed
