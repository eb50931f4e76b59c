"""What tools/bootstrap.sh installs is what the lock says, whatever has been released since; what it leaves behind is nothing."""

import base64
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from support.waiting import wait_for

ROOT = Path(__file__).resolve().parents[3]


def wheel(folder: Path, name: str, version: str, *requires: str, extra: str = "") -> str:
    """A package with nothing in it, and the line that pins it."""
    stem = f"{name}-{version}"
    metadata = [
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}",
        *(f"Requires-Dist: {each}" for each in requires),
    ]
    metadata += [f"Provides-Extra: {extra}"] if extra else []
    files = {
        f"{stem}.dist-info/METADATA": "\n".join(metadata) + "\n",
        f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = f"{stem}.dist-info/RECORD"
    rows = [f"{path},sha256={_digest(text)},{len(text)}" for path, text in files.items()]
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as made:
        for each, text in {**files, record: "\n".join([*rows, f"{record},,"]) + "\n"}.items():
            made.writestr(each, text)
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def test_a_newer_release_of_a_package_that_another_one_wants_with_an_extra_does_not_break_the_lock(
    tmp_path: Path,
) -> None:
    """A lock names packages and not their extras, and pip then asks for a hash of the newest release."""
    index = tmp_path / "index"
    index.mkdir()
    lock = tmp_path / "requirements.lock"
    lock.write_text(
        wheel(index, "asks", "1.0", "offers[more]") + wheel(index, "offers", "1.0", extra="more"), encoding="ascii"
    )
    wheel(index, "offers", "2.0", extra="more")
    script = (ROOT / "tools" / "bootstrap.sh").read_text(encoding="utf-8")
    (options,) = re.findall(r'pip_install (--.*) -r "\$LOCK"', script)
    only_these = ["--isolated", "--no-index", "--find-links", str(index), "--target", str(tmp_path / "installed")]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options.split(), *only_these, "-r", str(lock)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "installed").glob("*.dist-info")) == [
        "asks-1.0.dist-info",
        "offers-1.0.dist-info",
    ]


class Installation:
    """`bootstrap.sh packages` with an apt-get that goes on until the test ends it: only so can the script be killed meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.policy = folder / "root/usr/sbin/policy-rc.d"
        self.policy.parent.mkdir(parents=True)
        self._gate = folder / "gate"
        self._seen = folder / "seen"
        os.mkfifo(self._gate)
        programs = folder / "bin"
        programs.mkdir()
        apt = programs / "apt-get"
        apt.write_text(
            f"#!/bin/sh\n{self.policy} mosquitto start\necho $? >{self._seen}.new\nmv {self._seen}.new {self._seen}\n"
            f"echo installing\nread -r _ <{self._gate}\n"
        )
        apt.chmod(0o755)
        self._environ = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "DPKG_ROOT": str(folder / "root")}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> subprocess.Popen[bytes]:
        self._seen.unlink(missing_ok=True)
        # A run in the background ignores interrupts, and a shell can't change that for its children.
        command = ["env", "--default-signal=INT", str(ROOT / "tools/bootstrap.sh"), "packages", "mosquitto"]
        self._process = subprocess.Popen(
            command, env=self._environ, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_for(self._seen.exists, what="apt-get to run")
        return self._process

    @property
    def answer_inside(self) -> int:
        """What the policy answered to the installation itself."""
        return int(self._seen.read_text())

    def answer_outside(self) -> int:
        return subprocess.run([self.policy, "mosquitto", "start"], check=False).returncode

    def end_apt(self) -> None:
        with self._gate.open("w") as gate:
            gate.write("\n")

    def kill_all(self) -> None:
        assert self._process is not None
        with suppress(ProcessLookupError):  # all of it may have ended
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    made = Installation(tmp_path)
    yield made
    made.kill_all()


def test_servers_are_not_started_by_our_installation_and_by_others_as_ever(installation: Installation) -> None:
    process = installation.start()
    assert (installation.answer_inside, installation.answer_outside()) == (101, 0)
    installation.end_apt()
    assert process.wait(timeout=30) == 0
    assert list(installation.policy.parent.iterdir()) == []


def test_a_script_killed_during_apt_leaves_the_policy_until_apt_ends_and_no_longer(installation: Installation) -> None:
    process = installation.start()
    process.kill()
    process.wait()
    assert installation.policy.exists()  # apt-get goes on, and must not start a server
    installation.end_apt()
    wait_for(lambda: not installation.policy.exists(), what="the policy to be removed")


def test_an_interrupt_at_the_terminal_removes_the_policy(installation: Installation) -> None:
    process = installation.start()
    os.killpg(process.pid, signal.SIGINT)
    process.wait(timeout=30)
    wait_for(lambda: not installation.policy.exists(), what="the policy to be removed")


def test_when_everything_was_killed_the_policy_forbids_nothing_and_goes_at_its_first_use(
    installation: Installation,
) -> None:
    installation.start()
    installation.kill_all()
    assert installation.answer_outside() == 0
    assert not installation.policy.exists()


def test_a_policy_that_was_left_behind_is_replaced_and_removed(installation: Installation) -> None:
    installation.start()
    installation.kill_all()
    process = installation.start()
    assert installation.answer_inside == 101
    installation.end_apt()
    assert process.wait(timeout=30) == 0
    assert not installation.policy.exists()


def test_a_policy_of_somebody_else_stays_as_it_is(installation: Installation) -> None:
    installation.policy.write_text("#!/bin/sh\nexit 101\n")
    installation.policy.chmod(0o755)
    process = installation.start()
    installation.end_apt()
    assert process.wait(timeout=30) == 0
    assert installation.policy.read_text() == "#!/bin/sh\nexit 101\n"


@pytest.mark.parametrize(("has_sudo", "command"), [(True, "sudo sh -c 'apt-get"), (False, "su -c 'apt-get")])
def test_sudo_is_suggested_only_where_it_exists(tmp_path: Path, has_sudo: bool, command: str) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "dirname", "cat"):
        (programs / name).symlink_to(shutil.which(name) or name)
    scripts = {"id": "echo 1000", "apt-get": "exit 1"} | ({"sudo": "exit 1"} if has_sudo else {})
    for name, text in scripts.items():
        (programs / name).write_text(f"#!{programs}/sh\n{text}\n")
        (programs / name).chmod(0o755)
    # Without /usr/bin on the path there is no browser, and nothing else that is needed to get as far as that.
    done = subprocess.run(
        [programs / "sh", ROOT / "tools/bootstrap.sh", "test"],
        env={"PATH": str(programs)}, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert f"farmiq:     {command} update && apt-get install --no-install-recommends" in done.stderr
    assert ("sudo" in done.stderr) == has_sudo
