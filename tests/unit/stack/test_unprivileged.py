import os
import shutil
import subprocess
from pathlib import Path

import pytest

from farmiq.stack.unprivileged import Account, NoWayToDropRoot, command_as, server_account

ACCOUNT = Account(uid=os.geteuid() + 1, gid=os.getegid() + 1)  # anybody but whoever runs the tests
OVERRIDE, READ_SEARCH, SETPCAP = 1 << 1, 1 << 2, 1 << 8
EVERYTHING = OVERRIDE | READ_SEARCH | SETPCAP


@pytest.fixture
def open_folder(tmp_path: Path) -> Path:
    """A folder that everybody may enter, inside pytest's own, which nobody may."""
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    return folder


def granted(command: list[str]) -> list[str]:
    return [part for part in command if "-caps=" in part]


def test_a_normal_user_stays_who_he_is() -> None:
    assert command_as(None, ["/bin/true", "x"], [Path("/root")]) == ["/bin/true", "x"]


def test_nothing_is_granted_when_everybody_may_enter() -> None:
    assert granted(command_as(ACCOUNT, ["/bin/true"], [Path("/usr/lib")], bounding_set=EVERYTHING)) == []


def test_reading_is_granted_for_a_closed_folder_on_the_way(open_folder: Path) -> None:
    command = command_as(ACCOUNT, ["/bin/true"], [open_folder / "data"], bounding_set=EVERYTHING)
    assert granted(command) == ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]


def test_the_larger_right_stands_in_where_a_container_lacks_the_smaller(open_folder: Path) -> None:
    command = command_as(ACCOUNT, ["/bin/true"], [open_folder / "data"], bounding_set=OVERRIDE | SETPCAP)
    assert granted(command) == ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]


def test_a_program_that_only_root_may_execute_needs_the_larger_right(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.touch(mode=0o700)
    command = command_as(ACCOUNT, [str(program)], [], bounding_set=EVERYTHING)
    assert granted(command) == ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]


def test_a_container_that_grants_nothing_is_an_error_that_says_what_to_do(open_folder: Path) -> None:
    with pytest.raises(NoWayToDropRoot) as error:
        command_as(ACCOUNT, ["/bin/true"], [open_folder / "data"], bounding_set=0)
    assert "normal user" in (error.value.fix or "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")
@pytest.mark.parametrize("mode", [0o755, 0o700])
def test_root_runs_a_program_as_somebody_else_inside_a_folder_that_only_root_may_enter(
    tmp_path: Path, mode: int
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    program = str(shutil.copy("/usr/bin/id", closed / "id"))
    Path(program).chmod(mode)
    account = server_account()
    assert account is not None
    finished = subprocess.run(
        command_as(account, [program, "-u"], [closed / "data"]), capture_output=True, text=True, check=True
    )
    assert finished.stdout.strip() == str(account.uid) != "0"
