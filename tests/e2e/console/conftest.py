"""One farm for all files of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.console_visit import console_farm
from e2e.farm import Farm


@pytest.fixture(scope="package")
def farm(run_folder: Path) -> Iterator[Farm]:
    with console_farm(run_folder, "console-farm") as farm:
        yield farm
