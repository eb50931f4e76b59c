"""The wall clock of all services of the farm, moved by libfaketime (Debian's package `libfaketime`) and put right again.

Their monotonic clocks go on, and so do the servers': PostgreSQL, RabbitMQ, Mosquitto and the object store keep the right time."""

from pathlib import Path
from typing import Final

LIBRARY: Final = "faketime/libfaketime.so.1"
_FOLDERS: Final = ("usr/lib/*-linux-*", "usr/lib64", "usr/lib", "usr/local/lib")


class ServicesClock:
    def __init__(self, file: Path, library: Path | None = None) -> None:
        self._file = file
        self._library = library or next(
            (path for folder in _FOLDERS for path in sorted(Path("/").glob(f"{folder}/{LIBRARY}"))), None
        )

    @property
    def can_be_moved(self) -> bool:
        return self._library is not None

    def environment(self) -> dict[str, str]:
        """For whoever is to see this clock. It is right until `move` is called."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self.put_right()
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            # Files get the time that the kernel gives them, and waiting takes as long as it takes.
            "NO_FAKE_STAT": "1",
            "FAKETIME_FLSHM": "0",
        }

    def move(self, seconds: float) -> None:
        """In one step: who reads it sees the old time or the new one."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{seconds:+.0f}\n", encoding="ascii")
        new.replace(self._file)

    def put_right(self) -> None:
        self.move(0)
