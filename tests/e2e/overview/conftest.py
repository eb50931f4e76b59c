"""A farm in which nothing was ever lost or refused: what the overview says first depends on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.console_visit import console_farm
from e2e.farm import Farm


@pytest.fixture(scope="package")
def farm(run_folder: Path) -> Iterator[Farm]:
    with console_farm(run_folder, "quiet-farm") as farm:
        yield farm
