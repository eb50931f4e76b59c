"""Times and sizes as a person writes them: 200ms, 48h, 14d; 300kB, 64GB, 32GiB. Pure."""

import re
from math import isfinite
from typing import Final

from farmiq.cli.errors import BadUsage

_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_BYTES: Final = {
    "": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip
_WRITTEN: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)", re.ASCII)


def read_seconds(option: str, text: str) -> float:
    return _read(option, text, _SECONDS, "a time is a number and one of ms, s, m, h, d", f"{option} 48h")


def read_bytes(option: str, text: str) -> int:
    units = "B, kB, MB, GB, TB, KiB, MiB, GiB, TiB"
    return round(_read(option, text, _BYTES, f"a size is a number and one of {units}", f"{option} 64GB"))


def bytes_written(count: float) -> str:
    """Three digits that count: `640 B`, `1.74 GB`, `12.3 TB`."""
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= 0.9995 * size:
            return f"{_three_digits(count / size)} {unit}"
    return f"{_three_digits(count)} B"


def bits_written(bytes_per_second: float) -> str:
    """Lines are sold in bits: `12.4 kbit/s`."""
    bits = bytes_per_second * 8
    for unit, size in (("Gbit/s", 10**9), ("Mbit/s", 10**6), ("kbit/s", 10**3)):
        if bits >= 0.9995 * size:
            return f"{_three_digits(bits / size)} {unit}"
    return f"{_three_digits(bits)} bit/s"


def _three_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def _read(option: str, text: str, units: dict[str, float] | dict[str, int], why: str, example: str) -> float:
    found = _WRITTEN.fullmatch(text.strip())
    if found is None or found[2] not in units or not isfinite(float(found[1])):
        raise BadUsage(f"{option} is {text!r}", why=f"It can't be read: {why}.", fix=f"farmiq size {example}")
    return float(found[1]) * units[found[2]]
