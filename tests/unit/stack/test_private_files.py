import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from farmiq.stack.private_files import remove, write_private


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def test_nobody_else_can_read_a_private_file(tmp_path: Path, open_umask: None) -> None:
    write_private(tmp_path / "secret", "x")
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600


def test_replacing_a_file_that_was_open_to_all_closes_it(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("old")
    path.chmod(0o666)
    write_private(path, "new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_a_killed_writer_left_does_not_stand_in_the_way(tmp_path: Path) -> None:
    (tmp_path / f".secret.{os.getpid()}.new").write_text("half")
    write_private(tmp_path / "secret", "whole")
    assert (tmp_path / "secret").read_text() == "whole"
    assert [entry.name for entry in tmp_path.iterdir()] == ["secret"]


def test_removing_a_link_to_a_folder_leaves_the_folder(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    remove([tmp_path / "link", tmp_path / "missing"])
    assert (tmp_path / "folder" / "file").exists()
    assert not (tmp_path / "link").is_symlink()
