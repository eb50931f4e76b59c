"""README, docs/start.md and the guides, followed as they stand on one farm with ports of its own.

weigh-stations.md is followed in test_weigh_stations.py, which looks at the databases afterwards. README ends with `make down` and
start.md begins with `make up` and ends with `farmiq down --purge`, so they come last and in this order."""

import json
from pathlib import Path

import pytest

from e2e.farm import Farm, reader_shell
from farmiq.cli import exits
from farmiq.stack.demo_farm import DEVICE_ID, STATION_ID
from support.documents import DOCS, ROOT
from support.page_runner import blocks, run_page
from support.waiting import wait_for

GUIDES = [page for page in sorted((DOCS / "guides").glob("*.md")) if page.name != "weigh-stations.md"]
README, START = ROOT / "README.md", DOCS / "start.md"
# Four animals come in that time, of which one in twenty does not stand still.
FIRST_SESSION_SECONDS = 200
COMPLETE = "SELECT 1 FROM weight_sessions WHERE status = 'finalized' AND inference_result_id IS NOT NULL LIMIT 1"

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def used_farm(farm: Farm) -> Farm:
    """One that has measured and weighed, as a reader's has after a minute."""
    farm.wait_until_cloud_has(100)
    wait_for(lambda: farm.fetch("cloud", COMPLETE), FIRST_SESSION_SECONDS, "a weigh session in the cloud")
    return farm


def let_go_of_devices(farm: Farm) -> None:
    """Several pages add a device of the same name, each as the first one."""
    for device in json.loads(farm.command("device", "ls", "--json").stdout):
        if device["device_id"] not in (DEVICE_ID, STATION_ID) and device["revoked_at"] is None:
            assert farm.command("device", "revoke", device["device_id"]).returncode == exits.OK


@pytest.mark.parametrize("page", [*GUIDES, README, START], ids=lambda page: page.stem)
def test_what_the_page_says_is_what_happens(page: Path, used_farm: Farm, tmp_path: Path) -> None:
    if page == START:
        assert used_farm.command("down", "--purge", "--yes").returncode == exits.OK
        used_farm.choose_ports_of_its_own()
    else:
        let_go_of_devices(used_farm)
    with reader_shell(used_farm, tmp_path, is_in_checkout=page in (README, START)) as shell:
        assert run_page(page, shell) == sum(not block.is_excluded for block in blocks(page))


def test_the_last_page_leaves_no_farm_behind(used_farm: Farm) -> None:
    assert used_farm.command("status", "--json").returncode == exits.NOT_RUNNING
    assert not used_farm.home.environment_file.exists()
