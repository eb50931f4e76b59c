"""ThingsBoard Gateway's file and SQLite storages, fed as the gateway's own `__send_data_pack_to_storage` feeds them.

A record is the JSON of one device's readings. The gateway cuts records at `maxPayloadSizeBytes`, 8196 unless told; here a
record is one sample, as a connector with one value a message makes them, or as many as fit. Making the objects that the
gateway's connectors build before that is left out, in its favour.
"""

import logging
import os
import sqlite3
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from threading import Event
from typing import Any

import simplejson  # type: ignore[import-untyped]  # installed in .venv-peers only, and no stubs here
from thingsboard_gateway.storage.file.file_event_storage import (  # type: ignore[import-not-found]  # as above
    FileEventStorage,
)
from thingsboard_gateway.storage.sqlite.sqlite_event_storage import (  # type: ignore[import-not-found]  # as above
    SQLiteEventStorage,
)
from thingsboard_gateway.tb_utility.tb_logger import TbLogger  # type: ignore[import-not-found]  # as above

from stores import CHANNELS, PIECE_SAMPLES, Reading, Sample, Store, StoreFailed
from stores.sqlite_wal import sync_log

POLLS_A_RECORD = 38  # of 10 channels; 39 would be more than 8196 bytes
WAIT_SECONDS_MAX = 60.0


class _Gateway(Store):
    def __init__(self, storage: Any, *, packs_polls: bool) -> None:
        self._storage = storage
        self._samples_a_record = POLLS_A_RECORD * CHANNELS if packs_polls else 1
        self.put_count = 0

    def append(self, group: list[Sample]) -> None:
        for start in range(0, len(group), self._samples_a_record):
            record = _record(group[start : start + self._samples_a_record])
            if not self._storage.put(record):
                raise StoreFailed("the gateway's storage refused a record")
            self.put_count += 1

    def pieces(self) -> Iterator[int]:
        while records := self._storage.get_event_pack():
            readings = [simplejson.loads(record)["telemetry"] for record in records]
            self._storage.event_pack_processing_done()
            yield sum(len(entry["values"]) for telemetry in readings for entry in telemetry)

    def readings(self) -> Iterator[Reading]:
        while records := self._storage.get_event_pack():
            for record in records:
                yield from _readings(record)
            self._storage.event_pack_processing_done()


def _record(samples: list[Sample]) -> str:
    telemetry = [
        {"ts": wall_us // 1000, "values": {f"temperature-{sample[2]}": sample[4] for sample in poll}}
        for wall_us, poll in groupby(samples, key=lambda sample: sample[0])
    ]
    readings = {"deviceName": "node-1", "deviceType": "default", "telemetry": telemetry, "attributes": {}}
    return str(simplejson.dumps(readings, separators=(",", ":"), skipkeys=True, ignore_nan=True))


def _readings(record: str) -> Iterator[Reading]:
    try:
        telemetry = simplejson.loads(record)["telemetry"]
    except ValueError:
        return  # the gateway logs such a record and skips it
    for entry in telemetry:
        for name, value in entry["values"].items():
            yield entry["ts"], int(name.removeprefix("temperature-")), value


class FileStorage(_Gateway):
    """It never syncs; the file at its head is synced from outside."""

    def __init__(self, folder: Path, *, packs_polls: bool) -> None:
        self._folder = folder / "data"
        settings = {
            "data_folder_path": f"{self._folder}/",
            "max_records_per_file": 10_000,
            "max_file_count": 1_000_000,  # 10 in the configuration that comes with it: then new data is dropped
            "max_read_records_count": PIECE_SAMPLES,
        }
        super().__init__(FileEventStorage(settings, _log(), Event()), packs_polls=packs_polls)

    def sync(self) -> None:
        newest = max(self._folder.glob("data_*.txt"), key=lambda path: path.name)
        fd = os.open(newest, os.O_RDONLY)
        try:
            os.fdatasync(fd)
        finally:
            os.close(fd)


class SqliteStorage(_Gateway):
    """`put` hands a record to a thread that commits it later; a sync waits for that, then stores SQLite's log."""

    def __init__(self, folder: Path, *, packs_polls: bool) -> None:
        settings = {"data_file_path": f"{folder}/data/", "max_read_records_count": PIECE_SAMPLES}
        super().__init__(SQLiteEventStorage(settings, _log(), Event()), packs_polls=packs_polls)
        self._path = folder / "data" / "data.db"
        self._witness = sqlite3.connect(self._path)  # another connection sees only what is committed

    def sync(self) -> None:
        give_up_at = time.monotonic() + WAIT_SECONDS_MAX
        while self._committed() < self.put_count:
            if time.monotonic() > give_up_at:
                raise StoreFailed("the gateway's storage did not commit what it was given")
            time.sleep(0.002)
        sync_log(self._path)

    def _committed(self) -> int:
        return int(self._witness.execute("SELECT coalesce(max(id), 0) FROM messages").fetchone()[0])


def _log() -> logging.Logger:
    logging.setLoggerClass(TbLogger)
    log = logging.getLogger("storage")
    log.setLevel(logging.ERROR)
    return log


def file(folder: Path) -> Store:
    return FileStorage(folder, packs_polls=False)


def file_packed(folder: Path) -> Store:
    return FileStorage(folder, packs_polls=True)


def sqlite(folder: Path) -> Store:
    return SqliteStorage(folder, packs_polls=False)


def sqlite_packed(folder: Path) -> Store:
    return SqliteStorage(folder, packs_polls=True)
