import os
import subprocess
import sys
from pathlib import Path

import pytest

from farmiq.torture.disks import SmallDisk, unmount_below


def test_what_a_killed_campaign_left_mounted_can_be_removed(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path / "a farm" / "spool")
    other = SmallDisk(tmp_path / "another farm" / "spool")
    if not disk.mount():
        pytest.skip("this user may not mount a tmpfs")
    try:
        assert other.mount()
        assert os.path.ismount(disk.path)
        unmount_below(tmp_path / "a farm")
        assert not os.path.ismount(disk.path)
        assert os.path.ismount(other.path)
        disk.path.rmdir()
    finally:
        disk.unmount()
        other.unmount()


def test_down_purge_of_a_campaign_that_was_killed_takes_its_disk_along(tmp_path: Path) -> None:
    home = tmp_path / "home"
    disk = SmallDisk(home / "devices" / "torture-1" / "spool")
    if not disk.mount():
        pytest.skip("this user may not mount a tmpfs")
    try:
        done = subprocess.run(
            [Path(sys.executable).parent / "farmiq", "down", "--purge", "--yes"],
            env=os.environ | {"FARMIQ_HOME": str(home)}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        assert not home.exists()
    finally:
        disk.unmount()
