"""What the edge says that it holds of a stream, compared with what is held here.

A disk that is set back to an image numbers anew what the edge has other samples for. Boots and times show it: within one
stream each boot has sequences of its own, and what was captured since then is newer than all that the edge has of its boot.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

from farmiq.spool.catalogue import Catalogue, Place
from farmiq.spool.keeper import Keeper
from farmiq.spool.ranges import Range, merged, without
from farmiq.spool.reader import Reader
from farmiq.spool.segment_file import SegmentFile
from farmiq.spool.streams import Streams

_FRAMES_A_READ = 1000


class HeldBoot(NamedTuple):
    """What somebody else holds of one boot: numbers of the stream, both ends included, and the time of the last one."""

    boot_id: UUID
    first_seq: int
    last_seq: int
    last_wall_us: int


class _Stretch(NamedTuple):
    boot_id: UUID
    first_seq: int
    last_seq: int


class Comparison:
    """Only what is not acknowledged is compared: the rest was the edge's before, and may be gone here."""

    def __init__(self, catalogue: Catalogue, keeper: Keeper, streams: Streams, began_seq: int) -> None:
        self._catalogue = catalogue
        self._keeper = keeper
        self._streams = streams
        self._began_seq = began_seq
        self._boots: dict[int, UUID] = {}

    def first_unlike(
        self, claims: Sequence[HeldBoot], covered: Sequence[Range], synced_seq: int, *, is_refuted: bool
    ) -> int | None:
        """The first sequence of the spool that the edge has given to another sample of the current stream, or None.

        `covered` are all that the edge has, numbered in the stream. When something else has refuted already that they are the
        samples of this spool, a sequence is always found: what can't be shown to be with the edge is taken not to be.
        """
        part, acked_seq = self._streams.current, self._keeper.ack.current.seq
        mine = [
            HeldBoot(one.boot_id, one.first_seq + part.offset, one.last_seq + part.offset, one.last_wall_us)
            for one in claims
        ]
        own = list(self._stretches(max(acked_seq + 1, part.first_seq), synced_seq))
        places = [
            max(stretch.first_seq, one.first_seq)
            for stretch, one in _meeting(own, mine)
            if stretch.boot_id != one.boot_id
        ]
        same = [(stretch, one) for stretch, one in _meeting(own, mine) if stretch.boot_id == one.boot_id]
        ending = [pair for pair in same if pair[1].last_seq <= pair[0].last_seq]
        differing = [pair for pair in ending if self._differs(pair[1])]
        if not (places or differing or is_refuted):
            return None
        for stretch, one in same:
            if (stretch, one) in ending and (stretch, one) not in differing:
                continue  # the last one is the same, and so are those before it
            newer = self._first_newer(one, (max(stretch.first_seq, one.first_seq), min(stretch.last_seq, one.last_seq)))
            if newer is not None:
                places.append(newer)
            elif (stretch, one) in differing:
                places.append(max(stretch.first_seq, one.first_seq))
        with_edge = merged((first + part.offset, last + part.offset) for first, last in covered)
        unshown = [
            piece
            for stretch in own
            for piece in without((stretch.first_seq, stretch.last_seq), [(one.first_seq, one.last_seq) for one in mine])
        ]
        places += [
            max(first, low) for first, last in unshown for low, high in with_edge if low <= last and first <= high
        ]
        return min(places, default=synced_seq + 1)

    def _stretches(self, first_seq: int, last_seq: int) -> Iterator[_Stretch]:
        after_seq = first_seq - 1
        while after_seq < last_seq and (place := self._catalogue.locate(after_seq)) is not None:
            boot_id = self._boot_of(place)
            if boot_id is not None:
                yield _Stretch(boot_id, max(place.first_seq, first_seq), min(place.last_seq, last_seq))
            after_seq = place.last_seq

    def _boot_of(self, place: Place) -> UUID | None:
        if place.first_seq not in self._boots:
            file = self._open(place)
            if file is None:
                return None
            self._boots[place.first_seq] = file.header.boot_id
            file.close()
        return self._boots[place.first_seq]

    def _differs(self, one: HeldBoot) -> bool:
        """What is held here under the edge's last sequence of a boot has another time."""
        place = self._catalogue.locate(one.last_seq - 1)
        if place is None or not place.first_seq <= one.last_seq <= place.last_seq:
            return False
        file = self._open(place)
        if file is None:
            return False
        try:
            frame = file.frame_at(one.last_seq)
        finally:
            file.close()
        return frame is not None and frame.wall_us != one.last_wall_us

    def _first_newer(self, one: HeldBoot, span: Range) -> int | None:
        """The first one that the edge can't have: newer than its newest, or captured by this very process."""
        reader = Reader(self._catalogue, self._keeper, self._streams)
        try:
            for frame in reader.frames(span[0] - 1, _FRAMES_A_READ):
                if frame.seq > span[1]:
                    return None
                if frame.wall_us > one.last_wall_us or frame.seq >= self._began_seq:
                    return frame.seq
        finally:
            reader.close()
        return None

    def _open(self, place: Place) -> SegmentFile | None:
        try:
            return SegmentFile.open(place.path, place.first_seq)
        except FileNotFoundError:
            return None


def _meeting(own: Sequence[_Stretch], others: Sequence[HeldBoot]) -> list[tuple[_Stretch, HeldBoot]]:
    return [
        (stretch, one)
        for stretch in own
        for one in others
        if stretch.first_seq <= one.last_seq and one.first_seq <= stretch.last_seq
    ]
