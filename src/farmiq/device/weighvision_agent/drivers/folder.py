"""Pictures from a folder, in the order of their names, and then from the beginning again.

For a camera that writes files itself, and for trying a station out. Whoever puts a file there moves it in under its final name:
one that is still being written is no picture yet.
"""

from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta

from farmiq.device.weighvision_agent.drivers.plugin import CameraPlugin, CameraTable, DriverFault
from farmiq.kit.clock import Clock

SUFFIXES: Final = frozenset({".jpg", ".jpeg", ".png", ".webp"})
FILE_BYTES_MAX: Final = 64 * 1024 * 1024


class FolderTable(CameraTable, frozen=True, kw_only=True):
    folder: Annotated[str, Meta(min_length=1)]


class Folder:
    def __init__(self, table: FolderTable, _clock: Clock) -> None:
        self._folder = Path(table.folder)
        self._last = ""

    def capture(self) -> bytes:
        try:
            names = sorted(path.name for path in self._folder.iterdir() if path.suffix.lower() in SUFFIXES)
            if not names:
                raise DriverFault(f"{self._folder}: no JPEG, PNG or WebP in it")
            self._last = next((name for name in names if name > self._last), names[0])
            path = self._folder / self._last
            if path.stat().st_size > FILE_BYTES_MAX:
                raise DriverFault(f"{path}: more than {FILE_BYTES_MAX} bytes")
            return path.read_bytes()
        except OSError as error:
            raise DriverFault(f"{error.filename or self._folder}: {error.strerror}") from error

    def close(self) -> None:
        pass


PLUGIN = CameraPlugin(FolderTable, Folder)
