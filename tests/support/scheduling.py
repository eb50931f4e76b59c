"""Which tests stay together on one worker, and which come first."""

from typing import Final

import pytest

# Files that share a farm, in the order in which each finds it as it needs it: nothing was lost yet when the overview is shown,
# no device was added yet in the first minutes, and in the end the farm is purged.
FARMS: Final = {
    "the farm that is looked at": ("tests/e2e/overview/", "tests/e2e/console/"),
    "the farm that is broken on purpose": (
        "tests/e2e/test_first_minutes.py",
        "tests/e2e/test_one_sample.py",
        "tests/e2e/test_outbox_steps.py",
        "tests/e2e/test_weigh_stations.py",
        "tests/e2e/test_tenant_erasure.py",
        "tests/e2e/test_farm.py",
    ),
}
# What takes longest comes first, so that all workers end together; what is not named here follows in the order of the folders.
FIRST: Final = (
    *(start for starts in FARMS.values() for start in starts),
    "tests/faults/torture/",
    "tests/e2e/test_audit_corruptions.py",
    "tests/e2e/test_backup_drill.py",
    "tests/faults/cloud/test_bus_cluster.py",
    "tests/faults/cloud/test_bus_broker_dies.py",
)


def in_turn(items: list[pytest.Item]) -> list[pytest.Item]:
    return sorted(items, key=lambda item: _turn(item.nodeid))


def scope(nodeid: str) -> str:
    """A file, so that the servers which it shares are started once, or all files of one farm."""
    farms = (name for name, starts in FARMS.items() if nodeid.startswith(starts))
    return next(farms, nodeid.partition("::")[0])


def _turn(nodeid: str) -> int:
    return next((turn for turn, start in enumerate(FIRST) if nodeid.startswith(start)), len(FIRST))
