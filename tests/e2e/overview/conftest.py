"""The first visitors of the farm: nothing was ever lost or refused in it, on which depends what the overview says."""

import pytest

from e2e.farm import Farm


@pytest.fixture(scope="package")
def farm(watched_farm: Farm) -> Farm:
    return watched_farm
