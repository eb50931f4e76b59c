"""The folder of a store as its disk holds it, followed call by call. The rules are in the package's card."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from power_cut.content import Choose, File, Folder
from power_cut.names import Names
from power_cut.trace import Call, data_of, descriptor_of

_SYNCED_WRITES = {"O_SYNC", "O_DSYNC"}
_CHANGES_IN_MEMORY = {"PROT_WRITE", "MAP_SHARED"}
_BUILT_ANEW = "-shm"  # SQLite's index of its log


class NotJudged(Exception):
    """The store did something whose fate in a power cut this disk does not know. The message names the call."""


@dataclass
class _Opened:
    node: File | Folder
    appends: bool
    is_synced: bool
    position: int = 0


class TracedDisk:
    def __init__(self, root: Path) -> None:
        """`root` is empty and durable itself."""
        self._root = root
        self._names = Names(root)
        self._opened: dict[int, _Opened] = {}
        self._number = 0  # of the call that is being followed
        self._calls: dict[str, Callable[[Call], None]] = {
            "open": lambda call: self._open(call, None, *call.arguments[:2]),
            "openat": lambda call: self._open(call, *call.arguments[:3]),
            "creat": lambda call: self._open(call, None, call.arguments[0], "O_CREAT|O_TRUNC"),
            "close": self._close,
            "lseek": self._lseek,
            "mmap": self._mmap,
            "write": self._write,
            "pwrite64": self._pwrite,
            "ftruncate": self._ftruncate,
            "fallocate": self._fallocate,
            "fsync": self._sync,
            "fdatasync": self._sync,
            "sync": lambda _call: self.settle(),
            "syncfs": lambda _call: self.settle(),
            "rename": lambda call: self._rename(None, call.arguments[0], None, call.arguments[1]),
            "renameat": lambda call: self._rename(*call.arguments[:4]),
            "renameat2": lambda call: self._rename(*call.arguments[:4]),
            "unlink": lambda call: self._unlink(None, call.arguments[0]),
            "unlinkat": lambda call: self._unlink(*call.arguments[:2]),
            "rmdir": lambda call: self._unlink(None, call.arguments[0]),
            "mkdir": lambda call: self._mkdir(None, call.arguments[0]),
            "mkdirat": lambda call: self._mkdir(*call.arguments[:2]),
        }

    def holds(self, call: Call) -> bool:
        """Whether the call is about this folder."""
        return call.name in {"sync", "syncfs"} or any(path.is_relative_to(self._root) for path in paths_of(call))

    def apply(self, call: Call) -> None:
        self._number = call.number
        if call.result < 0 and call.name != "mmap":
            return  # refused by the kernel: nothing has changed
        if call.name not in self._calls:
            raise NotJudged(f"{call.name}({', '.join(call.arguments)[:120]})")
        self._calls[call.name](call)

    def settle(self) -> None:
        """All that is there is durable now."""
        self._names.settle()

    def survivors(self, choose: Choose, written_back: int = 0) -> dict[Path, bytes | None]:
        """What is there after a cut at this moment, by path from the root; None is a folder.

        The kernel had written back by itself whatever was changed up to the call of that number.
        """
        return {
            path.relative_to(self._root): node.survivor(choose, stored_until)
            for path, node, stored_until in self._names.survivors(choose, written_back)
        }

    # --- Descriptors -----------------------------------------------------------------------------------------------------------

    def _open(self, call: Call, folder: str | None, name: str, flags: str) -> None:
        path, chosen = _path(folder, name), set(flags.split("|"))
        node = self._names.at(path)
        if node is None:
            if "O_CREAT" not in chosen:
                raise NotJudged(f"opened a file that was never made: {path.name}")
            node = File()
            self._names.come(self._number, path, node)
        elif "O_TRUNC" in chosen and isinstance(node, File):
            node.resize(self._number, 0)
        self._opened[call.result] = _Opened(node, "O_APPEND" in chosen, bool(chosen & _SYNCED_WRITES))

    def _close(self, call: Call) -> None:
        number, _path_of_it = descriptor_of(call.arguments[0])
        if number is not None:
            self._opened.pop(number, None)

    def _lseek(self, call: Call) -> None:
        self._descriptor(call).position = call.result

    def _mmap(self, call: Call) -> None:
        _number, path = descriptor_of(call.arguments[4])
        asked = set(call.arguments[2].split("|")) | set(call.arguments[3].split("|"))
        if asked >= _CHANGES_IN_MEMORY and path is not None and not path.name.endswith(_BUILT_ANEW):
            raise NotJudged(f"{path.name} is changed through a mapping")

    def _descriptor(self, call: Call) -> _Opened:
        number, path = descriptor_of(call.arguments[0])
        if number is None or number not in self._opened:
            raise NotJudged(f"{call.name} on a descriptor that was not seen being opened: {path}")
        return self._opened[number]

    def _file(self, call: Call) -> tuple[_Opened, File]:
        opened = self._descriptor(call)
        if not isinstance(opened.node, File):
            raise NotJudged(f"{call.name} on a folder")
        return opened, opened.node

    # --- Contents --------------------------------------------------------------------------------------------------------------

    def _write(self, call: Call) -> None:
        opened, file = self._file(call)
        offset = file.size if opened.appends else opened.position
        opened.position = offset + call.result
        self._changed(opened, file, offset, data_of(call.arguments[1])[: call.result])

    def _pwrite(self, call: Call) -> None:
        opened, file = self._file(call)
        self._changed(opened, file, int(call.arguments[3]), data_of(call.arguments[1])[: call.result])

    def _changed(self, opened: _Opened, file: File, offset: int, data: bytes) -> None:
        file.write(self._number, offset, data)
        if opened.is_synced:
            self._store(file, self._number)

    def _ftruncate(self, call: Call) -> None:
        self._file(call)[1].resize(self._number, int(call.arguments[1]))

    def _fallocate(self, call: Call) -> None:
        _opened, file = self._file(call)
        _fd, mode, offset, length = call.arguments
        if mode == "0":
            file.resize(self._number, max(file.size, int(offset) + int(length)))
        elif mode != "FALLOC_FL_KEEP_SIZE":
            raise NotJudged(f"fallocate with {mode}")

    def _sync(self, call: Call) -> None:
        # A change that was made while the sync was under way may or may not be part of it, so it is not.
        self._store(self._descriptor(call).node, call.begun)

    def _store(self, node: File | Folder, until: int) -> None:
        if isinstance(node, File):
            node.store(until)
        self._names.store(node, until)

    # --- Names -----------------------------------------------------------------------------------------------------------------

    def _rename(self, old_folder: str | None, old: str, new_folder: str | None, new: str) -> None:
        self._names.rename(self._number, _path(old_folder, old), _path(new_folder, new))

    def _unlink(self, folder: str | None, name: str) -> None:
        self._names.go(self._number, _path(folder, name))

    def _mkdir(self, folder: str | None, name: str) -> None:
        self._names.come(self._number, _path(folder, name), Folder())


def paths_of(call: Call) -> list[Path]:
    """Every path that a call names, by descriptor or by name."""
    folder: Path | None = None
    found: list[Path] = []
    for argument in call.arguments if call.name not in {"write", "pwrite64"} else call.arguments[:1]:
        if argument.startswith('"'):
            name = os.fsdecode(data_of(argument))
            found.append(folder / name if folder else Path(name))
            folder = None
        elif (path := descriptor_of(argument)[1]) is not None:
            found.append(path)
            folder = path
    return found


def _path(folder: str | None, name: str) -> Path:
    above = descriptor_of(folder)[1] if folder else None
    path = Path(os.fsdecode(data_of(name)))
    return above / path if above else path
