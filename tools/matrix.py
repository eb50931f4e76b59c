#!/usr/bin/python3
"""Follows README.md and docs/start.md on other Debian releases, then runs the fast tests there.

    tools/matrix.py run [SUITE ...]      everything; exit code 1 when a release that must pass does not (make matrix)
    tools/matrix.py roots [SUITE ...]    makes the root filesystems only (make matrix-roots)

A release is a root filesystem made by mmdebstrap, kept under .matrix/roots (or FARMIQ_MATRIX_ROOTS): `SUITE-bare` has what README
asks for (Python, git, make), `SUITE` has the servers too. A cell of the matrix is one machine: an overlay on such a root in mount
and process namespaces of its own, with a fresh clone of HEAD. Nothing that a cell does reaches the root or this machine, and
every process in it ends with it. Only the Python standard library is used: this runs before the checkout has an environment.
"""

import argparse
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT / "tests"))
from support.page_runner import blocks, commands  # noqa: E402 - the pages are read in one way, by this and by the tests

WORK = CHECKOUT / ".matrix"
ROOTS = Path(os.environ.get("FARMIQ_MATRIX_ROOTS") or WORK / "roots")

README_PACKAGES = ("ca-certificates", "git", "make", "python3")
SERVER_PACKAGES = (
    *README_PACKAGES,
    "python3-venv",
    "mosquitto",
    "mosquitto-clients",
    "rabbitmq-server",
    "postgresql",
    "strace",
)

MARK = "@@matrix"
# Where the cell's own files are mounted inside it.
INSIDE = "/mnt/matrix"
# The certificates that this machine trusts: a package index behind a proxy needs them inside as well.
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
CERTIFICATE_VARIABLES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
PASSED_ON = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "http_proxy", "https_proxy", "no_proxy")


class MatrixError(Exception):
    """The matrix cannot run on this machine; the message names the command that mends it."""


@dataclass(frozen=True)
class Suite:
    """One release. A release that is not required is run and reported, and never fails the matrix."""

    name: str
    title: str
    is_required: bool = True
    # The mirror's copy of unstable may be older than its signature is valid.
    apt_options: tuple[str, ...] = ()


SUITES = (
    Suite("bookworm", "Debian 12"),
    Suite("trixie", "Debian 13"),
    Suite("unstable", "Debian unstable", is_required=False, apt_options=('Acquire::Check-Valid-Until "false"',)),
)


@dataclass(frozen=True)
class Cell:
    """One machine of the matrix: which root, who types, and what."""

    name: str
    user: str
    commands: tuple[str, ...]
    is_bare: bool = False
    has_own_postgres: bool = False


@dataclass
class Outcome:
    suite: Suite
    cell: Cell
    log: Path
    seconds: float = 0.0
    failed_at: str | None = None
    versions: str = ""


# --- what is typed ---------------------------------------------------------------------------------------------------------


def readme_commands(page: Path) -> list[str]:
    """`make up`, then each line of the blocks that a reader runs."""
    lines = [line for block in blocks(page) if not block.is_excluded for line in block.text.splitlines()]
    typed = [without_comment(line) for line in lines]
    if not any(typed):
        raise MatrixError(f"{page.name} has no block of commands that is run")
    return ["make up", *filter(None, typed)]


def start_commands(page: Path) -> list[str]:
    return [without_comment(command.text) for block in blocks(page) for command in commands(block)]


def without_comment(line: str) -> str:
    return re.sub(r"\s+# .*$", "", line).strip()


def cells() -> list[Cell]:
    readme = tuple(readme_commands(CHECKOUT / "README.md"))
    start = tuple(start_commands(CHECKOUT / "docs" / "start.md"))
    purge = ("farmiq down --purge --yes",)
    return [
        Cell("root", "root", (*readme, *purge, *start, "make test-fast"), is_bare=True),
        Cell("user", "farmer", (*readme, *purge, *start)),
        Cell("user-own-postgresql", "farmer", readme, has_own_postgres=True),
    ]


# --- root filesystems ------------------------------------------------------------------------------------------------------


def mirror() -> str:
    """Where this machine's apt gets Debian from."""
    targets = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=True,
    )
    sites = [site.rstrip("/") for site in targets.stdout.split()]
    site = next((site for site in sites if site.endswith("/debian")), None)
    if site is None:
        raise MatrixError("apt knows no Debian mirror here. Name one: FARMIQ_MATRIX_MIRROR=... make matrix")
    return site


def make_root(suite: Suite, is_bare: bool) -> Path:
    root = ROOTS / (f"{suite.name}-bare" if is_bare else suite.name)
    packages = README_PACKAGES if is_bare else SERVER_PACKAGES
    stamp = Path(f"{root}.stamp")
    if stamp.exists() and stamp.read_text() == " ".join(packages):
        return root
    say(f"{suite.title}: making {root.name} with {', '.join(packages)}")
    shutil.rmtree(root, ignore_errors=True)
    ROOTS.mkdir(parents=True, exist_ok=True)
    log = Path(f"{root}.log")
    options = [f"--aptopt={option}" for option in suite.apt_options]
    command = ["mmdebstrap", "--variant=minbase", f"--include={','.join(packages)}", *options, suite.name, str(root)]
    with log.open("w") as written:
        made = subprocess.run(
            [*command, os.environ.get("FARMIQ_MATRIX_MIRROR") or mirror()],
            stdout=written,
            stderr=subprocess.STDOUT,
            env=os.environ | {"LANG": "C.UTF-8"},  # PostgreSQL's cluster is made with it
            check=False,
        )
    if made.returncode != 0:
        raise MatrixError(f"mmdebstrap could not make {root.name}; the end of {log}:\n{tail(log)}")
    stamp.write_text(" ".join(packages))
    return root


# --- one machine -----------------------------------------------------------------------------------------------------------

_PREPARE = r"""
set -eu
# /dev/shm and /tmp belong to the cell: PostgreSQL and Chromium leave files there.
mount -t overlay overlay -o "lowerdir=$ROOT,upperdir=$CELL/upper,workdir=$CELL/work" "$CELL/machine"
M=$CELL/machine
mount -t proc proc "$M/proc"
mount --rbind /sys "$M/sys"
mount --rbind /dev "$M/dev"
mount -t tmpfs -o mode=1777 tmpfs "$M/dev/shm"
mkdir -p "$M@INSIDE@" "$M/var/cache/apt/archives/partial"
mount --bind "$CELL/inside" "$M@INSIDE@"
mount --bind "$APT_CACHE" "$M/var/cache/apt/archives"
mkdir -p "$APT_CACHE/partial"
for file in /etc/resolv.conf /etc/hosts; do cp -f "$file" "$M$file"; done
if ! chroot "$M" id farmer >/dev/null 2>&1; then chroot "$M" useradd --create-home --shell /bin/sh farmer; fi
mkdir -p "$M$HOME_INSIDE/.cache/pip"
mount --bind "$PIP_CACHE" "$M$HOME_INSIDE/.cache/pip"
chroot "$M" chown -R "$USER_INSIDE:" "$HOME_INSIDE/.cache"
exec chroot "$M" /bin/sh @INSIDE@/cell.sh
""".replace("@INSIDE@", INSIDE)

_OWN_POSTGRES = r"""
version=$(ls /usr/lib/postgresql | sort -n | tail -n 1)
pg_dropcluster --stop "$version" main || true
pg_createcluster --locale=C.UTF-8 --encoding=UTF8 --port="$OWN_POSTGRES_PORT" "$version" main
pg_ctlcluster "$version" main start
printf "CREATE ROLE farmer LOGIN CREATEDB PASSWORD '%s'" "$OWN_POSTGRES_PASSWORD" |
    runuser -u postgres -- psql --quiet --port="$OWN_POSTGRES_PORT"
"""

# Every process of the cell is in its process namespace, so what `down` left behind can be counted.
_LEFTOVERS = r'''
"""Prints the processes of this namespace that are neither dead nor the cell's own."""
import os, pathlib
own, pid = set(), os.getpid()
while pid:
    own.add(pid)
    pid = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
left = []
for folder in pathlib.Path("/proc").glob("[0-9]*"):
    try:
        state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
        command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        continue
    if int(folder.name) not in own and state != "Z":
        left.append(f"{folder.name} {command[:120]}")
print("\n".join(left))
raise SystemExit(bool(left))
'''


def cell_script(cell: Cell, environment: dict[str, str]) -> str:
    """What runs inside, as root: it prepares the machine and types each command as the cell's user."""
    home = home_of(cell)
    exported = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())
    run_as = "" if cell.user == "root" else f"setpriv --reuid={cell.user} --regid={cell.user} --init-groups "
    lines = [
        "set -eu",
        "export LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        f'as_user() {{ (cd {home}/farmiq 2>/dev/null || cd {home}; {run_as}env -i {exported} /bin/sh -c "$1"); }}',
        f"step() {{ echo '{MARK} begin' \"$1\"; shift; \"$@\" || {{ echo '{MARK} failed'; exit 1; }}; echo '{MARK} passed'; }}",
    ]
    if cell.has_own_postgres:
        lines += [_OWN_POSTGRES]
    lines += [
        f"step 'git clone' as_user 'git clone -q {INSIDE}/source.bundle farmiq'",
        *(f"step {shlex.quote(command)} as_user {shlex.quote(command)}" for command in cell.commands),
        f"echo '{MARK} versions' $({run_as}{home}/farmiq/.venv/bin/python --version),"
        " $(dpkg-query -W -f '${Package} ${Version}, ' mosquitto rabbitmq-server"
        + (" 'postgresql-1?'" if cell.has_own_postgres else "")
        + ")",
    ]
    if cell.has_own_postgres:
        lines += ['pg_ctlcluster "$version" main stop']
    lines += [f"step 'no process is left' python3 {INSIDE}/leftovers.py"]
    return "\n".join(lines) + "\n"


def home_of(cell: Cell) -> str:
    return "/root" if cell.user == "root" else f"/home/{cell.user}"


def environment_of(cell: Cell) -> dict[str, str]:
    home = home_of(cell)
    environment = {name: os.environ[name] for name in PASSED_ON if os.environ.get(name)}
    environment |= dict.fromkeys(CERTIFICATE_VARIABLES, f"{INSIDE}/certificates.crt")
    environment |= {"HOME": home, "USER": cell.user, "LANG": "C.UTF-8", "TERM": "dumb"}
    # A page writes `farmiq`; in a checkout that is .venv/bin/farmiq.
    environment["PATH"] = f"{home}/farmiq/.venv/bin:/usr/local/bin:/usr/bin:/bin" + (
        ":/usr/local/sbin:/usr/sbin:/sbin" if cell.user == "root" else ""
    )
    return environment


def run_cell(suite: Suite, cell: Cell, root: Path, keep: bool) -> Outcome:
    logs = WORK / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    outcome = Outcome(suite, cell, logs / f"{suite.name}-{cell.name}.log")
    (WORK / "cells").mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{suite.name}-{cell.name}-", dir=WORK / "cells"))
    folder.chmod(0o755)
    started = time.monotonic()
    try:
        _furnish(folder, cell)
        _run_inside(folder, root, outcome)
    finally:
        outcome.seconds = time.monotonic() - started
        if not keep:
            shutil.rmtree(folder)
    return outcome


def _furnish(folder: Path, cell: Cell) -> None:
    for name in ("upper", "work", "machine", "inside"):
        (folder / name).mkdir()
    inside = folder / "inside"
    environment = environment_of(cell)
    script = cell_script(cell, environment)
    if cell.has_own_postgres:
        port, password = _free_port(), os.urandom(16).hex()
        url = f"postgresql://farmer:{password}@127.0.0.1:{port}/postgres"
        script = cell_script(cell, environment | {"DATABASE_URL": url})
        script = f"OWN_POSTGRES_PORT={port} OWN_POSTGRES_PASSWORD={password}\n{script}"
    (inside / "cell.sh").write_text(script)
    (inside / "leftovers.py").write_text(_LEFTOVERS)
    shutil.copyfile(CERTIFICATES, inside / "certificates.crt")
    subprocess.run(
        ["git", "-C", str(CHECKOUT), "bundle", "create", "--quiet", str(inside / "source.bundle"), "HEAD"], check=True
    )


def _run_inside(folder: Path, root: Path, outcome: Outcome) -> None:
    cell = outcome.cell
    caches = {
        "APT_CACHE": WORK / "cache" / f"apt-{outcome.suite.name}",
        "PIP_CACHE": WORK / "cache" / f"pip-{outcome.suite.name}-{cell.user}",
    }
    for cache in caches.values():
        cache.mkdir(parents=True, exist_ok=True)
    variables = {"ROOT": root, "CELL": folder, "HOME_INSIDE": home_of(cell), "USER_INSIDE": cell.user} | caches
    command = [
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--propagation",
        "private",
        "sh",
        "-c",
        _PREPARE,
    ]
    with outcome.log.open("w") as log:
        machine = subprocess.Popen(
            command,
            env={"PATH": os.environ["PATH"]} | {name: str(value) for name, value in variables.items()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        try:
            _follow(machine.stdout or (), outcome, log)
        finally:
            machine.kill()
            machine.wait()
    if outcome.failed_at is None and not outcome.versions:
        outcome.failed_at = "preparing the machine"


def _follow(lines: Iterable[str], outcome: Outcome, log: TextIO) -> None:
    """Shows each step with its time, and writes everything into the log."""
    step, began = "", 0.0
    for line in lines:
        log.write(line)
        log.flush()
        if not line.startswith(MARK):
            continue
        _, _, rest = line.rstrip("\n").partition(" ")
        word, _, text = rest.partition(" ")
        if word == "begin":
            step, began = text, time.monotonic()
        elif word == "versions":
            outcome.versions = text.rstrip(", ")
        else:
            outcome.failed_at = step if word == "failed" else outcome.failed_at
            symbol = "✖" if word == "failed" else "✔"
            seconds = time.monotonic() - began
            say(f"{outcome.suite.title} · {outcome.cell.name} · {symbol} {step}  {seconds:.0f} s")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# --- the matrix ------------------------------------------------------------------------------------------------------------


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def tail(log: Path, lines: int = 30) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def check_machine() -> None:
    if os.geteuid() != 0:
        raise MatrixError("mounting and chroot need root. Run it as root: make matrix")
    missing = [program for program in ("mmdebstrap", "unshare", "git") if shutil.which(program) is None]
    if missing:
        raise MatrixError(f"missing on this machine: {', '.join(missing)}. Run: apt-get install {' '.join(missing)}")


def report(outcomes: Sequence[Outcome]) -> int:
    say("")
    for outcome in outcomes:
        state = "passed" if outcome.failed_at is None else f"FAILED at: {outcome.failed_at}"
        note = "" if outcome.suite.is_required else " (reported only)"
        say(f"{outcome.suite.title:16} {outcome.cell.name:20} {outcome.seconds:5.0f} s  {state}{note}")
        say(f"{'':16} {outcome.versions or outcome.log}")
    for outcome in outcomes:
        if outcome.failed_at is not None:
            say(f"\n--- the end of {outcome.log} ---\n{tail(outcome.log)}")
    failed = [outcome for outcome in outcomes if outcome.failed_at is not None and outcome.suite.is_required]
    say(f"\n{len(outcomes) - len(failed)} passed or reported, {len(failed)} failed")
    return 1 if failed else 0


def chosen(names: Sequence[str]) -> list[Suite]:
    unknown = set(names) - {suite.name for suite in SUITES}
    if unknown:
        raise MatrixError(f"unknown: {', '.join(sorted(unknown))}. There are {', '.join(s.name for s in SUITES)}")
    return [suite for suite in SUITES if not names or suite.name in names]


def run(options: argparse.Namespace) -> int:
    outcomes = []
    for suite in chosen(options.suites):
        for cell in cells():
            if options.cell and cell.name not in options.cell:
                continue
            try:
                outcomes.append(run_cell(suite, cell, make_root(suite, cell.is_bare), options.keep))
            except MatrixError as error:
                if suite.is_required:
                    raise
                say(f"{suite.title}: {error}")
                break
    return report(outcomes)


def roots(options: argparse.Namespace) -> int:
    for suite in chosen(options.suites):
        say(str(make_root(suite, is_bare=False)))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    subparsers = parser.add_subparsers(required=True)
    for name, function in (("run", run), ("roots", roots)):
        command = subparsers.add_parser(name)
        command.set_defaults(function=function)
        command.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(s.name for s in SUITES)}")
        if name == "run":
            command.add_argument("--cell", action="append", help="run this cell only; may be repeated")
            command.add_argument("--keep", action="store_true", help="keep each cell's files under .matrix/cells")
    options = parser.parse_args()
    # Ended from outside, the machine of the present cell and its files go too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        check_machine()
        return int(options.function(options))
    except MatrixError as error:
        sys.stderr.write(f"matrix: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
