"""Which start of the machine this is: monotonic times of two boots cannot be compared."""

from pathlib import Path
from uuid import UUID


def boot_id(file: Path = Path("/proc/sys/kernel/random/boot_id")) -> UUID:
    return UUID(file.read_text(encoding="ascii").strip())
