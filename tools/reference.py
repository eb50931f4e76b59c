#!/usr/bin/env python3
"""Writes the pages of docs/reference/ that come from the code; `--check` only says which of them are out of date.

    .venv/bin/python tools/reference.py            writes them all
    .venv/bin/python tools/reference.py --check    exit code 1, and what differs, when one is not current

Settings, commands and messages are read from the source. Metrics and HTTP routes are asked of the services themselves, which
are started for a moment on a PostgreSQL of their own. The broker, RabbitMQ and the object store stay away: no service needs them
to say what it offers.
"""

import argparse
import asyncio
import difflib
import sys
import tempfile
from pathlib import Path

from reference_pages import asyncapi, commands, metrics, openapi, settings
from reference_pages.services import running_services

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"


def pages() -> dict[Path, str]:
    """Each generated file, with what it should hold."""
    with tempfile.TemporaryDirectory(prefix="farmiq-reference-") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL runs as another user when we are root
        services = asyncio.run(running_services(Path(folder)))
    made = {
        REFERENCE / "settings.md": settings.page(),
        REFERENCE / "metrics.md": metrics.page(services),
        REFERENCE / "cli.md": commands.page(),
        REFERENCE / "asyncapi.yaml": asyncapi.document(),
        REFERENCE / "http.md": openapi.page(services),
    }
    return made | {REFERENCE / "api" / name: text for name, text in openapi.documents(services).items()}


def stale(wanted: dict[Path, str]) -> dict[Path, str]:
    """What differs on disk, as a diff. A document of a service that is gone differs too."""
    left = [path for path in (REFERENCE / "api").glob("*.json") if path not in wanted]
    found = {path: text_of(path) for path in (*wanted, *left)}
    return {
        path: "".join(
            difflib.unified_diff(
                text.splitlines(keepends=True), wanted.get(path, "").splitlines(keepends=True), "is", "should be", n=1
            )
        )
        for path, text in found.items()
        if text != wanted.get(path, "")
    }


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def write(wanted: dict[Path, str], different: dict[Path, str]) -> None:
    for path in different:
        if path in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
        else:
            path.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing: say what is out of date")
    check = parser.parse_args().check
    wanted = pages()
    different = stale(wanted)
    if not check:
        write(wanted, different)
    for path, difference in different.items():
        sys.stdout.write(f"{path.relative_to(ROOT)} {'is out of date' if check else 'written'}\n")
        if check:
            sys.stdout.write(difference)
    if check and different:
        sys.stdout.write("Write them anew with: .venv/bin/python tools/reference.py\n")
    return 1 if check and different else 0


if __name__ == "__main__":
    sys.exit(main())
