"""The moves of one store, in a process of its own, so that a kill is a real one and no store inherits another's heap.

    python -m stores.run append STORE FOLDER --samples N --group N --sync-seconds S --limit-seconds S
    python -m stores.run reopen STORE FOLDER --limit-seconds S [--cold]

Prints one line of JSON. `append` then kills itself; `reopen` ends without closing anything, so the folder stays as it is.
"""

import argparse
import json
import os
import signal
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

from stores import CHANNELS, Sample, Store, poll
from stores.catalogue import ENTRIES

_DISTINCT_SAMPLES = 100_000  # more than the processor's caches hold, less than a small machine's memory


def groups_of(size: int) -> Iterator[list[Sample]]:
    """For ever. Made before the clock starts; every store gets the same."""
    polls = max(_DISTINCT_SAMPLES, size) // CHANNELS
    samples = [sample for number in range(polls) for sample in poll(number)]
    return cycle([samples[at : at + size] for at in range(0, len(samples) - size + 1, size)])


def append(store: Store, samples: int, group: int, sync_seconds: float, limit_seconds: float) -> dict[str, float]:
    groups, written = groups_of(group), 0
    begun_at = synced_at = time.perf_counter()
    while written < samples and time.perf_counter() - begun_at < limit_seconds:
        store.append(next(groups))
        written += group
        if time.perf_counter() - synced_at >= sync_seconds:
            store.sync()
            synced_at = time.perf_counter()
    store.sync()
    return {"samples": written, "seconds": time.perf_counter() - begun_at}


def reopen(name: str, folder: Path, limit_seconds: float) -> dict[str, float]:
    open_store = ENTRIES[name].load()
    begun_at = time.perf_counter()
    store = open_store(folder)
    opened_at = time.perf_counter()
    store.check()
    checked_at = time.perf_counter()
    samples, is_whole = read(store, checked_at + limit_seconds)
    return {
        "open_seconds": opened_at - begun_at,
        "check_seconds": checked_at - opened_at,
        "read_seconds": time.perf_counter() - checked_at,
        "samples": samples,
        "is_whole": is_whole,
    }


def read(store: Store, give_up_at: float) -> tuple[int, bool]:
    samples = 0
    for count in store.pieces():
        samples += count
        if time.perf_counter() > give_up_at:
            return samples, False
    return samples, True


def forget_pages(folder: Path) -> None:
    """Ask the kernel to drop what it holds of these files in memory, so that they come from the disk."""
    for path in folder.rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            os.fsync(fd)  # only stored pages can be dropped
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("move", choices=["append", "reopen"])
    parser.add_argument("store", choices=sorted(ENTRIES))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--group", type=int, default=1000)
    parser.add_argument("--sync-seconds", type=float, default=1.0)
    parser.add_argument("--limit-seconds", type=float, default=60.0)
    parser.add_argument("--cold", action="store_true")
    given = parser.parse_args()
    if given.move == "append":
        store = ENTRIES[given.store].load()(given.folder)
        print(
            json.dumps(append(store, given.samples, given.group, given.sync_seconds, given.limit_seconds)), flush=True
        )
        os.kill(os.getpid(), signal.SIGKILL)
    if given.cold:
        forget_pages(given.folder)
    print(json.dumps(reopen(given.store, given.folder, given.limit_seconds)), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
