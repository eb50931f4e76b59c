"""A short life of a spool that tells what it promises while it promises it, and goes on when the disk refuses.

python live_and_tell.py FOLDER                 told on stdout, one promise a line
python live_and_tell.py FOLDER sites           told instead: which system call was made from where, in order
python live_and_tell.py FOLDER short|torn N    the N-th write is short; after a torn one the process is killed
"""

import functools
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

from farmiq.spool import Limits, Spool, SpoolError
from unit.spool.spool_world import BOOT, CHANNELS, START_US, samples

TURNS = 18
LIMITS = Limits(segment_bytes=4096, grow_bytes=2048, max_spool_bytes=4 * 4096, keep_acked_bytes=0)
# By the names that the kernel has for them. Python's own start makes none of these but `openat`.
CALLS = {
    "pwrite": "pwrite64", "fdatasync": "fdatasync", "fsync": "fsync", "posix_fallocate": "fallocate",
    "ftruncate": "ftruncate", "rename": "rename", "replace": "rename", "unlink": "unlink", "mkdir": "mkdir",
}  # fmt: skip

Tell = Callable[..., None]


def opened(folder: Path) -> Spool:
    spool = Spool(folder, LIMITS)
    spool.begin(BOOT, CHANNELS)
    return spool


class Life:
    def __init__(self, folder: Path, tell: Tell) -> None:
        self.folder = folder
        self.tell = tell
        self.spool: Spool | None = None

    def live(self) -> None:
        for turn in range(TURNS):
            try:
                self._turn(turn, self.spool or opened(self.folder))
            except (OSError, SpoolError):
                self.tell("refused", turn)

    def _turn(self, turn: int, spool: Spool) -> None:
        self.spool = spool
        if turn == 7:  # as after a kill: nothing is synced, and the next one recovers
            spool.append_many(samples(5, 9000))
            spool.release()
            self.spool = None
            self.spool = spool = opened(self.folder)
        self._append(turn, spool)
        if turn % 5 == 2:
            spool.give_up(UUID(int=turn), 4, (START_US, START_US))
            self.tell("given_up", turn, 4)
        if turn in (3, 7, 11):
            self.tell("at_edge", spool.synced_seq // 2)
            spool.acknowledge(spool.synced_seq // 2)
            spool.trim()
        if turn == 11:
            back_to = spool.acked.seq // 2
            spool.go_back(back_to, "another")
            self.tell("back", back_to)

    def _append(self, turn: int, spool: Spool) -> None:
        span = spool.append_many(samples(30, turn * 100 + 1))
        spool.sync()
        assert span is not None
        self.tell("kept", *span, turn * 100 + 1)


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def note_sites(folder: Path) -> None:
    sites: list[tuple[str, str]] = []

    def noted(name: str, call: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        ours = [frame for frame in traceback.extract_stack() if "/farmiq/spool/" in frame.filename]
        sites.append((CALLS[name], " ".join(f"{Path(frame.filename).stem}.{frame.name}" for frame in ours)))
        return call(*arguments, **more)

    for name in CALLS:
        setattr(os, name, functools.partial(noted, name, getattr(os, name)))
    Life(folder, lambda *_: None).live()
    say(json.dumps(sites))


def shorten(at_call: int, *, is_torn: bool) -> None:
    real, calls = os.pwrite, 0

    def pwrite(fd: int, data: Any, offset: int) -> int:
        nonlocal calls
        calls += 1
        if calls != at_call:
            return real(fd, data, offset)
        written = real(fd, data[: len(data) * 2 // 3], offset)
        if is_torn:
            os.kill(os.getpid(), signal.SIGKILL)
        return written

    os.pwrite = pwrite


def main(folder: Path, mode: str = "", number: str = "0") -> None:
    if mode == "sites":
        note_sites(folder)
        return
    if mode:
        shorten(int(number), is_torn=mode == "torn")
    Life(folder, say).live()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
