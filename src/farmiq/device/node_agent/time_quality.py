"""How far the node's wall clock can be trusted at this moment."""

from pathlib import Path

UNKNOWN = 0
SYNCHRONISED = 2

# systemd-timesyncd and chrony's systemd integration leave this mark when the clock has been set from the network.
_SYNCHRONISED = Path("/run/systemd/timesync/synchronized")


def time_quality(mark: Path = _SYNCHRONISED) -> int:
    return SYNCHRONISED if mark.exists() else UNKNOWN
