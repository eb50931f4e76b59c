"""How far the node's wall clock can be trusted at this moment."""

import ctypes
from collections.abc import Callable
from pathlib import Path

from farmiq.kit.clock import Clock

UNKNOWN = 0
HOLDOVER = 1
SYNCHRONISED = 2

MARK = Path("/run/systemd/timesync/synchronized")
"""systemd-timesyncd touches it each time it has set the clock from the network, at least every 34 minutes."""

MARK_FRESH_SECONDS = 2 * 3600.0

_STA_UNSYNC = 0x0040


class TimeQuality:
    """2: a time service is in command of the clock. 1: one has been, earlier in this boot. 0: nobody has set it.

    The kernel knows, whichever service it is (timesyncd, chrony, ntpd): each clears its "unsynchronised" bit, and the kernel sets
    it again when nobody has corrected the clock for hours. A hardened unit may not be allowed to ask; then the mark has to do.
    """

    def __init__(
        self, clock: Clock, is_disciplined: Callable[[], bool | None] | None = None, mark: Path = MARK
    ) -> None:
        self._clock = clock
        self._is_disciplined = is_disciplined or kernel_clock_is_disciplined
        self._mark = mark
        self._was_synchronised = False

    def __call__(self) -> int:
        marked_at = self._marked_at()
        is_synchronised = self._is_disciplined()
        if is_synchronised is None:
            is_synchronised = marked_at is not None and self._is_fresh(marked_at)
        self._was_synchronised = self._was_synchronised or is_synchronised or marked_at is not None
        if is_synchronised:
            return SYNCHRONISED
        return HOLDOVER if self._was_synchronised else UNKNOWN

    def _marked_at(self) -> float | None:
        try:
            return self._mark.stat().st_mtime
        except OSError:
            return None

    def _is_fresh(self, marked_at: float) -> bool:
        return abs(self._clock.now().timestamp() - marked_at) <= MARK_FRESH_SECONDS


class _Timex(ctypes.Structure):
    """The beginning of the kernel's `struct timex`, and room for the rest."""

    _fields_ = (
        ("modes", ctypes.c_uint),  # 0: change nothing
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 256),
    )


_LIBC = ctypes.CDLL(None)


def kernel_clock_is_disciplined() -> bool | None:
    """None when the kernel does not tell us."""
    timex = _Timex()
    if _LIBC.adjtimex(ctypes.byref(timex)) < 0:
        return None
    return not timex.status & _STA_UNSYNC
