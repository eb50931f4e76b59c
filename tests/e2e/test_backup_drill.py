"""The drill in small, and the two ways back from what it made: into servers of its own, and by hand into a stopped farm."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from e2e.farm import FARMIQ
from farmiq.cli import exits

pytestmark = pytest.mark.timeout(700)
Told = subprocess.CompletedProcess[str]


def farmiq(folder: Path, *arguments: str, home: Path | None = None) -> Told:
    """`folder` is where the drill makes its own."""
    chosen = {name: value for name, value in os.environ.items() if not name.endswith("_URL") and name != "S3_ENDPOINT"}
    return subprocess.run(
        [FARMIQ, *arguments],
        env=chosen | {"TMPDIR": str(folder), "FARMIQ_HOME": str(home or folder / "nobodys")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.fixture(scope="module")
def drilled(run_folder: Path) -> tuple[Path, Any]:
    """Below the run's folder, whose warden ends what a killed drill leaves. The folder that it kept, and what it said."""
    folder = run_folder / "drill"
    folder.mkdir()
    told = farmiq(folder, "backup", "drill", "--seconds", "4", "--patience", "200", "--keep", "--json")
    assert told.returncode == exits.OK, told.stdout + told.stderr
    [scratch] = folder.glob("farmiq-drill-*")
    return scratch, json.loads(told.stdout)


def test_after_every_disk_is_lost_each_sample_is_there_once(drilled: tuple[Path, Any]) -> None:
    _, told = drilled
    assert (told["has_held"], told["audit"], told["problems"]) == (True, "balanced", [])
    edge, cloud = told["lacking"]
    assert sum(edge["samples"].values()) > 0
    assert sum(cloud["samples"].values()) > 0
    for tier in told["missing"]:
        assert (sum(tier["samples"].values()), tier["rows_twice"], tier["sessions"], tier["pictures"]) == (0, 0, [], [])
    assert all(restored["life"]["epoch"] != restored["life"]["epoch_before"] for restored in told["restored"])


def test_a_backup_that_exists_is_restored_into_servers_of_its_own(drilled: tuple[Path, Any]) -> None:
    scratch, _ = drilled
    told = farmiq(scratch, "backup", "drill", "--from", str(scratch / "backup"))
    assert told.returncode == exits.OK, told.stdout + told.stderr
    assert "It has held." in told.stdout
    assert list(scratch.glob("farmiq-drill-*")) == []


def test_a_stopped_farm_goes_back_with_its_servers_started_for_it(drilled: tuple[Path, Any]) -> None:
    scratch, told = drilled
    asked = ("backup", "restore", str(scratch / "backup"), "--tier", "edge", "--json")
    refused = farmiq(scratch, *asked, home=scratch / "home")
    assert (refused.returncode, "--replace" in refused.stderr) == (exits.FAILED, True)
    done = farmiq(scratch, *asked, "--replace", "--yes", home=scratch / "home")
    assert done.returncode == exits.OK, done.stderr
    [restored] = json.loads(done.stdout)
    # What the drill had sent again is not in the backup, and is named.
    assert sum(restored["not_in_backup"]["samples"].values()) > 0
    assert restored["life"]["epoch_before"] == told["restored"][0]["life"]["epoch_before"]
