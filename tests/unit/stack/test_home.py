import os
from pathlib import Path

import pytest

from farmiq.stack.home import Home, HomeNotOurs, HomeNotUsable, find_home
from farmiq.stack.socket_folder import PATH_BYTES_MAX


def test_the_variable_decides(tmp_path: Path) -> None:
    assert find_home({"FARMIQ_HOME": str(tmp_path / "here")}).path == tmp_path / "here"


def test_a_checkout_keeps_its_own_state(tmp_path: Path) -> None:
    package_file = tmp_path / "src" / "farmiq" / "stack" / "home.py"
    package_file.parent.mkdir(parents=True)
    (tmp_path / "pyproject.toml").touch()
    assert find_home({}, package_file=package_file).path == tmp_path / ".farmiq"


def test_an_installed_package_uses_the_present_folder(tmp_path: Path) -> None:
    package_file = tmp_path / "lib" / "site-packages" / "farmiq" / "stack" / "home.py"
    assert find_home({}, package_file=package_file, here=tmp_path / "farm").path == tmp_path / "farm" / ".farmiq"


def test_only_its_owner_can_enter_the_home(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    assert home.path.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write everywhere")
def test_a_home_of_somebody_else_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o500)
    with pytest.raises(HomeNotOurs, match="home"):
        Home(tmp_path / "home").create()


@pytest.mark.parametrize("name", ["a farm's home", 'the "farm"', "back\\slash", "two\nlines"])
def test_a_path_that_a_server_would_choke_on_is_refused_before_anything_starts(tmp_path: Path, name: str) -> None:
    with pytest.raises(HomeNotUsable) as refusal:
        Home(tmp_path / name).create()
    assert "FARMIQ_HOME" in (refusal.value.fix or "")
    assert not (tmp_path / name).exists()


def test_purge_removes_our_state_and_nothing_else(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    (home.path / "postgres" / "data").mkdir(parents=True)
    (home.path / "holiday.jpg").touch()
    home.purge()
    assert [entry.name for entry in home.path.iterdir()] == ["holiday.jpg"]


def test_purge_removes_a_home_with_nothing_else_in_it(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    home.purge()
    assert not home.path.exists()


def test_a_socket_path_is_never_longer_than_a_socket_allows(tmp_path: Path) -> None:
    short = Home(Path("/srv/farm")).forwarder_socket("node-1")
    deep = Home(tmp_path / ("x" * 100)).forwarder_socket("node-1")
    other = Home(tmp_path / ("y" * 100)).forwarder_socket("node-1")
    assert short.is_relative_to("/srv/farm")
    assert len(os.fsencode(deep)) <= PATH_BYTES_MAX
    assert deep != other
