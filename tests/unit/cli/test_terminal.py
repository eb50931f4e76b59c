import io
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from farmiq.cli import terminal


@pytest.mark.parametrize(
    ("called", "name"),
    [("bin/farmiq", "bin/farmiq"), ("farmiq/cli/__main__.py", "python -m farmiq.cli"), ("pytest", "farmiq")],
)
def test_commands_are_printed_as_this_one_was_typed(
    called: str, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / called)])
    assert terminal.own_name() == name


def test_a_program_on_the_path_is_called_by_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "farmiq"
    program.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(program)])
    assert terminal.own_name() == "farmiq"


def test_a_pipe_gets_no_color_no_wrapping_and_no_trailing_spaces(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    table = Table(box=None)
    table.add_row("[red]short[/]", "")
    table.add_row("x" * 120, "end")
    terminal.put(terminal.console(), table)
    lines = capsys.readouterr().out.splitlines()
    assert "short" in [line.strip() for line in lines]
    assert all(line == line.rstrip() for line in lines)
    assert any(line.endswith("end") and "x" * 120 in line for line in lines)


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert terminal.has_color(Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not terminal.has_color(Terminal())
    page = Console(file=Terminal(), force_terminal=True)
    page.print("[red]x[/]")
    assert isinstance(page.file, Terminal)
    assert "\x1b[31m" not in page.file.getvalue()
