"""PostgreSQL's own tools, as child processes. No password stands on a command line."""

import asyncio
import os
import re
import shutil
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

from farmiq.backup.errors import ToolFailed
from farmiq.stack import binaries
from farmiq.stack.program import plain_environment

JOBS: Final = 2
LAST_WORDS_LENGTH: Final = 2000

# Schemas are the restore's own business: it makes the empty one, with the mark that nobody may use it yet.
_LEFT_OUT: Final = re.compile(r"^\d+; \d+ \d+ (SCHEMA - public|COMMENT - SCHEMA public)\b")
_TABLE_DATA: Final = re.compile(r"^\d+; \d+ \d+ TABLE DATA (\S+) (\S+) ")


async def dump(database_url: str, snapshot: str, folder: Path, *, major: int) -> None:
    """The snapshot's rows, and the schema, into a folder of files that are compressed one by one. `major` is the server's."""
    options = ["--format=directory", f"--jobs={JOBS}", f"--snapshot={snapshot}", "--no-owner", "--no-privileges"]
    options += ["--schema=public", "--lock-wait-timeout=60s", f"--file={folder}"]
    await _run(program("pg_dump", major), [*options, _named(database_url)], _secrets(database_url))


async def restore(database_url: str, folder: Path, list_file: Path, *, major: int) -> None:
    """Into an empty schema. Ends at the first error. `major` is the server's."""
    chosen = [line for line in (await table_of_contents(folder)).splitlines() if not _LEFT_OUT.match(line)]
    await asyncio.to_thread(list_file.write_text, "\n".join(chosen) + "\n", encoding="utf-8")
    options = [f"--jobs={JOBS}", "--exit-on-error", "--no-owner", "--no-privileges", f"--use-list={list_file}"]
    await _run(program("pg_restore", major), [*options, _named(database_url), str(folder)], _secrets(database_url))


async def table_of_contents(folder: Path) -> str:
    return await _run(program("pg_restore"), ["--list", str(folder)], {})


def tables_with_data(contents: str) -> set[str]:
    """Names of the tables of which the dump holds rows, as `manifest.DatabaseFacts.rows` has them."""
    return {found[2] for line in contents.splitlines() if (found := _TABLE_DATA.match(line))}


def program(name: str, major: int | None = None) -> str:
    """The one that comes with a server of that version, because a newer one speaks of settings that an older server does not
    know; else the wheel's, which fits the server that we start; else whatever the system has."""
    beside = Path(f"/usr/lib/postgresql/{major}/bin/{name}")
    if major is not None and os.access(beside, os.X_OK):
        return str(beside)
    try:
        return binaries.postgres(name)
    except binaries.PostgresMissing:
        found = shutil.which(name, path=binaries.search_path())
        if found is None:
            raise
        return found


async def _run(path: str, arguments: list[str], secrets: dict[str, str]) -> str:
    process = await asyncio.create_subprocess_exec(
        path,
        *arguments,
        env=plain_environment() | secrets,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        said, complained = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        words = complained.decode(errors="replace")[-LAST_WORDS_LENGTH:].strip()
        raise ToolFailed(
            f"{Path(path).name} ended with {process.returncode}:\n{words}", fix="df -h, then the same command again"
        )
    return said.decode()


def _named(database_url: str) -> str:
    """The database without its password."""
    parts = urlsplit(database_url)
    user, _, place = parts.netloc.rpartition("@")
    netloc = f"{user.partition(':')[0]}@{place}" if user else place
    return f"--dbname={urlunsplit(parts._replace(netloc=netloc))}"


def _secrets(database_url: str) -> dict[str, str]:
    password = urlsplit(database_url).password
    return {"PGPASSWORD": unquote(password)} if password else {}
