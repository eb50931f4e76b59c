import os
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
