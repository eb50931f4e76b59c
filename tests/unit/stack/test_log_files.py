import os
from pathlib import Path

from farmiq.stack.log_files import open_log, rotate


def test_a_small_log_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("x" * 10)
    assert not rotate(path, bytes_max=10)
    assert path.read_text() == "x" * 10


def test_a_child_goes_on_writing_after_its_log_was_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    descriptor = open_log(path)
    try:
        os.write(descriptor, b"before\n")
        assert rotate(path, bytes_max=3)
        os.write(descriptor, b"after\n")
    finally:
        os.close(descriptor)
    assert path.read_text() == "after\n"
    assert (tmp_path / "a.log.1").read_text() == "before\n"


def test_nobody_else_can_read_a_log(tmp_path: Path) -> None:
    os.close(open_log(tmp_path / "a.log"))
    (tmp_path / "a.log").write_text("x" * 10)
    rotate(tmp_path / "a.log", bytes_max=3)
    assert {entry.stat().st_mode & 0o777 for entry in tmp_path.iterdir()} == {0o600}


def test_a_log_that_is_not_there_yet_is_no_error(tmp_path: Path) -> None:
    assert not rotate(tmp_path / "none.log")
