"""What `farmiq doctor` looks at, each with the command that repairs it. This half needs no running farm."""

import importlib.metadata
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from farmiq.stack import binaries
from farmiq.stack.errors import StackError

PYTHON_MIN = (3, 11)
DISK_BYTES_NEEDED = 200 << 20  # below this RabbitMQ stops taking messages
DISK_BYTES_WANTED = 2 << 30


class Verdict(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True)
class Check:
    name: str
    verdict: Verdict
    found: str
    fix: str = ""


def good(name: str, found: str) -> Check:
    return Check(name, Verdict.OK, found)


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> Check:
    found = ".".join(map(str, version))
    if version[:2] >= PYTHON_MIN:
        return good("python", f"{found} at {sys.executable}")
    needed = ".".join(map(str, PYTHON_MIN))
    fix = binaries.as_root("apt-get install python3 python3-venv")
    return Check("python", Verdict.FAILED, f"{found}, older than {needed}", fix)


def check_packages(lock: Path | None, version_of: Callable[[str], str | None]) -> Check:
    """Compares the installed versions with those that the lock file pins for this machine."""
    if lock is None:
        return good("python packages", "not run from a checkout: pip has resolved them")
    wrong = []
    for name, version in pins(lock.read_text(encoding="utf-8")):
        installed = version_of(name)
        if installed != version:
            wrong.append(f"{name} {installed or 'missing'} instead of {version}")
    if not wrong:
        return good("python packages", f"as pinned in {lock.name}")
    shown = "; ".join(wrong[:3]) + (f"; and {len(wrong) - 3} more" if len(wrong) > 3 else "")
    return Check("python packages", Verdict.WARNING, f"not as pinned in {lock.name}: {shown}", "tools/bootstrap.sh up")


def pins(lock: str, environment: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """Name and version of each pin whose marker holds here, or in an environment that differs from here by these values."""
    from packaging.markers import Marker

    lines = re.findall(
        r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)[ \t]*(?:;([^\\\n]*))?", lock, flags=re.MULTILINE
    )
    return [
        (name, version)
        for name, version, marker in lines
        if not marker or Marker(marker.strip()).evaluate(dict(environment or {}))
    ]


def installed_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def check_program(name: str, find: Callable[[], str], replaced_by: str, environ: Mapping[str, str]) -> Check:
    """A program that the farm needs, unless a variable of the environment names a server to use in its place."""
    try:
        return good(name, find())
    except StackError as error:
        if environ.get(replaced_by):
            return good(name, f"not installed, and not needed: {replaced_by} is set")
        return Check(name, Verdict.FAILED, str(error), error.fix or "farmiq doctor")


def check_programs(environ: Mapping[str, str]) -> list[Check]:
    """The real servers behind the farm."""
    needed: list[tuple[str, Callable[[], str], str]] = [
        ("mosquitto", lambda: binaries.mosquitto_plugin() and binaries.mosquitto(), "MQTT_URL"),
        ("rabbitmq", binaries.rabbitmq_server, "AMQP_URL"),
        ("erlang", binaries.epmd, "AMQP_URL"),
        ("postgresql", lambda: binaries.postgres("postgres"), "DATABASE_URL"),
        ("seaweedfs", binaries.weed, "S3_ENDPOINT"),
    ]
    if os.geteuid() == 0:
        needed.append(("setpriv", setpriv, "DATABASE_URL"))
    return [check_program(name, find, replaced_by, environ) for name, find, replaced_by in needed]


def setpriv() -> str:
    found = shutil.which("setpriv", path=binaries.search_path())
    if found is None:
        why = "setpriv is not installed, and PostgreSQL, which refuses root, needs it to run as another account"
        raise StackError(why, fix=binaries.as_root("apt-get install util-linux"))
    return found


def check_disk(home: Path, free_bytes: Callable[[Path], int] | None = None) -> Check:
    place = first_existing(home)
    free = free_bytes(place) if free_bytes else shutil.disk_usage(place).free
    found = f"{free / (1 << 30):.1f} GiB free for {home}"
    if free >= DISK_BYTES_WANTED:
        return good("disk", found)
    verdict = Verdict.WARNING if free >= DISK_BYTES_NEEDED else Verdict.FAILED
    return Check("disk", verdict, found, f"free some space, or move the data: FARMIQ_HOME=/a/bigger/disk (now {home})")


def check_home(home: Path) -> Check:
    place = first_existing(home)
    if not place.is_dir():
        return Check("home", Verdict.FAILED, f"{place} is not a folder", "set FARMIQ_HOME to a folder")
    if os.access(place, os.R_OK | os.W_OK | os.X_OK):
        return good("home", str(home) if place == home else f"{home} (made at the first start)")
    return Check(
        "home", Verdict.FAILED, f"{place} can't be used by this user", "set FARMIQ_HOME to a folder of your own"
    )


def first_existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if os.path.lexists(folder))


def worst(checks: Iterable[Check]) -> Verdict:
    order = list(Verdict)
    return max((check.verdict for check in checks), key=order.index, default=Verdict.OK)
