"""One farm for all files of this folder, after those of the overview."""

import pytest

from e2e.farm import Farm


@pytest.fixture(scope="package")
def farm(watched_farm: Farm) -> Farm:
    return watched_farm
