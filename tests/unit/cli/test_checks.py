import sys
from pathlib import Path

import pytest

from farmiq.cli import checks
from farmiq.cli.checks import Check, Verdict
from farmiq.cli.doctor import lock_file as lock_of_checkout
from farmiq.stack.binaries import as_root
from farmiq.stack.errors import StackError

LOCK = """\
alpha==1.2 \\
    --hash=sha256:00
beta[s3]==2.0 ; sys_platform == 'win32' \\
    --hash=sha256:11
gamma==3.0 \\
    --hash=sha256:22
delta==1.0 ; python_full_version < '3.12' \\
    --hash=sha256:33
delta==2.0 ; python_full_version >= '3.12' \\
    --hash=sha256:44
"""
DELTA = "1.0" if sys.version_info < (3, 12) else "2.0"


def lock_file(folder: Path) -> Path:
    path = folder / "requirements.lock"
    path.write_text(LOCK)
    return path


def test_a_python_that_is_too_old_is_refused_with_the_command() -> None:
    check = checks.check_python((3, 10, 1))
    assert check.verdict is Verdict.FAILED
    assert check.fix == as_root("apt-get install python3 python3-venv")
    assert checks.check_python((3, 11, 0)).verdict is Verdict.OK


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({"python_full_version": "3.11.2", "sys_platform": "linux"}, {"alpha": "1.2", "gamma": "3.0", "delta": "1.0"}),
        ({"python_full_version": "3.13.5", "sys_platform": "linux"}, {"alpha": "1.2", "gamma": "3.0", "delta": "2.0"}),
        (
            {"python_full_version": "3.11.2", "sys_platform": "win32"},
            {"alpha": "1.2", "beta": "2.0", "gamma": "3.0", "delta": "1.0"},
        ),
    ],
)
def test_only_the_pins_whose_markers_hold_are_read(environment: dict[str, str], found: dict[str, str]) -> None:
    assert dict(checks.pins(LOCK, environment)) == found
    assert len(checks.pins(LOCK, environment)) == len(found)


def test_the_checkout_that_these_tests_run_from_is_as_its_lock_pins_it() -> None:
    check = checks.check_packages(lock_of_checkout(), checks.installed_version)
    assert (check.verdict, check.found) == (Verdict.OK, "as pinned in requirements.lock")


def test_packages_as_pinned_are_good_also_without_those_for_other_machines(tmp_path: Path) -> None:
    installed = {"alpha": "1.2", "gamma": "3.0", "delta": DELTA}
    assert checks.check_packages(lock_file(tmp_path), installed.get).verdict is Verdict.OK


@pytest.mark.parametrize(
    ("installed", "found"),
    [
        ({"alpha": "1.1", "gamma": "3.0", "delta": DELTA}, "alpha 1.1 instead of 1.2"),
        ({"alpha": "1.2", "delta": DELTA}, "gamma missing instead of 3.0"),
        ({"alpha": "1.2", "gamma": "3.0", "delta": "0.9"}, f"delta 0.9 instead of {DELTA}"),
    ],
)
def test_a_package_that_differs_is_named(installed: dict[str, str], found: str, tmp_path: Path) -> None:
    check = checks.check_packages(lock_file(tmp_path), installed.get)
    assert check.verdict is Verdict.WARNING
    assert found in check.found
    assert check.fix == "tools/bootstrap.sh up"


def missing() -> str:
    raise StackError("mosquitto is not installed", fix="sudo apt-get install mosquitto")


def test_a_missing_program_fails_with_the_command_unless_something_stands_in_for_it() -> None:
    failed = checks.check_program("mosquitto", missing, "MQTT_URL", {})
    assert (failed.verdict, failed.fix) == (Verdict.FAILED, "sudo apt-get install mosquitto")
    replaced = checks.check_program("mosquitto", missing, "MQTT_URL", {"MQTT_URL": "mqtt://broker:1883"})
    assert replaced.verdict is Verdict.OK
    assert "MQTT_URL is set" in replaced.found


def test_a_program_that_is_there_is_shown_with_its_place() -> None:
    found = checks.check_program("seaweedfs", lambda: "bin/weed", "S3_ENDPOINT", {})
    assert (found.verdict, found.found) == (Verdict.OK, "bin/weed")


def test_root_needs_one_program_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    as_root = {check.name for check in checks.check_programs({})}
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    as_user = {check.name for check in checks.check_programs({})}
    assert as_root - as_user == {"setpriv"}
    assert {"mosquitto", "rabbitmq", "erlang", "postgresql", "seaweedfs"} == as_user


def test_setpriv_that_is_missing_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(StackError) as failed:
        checks.setpriv()
    assert failed.value.fix == as_root("apt-get install util-linux")


@pytest.mark.parametrize(
    ("user", "sudo", "command"),
    [
        (0, "/usr/bin/sudo", "apt-get update"),
        (1000, "/usr/bin/sudo", "sudo apt-get update"),
        (1000, None, "su -c 'apt-get update'"),
    ],
)
def test_sudo_is_suggested_only_where_it_is_needed_and_installed(
    monkeypatch: pytest.MonkeyPatch, user: int, sudo: str | None, command: str
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)
    monkeypatch.setattr("shutil.which", lambda *_, **__: sudo)
    assert as_root("apt-get update") == command


@pytest.mark.parametrize(
    ("free_bytes", "verdict"), [(3 << 30, Verdict.OK), (1 << 30, Verdict.WARNING), (1 << 20, Verdict.FAILED)]
)
def test_a_disk_that_runs_full_is_told_in_time(free_bytes: int, verdict: Verdict, tmp_path: Path) -> None:
    assert checks.check_disk(tmp_path / "not" / "there", lambda _: free_bytes).verdict is verdict


def test_a_home_that_can_not_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checks.check_home(tmp_path / "new").verdict is Verdict.OK
    # As root every folder can be written, so only the kernel's answer is replaced.
    monkeypatch.setattr("os.access", lambda *_: False)
    check = checks.check_home(tmp_path / "new")
    assert check.verdict is Verdict.FAILED
    assert str(tmp_path) in check.found
    assert "FARMIQ_HOME" in check.fix


def test_the_worst_check_decides() -> None:
    good, warning = checks.good("a", ""), Check("b", Verdict.WARNING, "")
    assert checks.worst([]) is Verdict.OK
    assert checks.worst([warning, good]) is Verdict.WARNING
    assert checks.worst([warning, Check("c", Verdict.FAILED, ""), good]) is Verdict.FAILED
