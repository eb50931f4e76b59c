"""How full the disks are. Asked of the kernel at each look, which costs nothing."""

import os
from collections.abc import Sequence
from functools import partial
from math import nan
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge


def watch_disks(registry: CollectorRegistry, paths: Sequence[Path]) -> None:
    """Of the file systems that hold these paths, in bytes that we may use."""
    free = Gauge("farmiq_disk_free_bytes", "Room that is left to us on the disk.", ["path"], registry=registry)
    ratio = Gauge("farmiq_disk_free_ratio", "The same, as a part of the disk.", ["path"], registry=registry)
    for path in distinct(paths):
        free.labels(str(path)).set_function(partial(free_bytes, path))
        ratio.labels(str(path)).set_function(partial(free_ratio, path))


def distinct(paths: Sequence[Path]) -> list[Path]:
    """One path of each disk, the first: a disk that is full is one alert, however many folders are on it."""
    found: dict[object, Path] = {}
    for path in paths:
        found.setdefault(_disk_of(path), path)
    return list(found.values())


def _disk_of(path: Path) -> object:
    try:
        return path.stat().st_dev
    except OSError:
        # Not there, or not there yet: nobody can say that it is a disk that is watched already.
        return path


def free_bytes(path: Path) -> float:
    """Not a number when the path is gone: that is not the same as a full disk."""
    try:
        found = os.statvfs(path)
    except OSError:
        return nan
    return float(found.f_bavail * found.f_frsize)


def free_ratio(path: Path) -> float:
    try:
        found = os.statvfs(path)
    except OSError:
        return nan
    usable = found.f_blocks - found.f_bfree + found.f_bavail
    return found.f_bavail / usable if usable else nan
