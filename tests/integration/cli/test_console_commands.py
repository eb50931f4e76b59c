"""`farmiq console`: what is done to people from the command line stands in the audit trail like everything else."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from farmiq.cli.app import app
from farmiq.console.store import Person, Store

EVERYBODY = Person("root", "admin", (), datetime.now(UTC))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    Store(tmp_path).close()
    monkeypatch.setenv("CONSOLE_STATE_DIR", str(tmp_path))
    return tmp_path


def test_letting_people_in_and_out_from_the_command_line_is_written_down(folder: Path) -> None:
    runner = CliRunner()
    for command in (["add", "ann", "--role", "operator", "--tenant", "north"], ["password", "ann"], ["remove", "ann"]):
        assert runner.invoke(app, ["console", *command]).exit_code == 0
    assert runner.invoke(app, ["console", "remove", "ann"]).exit_code != 0
    deeds = Store(folder).deeds(EVERYBODY, before=None, limit=9)
    assert [(deed.action, deed.subject, deed.outcome) for deed in reversed(deeds)] == [
        ("person.add", "ann", "done"),
        ("password.change", "ann", "done"),
        ("person.remove", "ann", "done"),
        ("person.remove", "ann", "failed: There is no person ann"),
    ]
    assert all("(command line)" in deed.name for deed in deeds)
