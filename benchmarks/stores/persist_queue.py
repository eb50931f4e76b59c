"""persist-queue's file queue and its SQLite queue with acknowledgements. An item is one sample, or a whole group."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import persistqueue  # type: ignore[import-not-found]  # installed in .venv-peers only

from stores import Reading, Sample, Store


class _PersistQueue(Store):
    def __init__(self, queue: Any, forget: Callable[[Any], None], *, packs_groups: bool) -> None:
        self._queue = queue
        self._forget = forget
        self._packs_groups = packs_groups

    def append(self, group: list[Sample]) -> None:
        if self._packs_groups:
            self._queue.put(group)
            return
        for sample in group:
            self._queue.put(sample)

    def pieces(self) -> Iterator[int]:
        for item in self._items():
            yield len(item) if self._packs_groups else 1

    def readings(self) -> Iterator[Reading]:
        for item in self._items():
            for wall_us, _monotonic_us, channel, _quality, value in item if self._packs_groups else [item]:
                yield wall_us // 1000, channel, value

    def _items(self) -> Iterator[Any]:
        while self._queue.qsize():
            item = self._queue.get(block=False)
            self._forget(item)
            yield item

    def sync(self) -> None:
        """Every `put` of the SQLite queue is a synced transaction already."""


class FileQueue(_PersistQueue):
    """It syncs each chunk of 100 items as it fills one; the chunk at its head is synced from outside."""

    def __init__(self, folder: Path, *, packs_groups: bool) -> None:
        queue = persistqueue.Queue(str(folder / "queue"), tempdir=str(folder))
        super().__init__(queue, lambda _item: queue.task_done(), packs_groups=packs_groups)

    def sync(self) -> None:
        os.fdatasync(self._queue.headf.fileno())


def file(folder: Path) -> Store:
    return FileQueue(folder, packs_groups=False)


def file_packed(folder: Path) -> Store:
    return FileQueue(folder, packs_groups=True)


def sqlite(folder: Path) -> Store:
    queue = persistqueue.SQLiteAckQueue(str(folder))
    return _PersistQueue(queue, queue.ack, packs_groups=False)


def sqlite_packed(folder: Path) -> Store:
    queue = persistqueue.SQLiteAckQueue(str(folder))
    return _PersistQueue(queue, queue.ack, packs_groups=True)
