"""Two farms for all files below: one that is looked at, and one that is broken on purpose.

A farm takes a quarter of a core while it runs, and much more to start. So the files that use one stay together on one worker
(support/scheduling.py), in an order in which each finds the farm as it needs it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.farm import Farm
from support.scheduling import FARMS, scope


@contextmanager
def running_farm(home: Path) -> Iterator[Farm]:
    """If this process dies, the run's warden ends it."""
    farm = Farm(home)
    farm.choose_ports_of_its_own()
    farm.up_output = farm.up()
    yield farm
    farm.command("down", "--purge", "--yes")


@pytest.fixture(scope="package")
def broken_farm(run_folder: Path) -> Iterator[Farm]:
    """The one that is broken on purpose."""
    with running_farm(run_folder / "broken-farm") as farm:
        yield farm


@pytest.fixture(scope="module")
def farm(request: pytest.FixtureRequest, run_folder: Path) -> Iterator[Farm]:
    """The one that is broken on purpose, or one of its own for a file that can't share it."""
    if scope(request.node.nodeid) in FARMS:
        yield request.getfixturevalue("broken_farm")
        return
    with running_farm(run_folder / request.module.__name__.rpartition(".")[2]) as farm:
        yield farm


@pytest.fixture(scope="package")
def watched_farm(run_folder: Path) -> Iterator[Farm]:
    """The one that is looked at: `farm` in the folders of the console's pages."""
    with running_farm(run_folder / "watched-farm") as farm:
        yield farm
