"""What is in a file, as the disk may hold it: what was stored, and every change since."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

PAGE_BYTES = 4096

Choose = Callable[[int], int]  # one of so many states: 0 is what was stored, the last one is the newest


@dataclass(frozen=True, slots=True)
class _Change:
    number: int
    offset: int
    data: bytes
    size: int  # of the file afterwards

    def pages(self) -> range:
        return range(self.offset // PAGE_BYTES, -(-(self.offset + len(self.data)) // PAGE_BYTES))

    def onto(self, content: bytearray, start: int = 0) -> None:
        """`content` stands at `start` in the file and keeps its length."""
        first, last = max(self.offset, start), min(self.offset + len(self.data), start + len(content))
        if first < last:
            content[first - start : last - start] = self.data[first - self.offset : last - self.offset]


@dataclass(eq=False)
class File:
    size: int = 0  # as a program sees it
    _stored: bytearray = field(default_factory=bytearray)
    _later: list[_Change] = field(default_factory=list)

    def write(self, number: int, offset: int, data: bytes) -> None:
        self.size = max(self.size, offset + len(data))
        self._later.append(_Change(number, offset, data, self.size))

    def resize(self, number: int, size: int) -> None:
        cut_off = bytes(max(0, self.size - size))
        self.size = size
        self._later.append(_Change(number, size, cut_off, size))

    def store(self, until: int) -> None:
        """Changes up to this call are durable now."""
        for change in self._later:
            if change.number <= until:
                end = max(change.size, change.offset + len(change.data))
                self._stored.extend(bytes(max(0, end - len(self._stored))))
                change.onto(self._stored)
                del self._stored[change.size :]
        self._later = [change for change in self._later if change.number > until]

    def settle(self) -> None:
        if self._later:
            self.store(self._later[-1].number)

    def survivor(self, choose: Choose, written_back: int) -> bytes:
        """After a cut, when the kernel had stored the changes up to that call by itself."""
        held = File(self.size, bytearray(self._stored), list(self._later))
        held.store(written_back)
        return held._any_state(choose)

    def _any_state(self, choose: Choose) -> bytes:
        sizes = [len(self._stored), *(change.size for change in self._later)]
        size = sizes[choose(len(sizes))] if self._later else sizes[0]
        content = self._stored[:size]
        content.extend(bytes(size - len(content)))
        for page, changes in self._later_by_page().items():
            start = page * PAGE_BYTES
            survives = content[start : start + PAGE_BYTES]
            for change in changes[: choose(len(changes) + 1)]:
                change.onto(survives, start)
            content[start : start + PAGE_BYTES] = survives
        return bytes(content)

    def _later_by_page(self) -> dict[int, list[_Change]]:
        pages: dict[int, list[_Change]] = defaultdict(list)
        for change in self._later:
            for page in change.pages():
                pages[page].append(change)
        return pages


class Folder:
    def survivor(self, _choose: Choose, _written_back: int) -> None:
        """A folder has names and nothing else."""
