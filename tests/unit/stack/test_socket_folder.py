import os
from pathlib import Path

import pytest

from farmiq.stack.socket_folder import SocketFolderTaken, make_socket_folder


def test_only_its_owner_can_enter(tmp_path: Path) -> None:
    make_socket_folder(tmp_path / "sockets", {os.geteuid()})
    assert (tmp_path / "sockets").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_somebody_else_put_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sockets").mkdir()
    with pytest.raises(SocketFolderTaken, match="sockets"):
        make_socket_folder(tmp_path / "sockets", {os.geteuid() + 1})


def test_a_link_that_somebody_else_put_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "sockets").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SocketFolderTaken, match="sockets"):
        make_socket_folder(tmp_path / "sockets", {os.geteuid()})
