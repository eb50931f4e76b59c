"""Which start of the machine this is, and how long ago it was: monotonic times of two boots cannot be compared."""

import time
from pathlib import Path
from uuid import UUID


def boot_id(file: Path = Path("/proc/sys/kernel/random/boot_id")) -> UUID:
    return UUID(file.read_text(encoding="ascii").strip())


def boottime_us() -> int:
    """Goes on while the machine sleeps, and no time service moves it."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
