"""What the relay was told, on disk: a cut outlives the process that makes it."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from farmiq.kit.logging import get_logger
from farmiq.stack.private_files import write_private
from farmiq.stack.relay.faults import RouteFaults

log = get_logger(__name__)


class Memory:
    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> dict[str, RouteFaults]:
        """A file that can't be read is set aside: a farm whose relay does not start is worse than one without its faults."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, RouteFaults])
        except FileNotFoundError:
            return {}
        except msgspec.MsgspecError as error:
            aside = self._path.with_suffix(".unreadable")
            self._path.replace(aside)
            log.error("faults_lost", kept_as=str(aside), reason=str(error))  # noqa: TRY400 - the message is the whole story
            return {}

    def save(self, told: Mapping[str, RouteFaults]) -> None:
        kept = {name: faults for name, faults in told.items() if not faults.is_healthy}
        write_private(self._path, msgspec.json.encode(kept).decode())

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)
