"""Which devices have something missing, found from one line for each: ten thousand of them are two answers of a megabyte."""

from collections.abc import Collection, Mapping
from typing import Final

from farmiq.console.fleet.answers import Totals

ON_ITS_WAY_MAX: Final = 500
"""Samples that every device has on its way to the cloud at any time: one batch."""


def incomplete(
    edge: Mapping[str, Totals] | None, cloud: Mapping[str, Totals] | None, lost: Collection[str]
) -> list[str]:
    """Devices with a gap anywhere, with more than a batch that the cloud lacks, or with a declared loss (`lost`).

    None: that tier could not be asked, and the other one decides."""
    names = {*(edge or {}), *(cloud or {}), *lost}
    return sorted(name for name in names if name in lost or _is_torn(name, edge, cloud))


def _is_torn(name: str, edge: Mapping[str, Totals] | None, cloud: Mapping[str, Totals] | None) -> bool:
    here, there = (edge or {}).get(name), (cloud or {}).get(name)
    if (here is not None and here.missing) or (there is not None and there.missing):
        return True
    if here is None or cloud is None:
        return False
    has = there.stored + there.lost if there is not None else 0
    return here.stored + here.lost - has > ON_ITS_WAY_MAX
