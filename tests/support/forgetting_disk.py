"""A disk that forgets what was not synced, under the real system calls of the code that is tested.

While a `ForgettingDisk` is in use it stands before the calls of `os` that change a folder. Every call is really made, and
beside the live folder the disk keeps what a power cut would leave:

- of a file, what its last sync covered; and of each sector and of the size, any later state as well, each for itself,
  because the kernel writes back what it likes when it likes;
- of a folder, the names at its last sync; and any of the later creations, renames and removals, each whole or not at all.

A sync that fails lets go of what it should have stored: a later one reports success without it, as on Linux. A write
within one sector is stored whole or not at all.

A `Fault` meets one of the calls: the process ends before it, or in the middle of a write, or the call is refused, or a
write is short. Once the process has ended it changes nothing any more, whatever its `except` and `finally` try.
"""

import enum
import errno
import functools
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

SECTOR = 512

Choose = Callable[[int], int]  # one of so many states; 0 is the oldest


def all_it_can(_states: int) -> int:
    """A power cut that takes whatever was not synced."""
    return 0


def nothing(states: int) -> int:
    """A power cut just after the kernel had written everything back."""
    return states - 1


class Ended(BaseException):
    """The process comes no further than this."""


class Kind(enum.Enum):
    ENDS_BEFORE = "the process ends before the call"
    ENDS_IN_WRITE = "the process ends in the middle of the write"
    IO_ERROR = "input/output error"
    NO_SPACE = "no space left"
    SHORT_WRITE = "less is written than was asked"


@dataclass(frozen=True)
class Fault:
    kind: Kind
    at_call: int  # counted from 1
    calls: int = 1  # how many in a row it meets, for a disk that refuses for a while


@dataclass
class _File:
    size: int = 0
    stored: dict[int, bytes] = field(default_factory=dict)
    _later: dict[int, list[bytes]] = field(default_factory=dict)
    _later_sizes: list[int] = field(default_factory=list)
    _let_go: set[int] = field(default_factory=set)

    @classmethod
    def holding(cls, content: bytes) -> "_File":
        return cls(len(content), {at // SECTOR: content[at : at + SECTOR] for at in range(0, len(content), SECTOR)})

    def changed(self, fd: int, offset: int, length: int) -> None:
        for sector in range(offset // SECTOR, -(-(offset + length) // SECTOR)):
            self._later.setdefault(sector, []).append(os.pread(fd, SECTOR, sector * SECTOR))
            self._let_go.discard(sector)
        self._later_sizes.append(os.fstat(fd).st_size)

    def synced(self, fd: int) -> None:
        for sector in self._later.keys() - self._let_go:
            self.stored[sector] = self._later.pop(sector)[-1]
        self.size = os.fstat(fd).st_size
        self._later_sizes.clear()

    def sync_failed(self) -> None:
        self._let_go |= self._later.keys()

    def survivor(self, choose: Choose) -> bytes:
        size = _one_of([self.size, *self._later_sizes], choose)
        sectors = range(-(-size // SECTOR))
        states = ([self.stored.get(sector, b""), *self._later.get(sector, [])] for sector in sectors)
        return b"".join(_one_of(each, choose).ljust(SECTOR, b"\0") for each in states)[:size]


@dataclass
class _Folder:
    live: "dict[str, _File | _Folder]" = field(default_factory=dict)
    stored: "dict[str, _File | _Folder]" = field(default_factory=dict)


_Place = tuple[_Folder, str]


@dataclass(frozen=True)
class _Change:
    """A name that came, or went, or did both in one step."""

    node: _File | _Folder
    gone: _Place | None = None
    come: _Place | None = None

    def is_in(self, folder: _Folder) -> bool:
        return any(place is not None and place[0] is folder for place in (self.gone, self.come))

    def live(self) -> None:
        if self.gone:
            del self.gone[0].live[self.gone[1]]
        if self.come:
            self.come[0].live[self.come[1]] = self.node

    def store(self) -> None:
        if self.gone and self.gone[0].stored.get(self.gone[1]) is self.node:
            del self.gone[0].stored[self.gone[1]]
        if self.come:
            self.come[0].stored[self.come[1]] = self.node


class ForgettingDisk:
    def __init__(self, root: Path) -> None:
        """`root` is an empty folder, and durable itself."""
        self.root = root
        self.calls: list[str] = []
        self.met: list[str] = []  # the calls that a fault has met so far
        self.has_refused = False
        self._top = _Folder()
        self._changes: list[_Change] = []
        self._opened: dict[int, _File | _Folder] = {}
        self._fault: Fault | None = None
        self._is_ended = False

    @contextmanager
    def in_use(self, fault: Fault | None = None) -> Iterator[None]:
        """The calls within are counted, and the fault meets the one that it names."""
        self.calls, self._fault = [], fault
        ours = {name.removeprefix("_do_"): getattr(self, name) for name in dir(self) if name.startswith("_do_")}
        real = {name: getattr(os, name) for name in ours}
        for name, call in ours.items():
            setattr(os, name, functools.partial(call, real[name]))
        try:
            yield
        finally:
            for name, call in real.items():
                setattr(os, name, call)

    def end_process(self) -> None:
        """The kernel closes what was open and keeps what was written."""
        for fd in self._opened:
            os.close(fd)
        self._opened.clear()
        self._is_ended = False

    def cut_power(self, choose: Choose) -> None:
        """Only what survived is there afterwards, and all of that is stored."""
        self.end_process()
        for change in self._changes:
            if _one_of([False, True], choose):
                change.store()
        self._changes.clear()
        for path in self.root.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        self._top = self._rebuilt(self.root, self._top, choose)

    def _rebuilt(self, path: Path, folder: _Folder, choose: Choose) -> _Folder:
        nodes: dict[str, _File | _Folder] = {}
        for name, node in sorted(folder.stored.items()):
            if isinstance(node, _Folder):
                (path / name).mkdir()
                nodes[name] = self._rebuilt(path / name, node, choose)
            else:
                content = node.survivor(choose)
                (path / name).write_bytes(content)
                nodes[name] = _File.holding(content)
        return _Folder(nodes, dict(nodes))

    # The calls. Each is given the real one.

    def _do_open(self, real: Callable[..., int], path: Any, flags: int, *rest: Any, **more: Any) -> int:
        place = self._place(path)
        if place is None:
            return real(path, flags, *rest, **more)
        folder, name = place
        node: _File | _Folder | None = self._top if folder is self._top and not name else folder.live.get(name)
        if (node is None and flags & os.O_CREAT) or flags & os.O_TRUNC:
            self._count("open", node)
        if flags & os.O_WRONLY:
            flags ^= os.O_WRONLY | os.O_RDWR  # what is written is read back here
        fd = real(path, flags, *rest, **more)
        if node is None:
            node = _File()
            self._change(_Change(node, come=place))
        elif flags & os.O_TRUNC and isinstance(node, _File):
            node.changed(fd, 0, node.size)
        self._opened[fd] = node
        return fd

    def _do_close(self, real: Callable[[int], None], fd: int) -> None:
        self._opened.pop(fd, None)
        real(fd)

    def _do_pwrite(self, real: Callable[..., int], fd: int, data: Any, offset: int) -> int:
        file = self._opened.get(fd)
        if not isinstance(file, _File):
            return real(fd, data, offset)
        kind = self._count("pwrite", file)
        is_one_sector = offset // SECTOR == (offset + len(data) - 1) // SECTOR
        is_torn = kind is Kind.SHORT_WRITE or (kind is Kind.ENDS_IN_WRITE and not is_one_sector)
        written = real(fd, data[: len(data) // 2 + 1] if is_torn else data, offset)
        file.changed(fd, offset, written)
        if kind is Kind.ENDS_IN_WRITE:
            self._end("pwrite")
        return written

    def _do_ftruncate(self, real: Callable[..., None], fd: int, length: int) -> None:
        file, before = self._opened.get(fd), os.fstat(fd).st_size
        if isinstance(file, _File):
            self._count("ftruncate", file)
        real(fd, length)
        if isinstance(file, _File):
            file.changed(fd, min(before, length), max(0, before - length))

    def _do_posix_fallocate(self, real: Callable[..., None], fd: int, offset: int, length: int) -> None:
        file = self._opened.get(fd)
        if isinstance(file, _File):
            self._count("posix_fallocate", file)
        real(fd, offset, length)
        if isinstance(file, _File):
            file.changed(fd, offset, 0)

    def _do_fsync(self, real: Callable[[int], None], fd: int) -> None:
        node = self._opened.get(fd)
        if node is not None:
            self._count(real.__name__, node)
        real(fd)
        if isinstance(node, _File):
            node.synced(fd)
        elif isinstance(node, _Folder):
            for change in [change for change in self._changes if change.is_in(node)]:
                change.store()
                self._changes.remove(change)

    _do_fdatasync = _do_fsync

    def _do_rename(self, real: Callable[..., None], old: Any, new: Any) -> None:
        gone, come = self._place(old), self._place(new)
        if gone and come:
            self._count("rename", None)
        real(old, new)
        if gone and come:
            self._change(_Change(gone[0].live[gone[1]], gone, come))

    _do_replace = _do_rename

    def _do_unlink(self, real: Callable[..., None], path: Any, **more: Any) -> None:
        place = self._place(path)
        if place:
            self._count("unlink", None)
        real(path, **more)
        if place:
            self._change(_Change(place[0].live[place[1]], gone=place))

    def _do_mkdir(self, real: Callable[..., None], path: Any, *rest: Any, **more: Any) -> None:
        place = self._place(path)
        if place:
            self._count("mkdir", None)
        real(path, *rest, **more)
        if place:
            self._change(_Change(_Folder(), come=place))

    def _place(self, path: Any) -> _Place | None:
        """Where a path stands. None when it is not ours; an empty name for the root itself."""
        absolute = Path(path)
        if not absolute.is_relative_to(self.root):
            return None
        folder, parts = self._top, absolute.relative_to(self.root).parts
        for part in parts[:-1]:
            inner = folder.live[part]
            assert isinstance(inner, _Folder)
            folder = inner
        return folder, parts[-1] if parts else ""

    def _change(self, change: _Change) -> None:
        change.live()
        self._changes.append(change)

    def _count(self, call: str, node: _File | _Folder | None) -> Kind | None:
        """The kind of the fault when the call has to see to it itself."""
        if self._is_ended:
            raise Ended(call)
        self.calls.append(call)
        fault, number = self._fault, len(self.calls)
        kind = fault.kind if fault and fault.at_call <= number < fault.at_call + fault.calls else None
        self.met += [call] if kind else []
        if kind is Kind.ENDS_BEFORE or (kind is Kind.ENDS_IN_WRITE and call != "pwrite"):
            self._end(call)
        if kind in (Kind.IO_ERROR, Kind.NO_SPACE):
            self.has_refused = True
            if call in ("fsync", "fdatasync") and isinstance(node, _File):
                node.sync_failed()
            error = errno.EIO if kind is Kind.IO_ERROR else errno.ENOSPC
            raise OSError(error, os.strerror(error), call)
        return kind

    def _end(self, call: str) -> NoReturn:
        self._is_ended = True
        raise Ended(call)


def _one_of(states: list[Any], choose: Choose) -> Any:
    return states[choose(len(states))] if len(states) > 1 else states[0]
