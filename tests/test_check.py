import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.timeout(600)
def test_make_check_finds_nothing() -> None:
    """`make test` is the one command that decides, so what `make check` says is part of it."""
    checked = subprocess.run(
        ["make", "--no-print-directory", "check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
