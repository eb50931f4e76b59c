"""The real command in a process of its own, where no farm runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from farmiq import __version__
from farmiq.cli import exits

FARMIQ = Path(sys.executable).parent / "farmiq"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def farmiq(home: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.endswith("_URL")}
    return subprocess.run(
        [FARMIQ, *arguments],
        env=environ | {"FARMIQ_HOME": str(home)} | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_version_is_printed(home: Path) -> None:
    assert farmiq(home, "--version").stdout == f"farmiq {__version__}\n"


def test_help_names_every_command_and_every_exit_code(home: Path) -> None:
    told = farmiq(home, "--help")
    assert told.returncode == exits.OK
    for word in ("up", "down", "status", "logs", "env", "run", "migrate", "doctor", "--install-completion"):
        assert word in told.stdout
    for code in exits.TABLE:
        assert f"{code} " in told.stdout.partition("Exit codes:")[2]


@pytest.mark.parametrize("command", [["status"], ["env"], ["env", "--json"], ["logs"]])
def test_where_nothing_runs_the_exit_code_says_so_and_the_error_names_the_next_command(
    home: Path, command: list[str]
) -> None:
    told = farmiq(home, *command)
    assert told.returncode == exits.NOT_RUNNING
    assert told.stderr.startswith("error: ")
    assert str(home) in told.stderr
    assert told.stderr.splitlines()[-1].endswith("farmiq up")
    assert not home.exists()


def test_status_as_json_is_json_where_nothing_runs_too(home: Path) -> None:
    told = farmiq(home, "status", "--json")
    assert told.returncode == exits.NOT_RUNNING
    assert json.loads(told.stdout)["phase"] == "stopped"


def test_down_is_harmless_where_nothing_runs(home: Path) -> None:
    told = farmiq(home, "down")
    assert told.returncode == exits.OK
    assert "Nothing was running." in told.stdout


def test_data_is_not_deleted_when_nobody_can_be_asked(home: Path) -> None:
    home.mkdir()
    (home / "secrets.json").write_text("{}")
    told = farmiq(home, "down", "--purge")
    assert told.returncode == exits.USAGE
    assert "farmiq down --purge --yes" in told.stderr
    assert (home / "secrets.json").exists()


def test_purge_takes_what_is_ours_and_leaves_the_rest(home: Path) -> None:
    home.mkdir()
    (home / "secrets.json").write_text("{}")
    (home / "diary.txt").write_text("not ours")
    assert farmiq(home, "down", "--purge", "--yes").returncode == exits.OK
    assert [path.name for path in home.iterdir()] == ["diary.txt"]


@pytest.mark.parametrize("command", [["fly"], ["run"], ["run", "edge-gone"], ["migrate", "moon"], ["logs", "-n", "-1"]])
def test_wrong_arguments_have_an_exit_code_of_their_own(home: Path, command: list[str]) -> None:
    told = farmiq(home, *command)
    assert told.returncode == exits.USAGE
    assert told.stdout == ""
    assert told.stderr


def test_doctor_tells_each_finding_with_its_repair(home: Path) -> None:
    told = farmiq(home, "doctor", "--json")
    checks = {check["name"]: check for check in json.loads(told.stdout)}
    assert {
        "python",
        "mosquitto",
        "rabbitmq",
        "erlang",
        "postgresql",
        "seaweedfs",
        "disk",
        "home",
        "ports",
    } <= checks.keys()
    assert all(check["fix"] for check in checks.values() if check["verdict"] != "ok")
    assert told.returncode == (exits.FAILED if any(c["verdict"] == "failed" for c in checks.values()) else exits.OK)


def test_doctor_finds_a_home_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    told = farmiq(tmp_path / "home", "doctor")
    assert told.returncode == exits.FAILED
    assert "✗ home" in told.stdout
    assert "FARMIQ_HOME" in told.stdout


@pytest.mark.parametrize("command", ["up", "status"])
def test_a_home_that_can_not_be_one_is_refused_by_name(tmp_path: Path, command: str) -> None:
    (tmp_path / "home").write_text("a file")
    told = farmiq(tmp_path / "home", command)
    assert told.returncode == exits.BAD_SETTINGS
    assert "FARMIQ_HOME" in told.stderr
    assert "Traceback" not in told.stderr


def test_a_wrong_address_stops_the_start_before_anything_is_made(home: Path) -> None:
    told = farmiq(home, "up", MQTT_URL="http://broker")
    assert told.returncode == exits.BAD_SETTINGS
    assert "MQTT_URL" in told.stderr
    assert "mqtt://" in told.stderr
    assert not home.exists()


def test_logs_are_shown_after_the_farm_has_stopped_and_an_unknown_one_is_refused(home: Path) -> None:
    (home / "logs").mkdir(parents=True)
    (home / "logs" / "postgres.log").write_text("2026-01-01 10:00:01 UTC ready\n")
    (home / "logs" / "node-agent.log").write_text('{"timestamp":"2026-01-01T10:00:00Z","message":"service_started"}\n')
    both = farmiq(home, "logs").stdout.splitlines()
    assert both == ['{"timestamp":"2026-01-01T10:00:00Z","message":"service_started"}', "2026-01-01 10:00:01 UTC ready"]
    assert farmiq(home, "logs", "postgres").stdout == "2026-01-01 10:00:01 UTC ready\n"
    refused = farmiq(home, "logs", "postgre")
    assert refused.returncode == exits.USAGE
    assert "node-agent, postgres" in refused.stderr


def test_a_shell_completes_commands_and_services(home: Path) -> None:
    completed = farmiq(
        home,
        _FARMIQ_COMPLETE="complete_bash",
        COMP_WORDS="farmiq run edge-s",
        COMP_CWORD="2",
    )
    assert completed.stdout.split() == ["edge-sync-forwarder"]


HEAVY = (
    "aiohttp",
    "aio_pika",
    "alembic",
    "asyncio",
    "pydantic",
    "asyncpg",
    "boto3",
    "litestar",
    "sqlalchemy",
    "structlog",
    "uvicorn",
)


@pytest.mark.parametrize("arguments", [["--help"], ["status"], ["env"]])
def test_the_first_byte_does_not_wait_for_drivers_and_frameworks(home: Path, arguments: list[str]) -> None:
    script = (
        "import sys\n"
        f"sys.argv = ['farmiq', *{arguments!r}]\n"
        "from farmiq.cli.__main__ import main\n"
        "try:\n    main()\n"
        f"finally:\n    sys.stderr.write('loaded:' + ' '.join(name for name in {HEAVY!r} if name in sys.modules))\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"FARMIQ_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.stderr.rpartition("loaded:")[2] == ""
    assert told.returncode in (exits.OK, exits.NOT_RUNNING)


def test_up_says_something_before_it_imports_the_stack(home: Path) -> None:
    script = (
        "import sys\n"
        "sys.argv = ['farmiq', 'up']\n"
        "class Out:\n"
        "    def write(self, text): sys.exit('farmiq.stack.control' in sys.modules)\n"
        "    def flush(self): pass\n"
        "    def isatty(self): return False\n"
        "sys.stdout = Out()\n"
        "from farmiq.cli.__main__ import main\n"
        "main()\n"
    )
    told = subprocess.run([sys.executable, "-c", script], env=os.environ | {"FARMIQ_HOME": str(home)}, check=False)
    assert told.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "what", "why", "fix"),
    [
        (["up", "--nope"], "no such option: --nope", "Its options are --json.", "farmiq up --help"),
        (["demo", "break"], "missing argument 'LINK'", "farmiq demo break [OPTIONS]", "farmiq demo break --help"),
        (["demo", "heal", "--for", "-1"], "-1.0 is not in the range", "farmiq demo heal", "farmiq demo heal --help"),
        (["nosuch"], "no such command 'nosuch'", "farmiq [OPTIONS] COMMAND", "farmiq --help"),
        (
            ["help", "demo", "brake"],
            "farmiq demo has no command 'brake'",
            "Its commands are break,",
            "demo break --help",
        ),
        (["run", "edge-sync"], "no service 'edge-sync'", "catalogue", "farmiq run edge-sync-forwarder"),
        (["send", "--device", "pump-7"], "the input is empty", "standard input held none", "temp=4.2"),
    ],
)
def test_what_is_refused_comes_with_its_reason_and_the_command_that_helps(
    home: Path, arguments: list[str], what: str, why: str, fix: str
) -> None:
    told = farmiq(home, *arguments)
    assert (told.returncode, told.stdout) == (exits.USAGE, "")
    first, second, third = told.stderr.splitlines()
    assert first.startswith("error: ")
    assert what in first
    assert second.startswith("  why: ")
    assert why in second
    assert third.startswith("  fix: ")
    assert fix in third


def test_help_is_a_command_too(home: Path) -> None:
    assert farmiq(home, "help").stdout == farmiq(home, "--help").stdout
    assert farmiq(home, "help", "device", "add").stdout == farmiq(home, "device", "add", "--help").stdout
    alone = farmiq(home)
    assert alone.returncode == exits.USAGE
    assert alone.stderr == farmiq(home, "--help").stdout


def test_a_log_that_is_not_there_is_answered_with_names_that_are_near(home: Path) -> None:
    (home / "logs").mkdir(parents=True)
    for name in ("cloud-analytics-service", "edge-sync-forwarder"):
        (home / "logs" / f"{name}.log").touch()
    near, far = farmiq(home, "logs", "edge-sync"), farmiq(home, "logs", "nosuch")
    assert near.stderr.splitlines()[-1].endswith("farmiq logs edge-sync-forwarder")
    assert far.stderr.splitlines()[-1].endswith("farmiq logs")
