import os
from pathlib import Path

import pytest

from farmiq.cli.errors import BadUsage
from farmiq.cli.secret_output import secret_writer, warn_if_readable


def test_secrets_go_into_a_new_file_that_only_its_owner_can_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "pump-7.json"
    before = os.umask(0)
    try:
        with secret_writer(output) as write:
            assert output.stat().st_mode & 0o777 == 0o600  # before there is a secret in it
            write("the secret")
    finally:
        os.umask(before)
    assert output.read_text() == "the secret\n"
    assert "the secret" not in "".join(capsys.readouterr())


@pytest.mark.parametrize("name", ["taken", "no-such-folder/file"])
def test_no_secret_is_made_when_the_file_can_not_be(tmp_path: Path, name: str) -> None:
    (tmp_path / "taken").write_text("somebody else's")
    with pytest.raises(BadUsage, match="nothing was changed"), secret_writer(tmp_path / name):
        pytest.fail("the secret would have been made here")
    assert (tmp_path / "taken").read_text() == "somebody else's"


def test_a_command_that_fails_leaves_no_empty_file(tmp_path: Path) -> None:
    output = tmp_path / "pump-7.json"
    with pytest.raises(ZeroDivisionError), secret_writer(output):
        raise ZeroDivisionError
    assert not output.exists()


@pytest.mark.parametrize(("mode", "is_warned"), [(0o644, True), (0o640, True), (0o600, False)])
def test_a_file_behind_the_shell_that_others_can_read_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: int, is_warned: bool
) -> None:
    path = tmp_path / "out"
    path.touch()
    path.chmod(mode)
    with path.open("w") as file:
        warn_if_readable(file.fileno(), fix="chmod 600 FILE")
    told = capsys.readouterr().err
    assert (f"mode {mode:04o}" in told) == is_warned
    assert ("fix: chmod 600 FILE" in told) == is_warned


def test_a_pipe_is_nobody_elses_to_read(capsys: pytest.CaptureFixture[str]) -> None:
    reader, writer = os.pipe()
    warn_if_readable(writer, fix="")
    os.close(reader)
    os.close(writer)
    assert capsys.readouterr().err == ""
