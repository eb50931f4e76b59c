from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.farm import Farm


@pytest.fixture(scope="module")
def farm(run_folder: Path, request: pytest.FixtureRequest) -> Iterator[Farm]:
    """A farm of the module's own. If this process dies, the run's warden ends it."""
    farm = Farm(run_folder / request.module.__name__.rpartition(".")[2])
    farm.choose_ports_of_its_own()
    farm.up_output = farm.up()
    yield farm
    farm.command("down", "--purge", "--yes")
