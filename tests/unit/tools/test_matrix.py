"""What `make matrix` types is what the pages print, and a step that fails fails its machine."""

import importlib.util
import io
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def matrix() -> ModuleType:
    """It is a program of its own, for a Python without the checkout's packages."""
    spec = importlib.util.spec_from_file_location("farmiq_matrix", ROOT / "tools" / "matrix.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_machine_goes_through_the_first_five_minutes(matrix: ModuleType) -> None:
    steps = ("make up", "demo break", "demo kill", "demo heal", "audit", "device add", "send --device", "make down")
    for cell in matrix.cells():
        positions = [next(i for i, command in enumerate(cell.commands) if step in command) for step in steps]
        assert positions == sorted(positions), cell


def test_each_required_release_has_root_a_plain_user_its_own_postgresql_and_the_fast_tests(matrix: ModuleType) -> None:
    cells = matrix.cells()
    assert {cell.user for cell in cells} == {"root", "farmer"}
    assert any(cell.has_own_postgres for cell in cells)
    assert any("make test-fast" in cell.commands for cell in cells)
    assert [suite.name for suite in matrix.SUITES if suite.is_required] == ["bookworm", "trixie"]


def test_a_page_without_its_commands_stops_the_matrix(matrix: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text("# FarmIQ\n\nNothing to type.\n")
    with pytest.raises(matrix.MatrixError, match="no block of commands"):
        matrix.readme_commands(page)


def test_comments_of_a_page_are_not_typed_and_quotes_are(matrix: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text("```sh\necho '{\"t\": 1}' | farmiq send   # accepted\n\nmake down  # over\n```\n")
    assert matrix.readme_commands(page) == ["make up", "echo '{\"t\": 1}' | farmiq send", "make down"]


@pytest.mark.parametrize(("second", "failed_at"), [("true", None), ("exit 3", "exit 3")])
def test_a_command_that_fails_is_named_and_ends_its_machine(
    matrix: ModuleType, tmp_path: Path, second: str, failed_at: str | None
) -> None:
    cell = matrix.Cell("root", "root", ("echo first", second, 'echo "it\'s third"'))
    script = matrix.cell_script(cell, {"PATH": "/usr/bin:/bin"})
    # The machine itself is left out: the steps run in a folder of this test, and the clone and the versions are not looked at.
    lines = [line for line in script.splitlines() if line.startswith(("set ", "as_user()", "step"))]
    steps = [line.replace("/root", str(tmp_path)) for line in lines if "git clone" not in line and "left" not in line]
    ended = subprocess.run(["/bin/sh", "-c", "\n".join(steps)], capture_output=True, text=True, check=False)
    outcome: Any = matrix.Outcome(matrix.SUITES[0], cell, tmp_path / "log")
    log = io.StringIO()
    matrix._follow(ended.stdout.splitlines(keepends=True), outcome, log)
    assert outcome.failed_at == failed_at
    assert ("it's third" in log.getvalue()) is (failed_at is None)
