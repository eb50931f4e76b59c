import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from farmiq.cli import exits
from support.postgres import NewDatabase

FARMIQ = Path(sys.executable).parent / "farmiq"


def migrate(tmp_path: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("DATABASE_URL")}
    return subprocess.run(
        [FARMIQ, "migrate", *arguments],
        env=environ | {"FARMIQ_HOME": str(tmp_path / "home")} | variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("tier", ["edge", "cloud"])
def test_migrating_twice_is_harmless_and_the_second_time_says_so(
    tier: str, tmp_path: Path, new_database: NewDatabase
) -> None:
    url = new_database()
    first = migrate(tmp_path, tier, "--json", DATABASE_URL=url)
    assert first.returncode == exits.OK, first.stderr
    told = json.loads(first.stdout)
    assert told["tier"] == tier
    assert told["applied"]
    second = migrate(tmp_path, tier, DATABASE_URL=url)
    assert second.returncode == exits.OK
    first_line, *more = second.stdout.splitlines()
    assert first_line == f"The {tier} database is at the newest revision already."
    assert told["missing_role_sql"].splitlines() == more[2:-1], "its owner may make no roles"
    assert more[-1] == f"Then: farmiq migrate {tier}"


def test_the_address_may_stand_in_a_file(tmp_path: Path, new_database: NewDatabase) -> None:
    (tmp_path / "url").write_text(new_database() + "\n")
    told = migrate(tmp_path, "edge", DATABASE_URL_FILE=str(tmp_path / "url"))
    assert told.returncode == exits.OK, told.stderr
    assert told.stdout.startswith("The edge database was brought to revision ")


def test_without_a_database_the_error_says_which_variable(tmp_path: Path) -> None:
    told = migrate(tmp_path, "edge")
    assert told.returncode == exits.BAD_SETTINGS
    assert "DATABASE_URL is not set" in told.stderr


def test_a_database_that_is_away_is_an_error_that_hides_the_password(tmp_path: Path) -> None:
    told = migrate(tmp_path, "edge", DATABASE_URL="postgresql://farm:hunter2@127.0.0.1:9/farm")
    assert told.returncode == exits.FAILED
    assert "127.0.0.1:9" in told.stderr
    assert "Traceback" not in told.stderr
    assert "hunter2" not in told.stderr + told.stdout
