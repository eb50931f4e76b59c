#!/usr/bin/env python3
"""Makes the golden farm of a release: `tests/golden/VERSION`. What is in it and what it is for: docs/internals/golden-farm.md.

    tools/golden_farm.py make 0.1.0 bb9f740         some ten minutes; needs git, the package index and Debian's servers
    tools/golden_farm.py wheel bb9f740 FOLDER       the release's wheel, the same bytes each time

The commit is unpacked into a temporary folder and gets an environment of its own from its own lock. The farm then runs there, on
free ports, and leaves nothing behind but the files. PYTHON names the interpreter for it: 3.11.7 or newer, because the relay of
0.1.0 loses bytes on 3.11.2."""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The names of this machine are nobody's business: rows say which host has written them.
_UNDER_ANOTHER_NAME = ["unshare", "--uts", "sh", "-c", 'hostname golden-farm && exec "$@"', "sh"]


def make(version: str, commit: str, *, keep: bool) -> None:
    folder = Path(tempfile.mkdtemp(prefix=f"golden-{version}-"))
    folder.chmod(0o755)  # PostgreSQL runs as another user when we are root
    try:
        checkout, made = unpack(commit, folder / "checkout"), folder / "made"
        python = environment(checkout)
        as_golden = _UNDER_ANOTHER_NAME if os.geteuid() == 0 else []
        subprocess.run(
            [*as_golden, python, "-m", "golden.story", folder / "home", made],
            env=os.environ | {"PYTHONPATH": str(ROOT / "tools")}, check=True,
        )  # fmt: skip
        complete(made / "MANIFEST.json", version, commit, build_wheel(checkout, python, folder / "wheel", commit))
        target = ROOT / "tests" / "golden" / version
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(made, target)
        sys.stdout.write(f"{target.relative_to(ROOT)}: {sum(path.stat().st_size for path in target.iterdir())} bytes\n")
    finally:
        if not keep:
            shutil.rmtree(folder)


def unpack(commit: str, folder: Path) -> Path:
    folder.mkdir()
    packed = subprocess.run(["git", "-C", ROOT, "archive", commit], stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(["tar", "-x", "-C", folder], input=packed, check=True)
    return folder


def environment(checkout: Path) -> Path:
    """From the lock of the release, every file of it by its hash."""
    subprocess.run([checkout / "tools" / "bootstrap.sh", "up"], cwd=checkout, check=True)
    return checkout / ".venv" / "bin" / "python"


def build_wheel(checkout: Path, python: Path, folder: Path, commit: str) -> Path:
    """With the build backend of the release's lock, and the time of its commit as the time of every file."""
    moment = subprocess.run(
        ["git", "-C", ROOT, "show", "--no-patch", "--format=%ct", commit], capture_output=True, text=True, check=True
    ).stdout.strip()
    subprocess.run(
        [python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, checkout],
        env=os.environ | {"SOURCE_DATE_EPOCH": moment}, check=True,
    )  # fmt: skip
    (wheel,) = folder.glob("*.whl")
    return wheel


def complete(manifest: Path, version: str, commit: str, wheel: Path) -> None:
    facts = {
        "version": version,
        "commit": commit,
        "wheel": {"name": wheel.name, "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest()},
    }
    manifest.write_text(json.dumps(facts | json.loads(manifest.read_text()), indent=1) + "\n")


def wheel(commit: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="golden-wheel-") as place:
        checkout = unpack(commit, Path(place) / "checkout")
        made = build_wheel(checkout, environment(checkout), folder, commit)
    sys.stdout.write(f"{hashlib.sha256(made.read_bytes()).hexdigest()}  {made}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="The golden farm of a release.")
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make", help="run a farm of that commit and write it to tests/golden/VERSION")
    making.add_argument("version")
    making.add_argument("commit")
    making.add_argument("--keep", action="store_true", help="leave the temporary folder")
    building = commands.add_parser("wheel", help="build the release's wheel into a folder")
    building.add_argument("commit")
    building.add_argument("folder", type=Path)
    given = parser.parse_args()
    if given.command == "make":
        make(given.version, given.commit, keep=given.keep)
    else:
        wheel(given.commit, given.folder)


if __name__ == "__main__":
    main()
