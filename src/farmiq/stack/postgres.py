import os
import shutil
import signal
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import asyncpg

from farmiq.kit.database_roles import identifier, reader_role, role_statements, writer_role
from farmiq.kit.postgres import Connection
from farmiq.stack import binaries
from farmiq.stack.errors import StackError
from farmiq.stack.private_files import private_folder, remove, write_private
from farmiq.stack.processes import MARKER
from farmiq.stack.program import plain_environment
from farmiq.stack.socket_folder import make_socket_folder, socket_folder
from farmiq.stack.unprivileged import command_as, server_account

SUPERUSER = "postgres"

_LONGEST_SOCKET_NAME = ".s.PGSQL.65535.lock"

_SETTINGS = """\
# Written by farmiq at each start: changes made here do not last.
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = '{socket_folder}'
unix_socket_permissions = 0700
hba_file = '{hba_file}'
password_encryption = 'scram-sha-256'
max_connections = 200
shared_buffers = '128MB'
work_mem = '8MB'
maintenance_work_mem = '64MB'
max_wal_size = '1GB'
jit = off
fsync = {fsync}
synchronous_commit = on
timezone = 'UTC'
log_timezone = 'UTC'
logging_collector = off
log_line_prefix = '%m [%p] %q%u@%d '
log_min_error_statement = panic  # a failed statement may carry a password or a payload
"""

_ACCESS = """\
local all all               scram-sha-256
host  all all 127.0.0.1/32  scram-sha-256
"""


class InitdbFailed(StackError):
    """PostgreSQL could not create its data folder. Often the disk is full or read-only."""


@dataclass(frozen=True)
class Postgres:
    """A private PostgreSQL cluster. Nobody gets in without a password, not even over its Unix socket."""

    folder: Path
    port: int
    superuser_password: str
    # Throwaway clusters of tests survive no power cut, so they need not pay for one.
    is_throwaway: bool = False

    name = "postgres"
    stop_signal = signal.SIGINT  # fast shutdown: end the sessions, write a checkpoint, stop
    stop_seconds = 20.0

    @property
    def data_folder(self) -> Path:
        return self.folder / "data"

    def prepare(self) -> None:
        private_folder(self.folder)
        if not self.data_folder.exists():
            self._initialise()
        _discard_stale_lock(self.data_folder / "postmaster.pid")
        socket_folder = self._make_socket_folder()
        hba_file = self.folder / "pg_hba.conf"
        write_private(hba_file, _ACCESS, mode=0o644)
        settings = _SETTINGS.format(
            port=self.port,
            socket_folder=_quoted(socket_folder),
            hba_file=_quoted(hba_file),
            fsync="off" if self.is_throwaway else "on",
        )
        write_private(self._settings_file, settings, mode=0o644)

    def command(self) -> list[str]:
        return self._as_server("postgres", "-D", str(self.data_folder), "-c", f"config_file={self._settings_file}")

    def environment(self) -> dict[str, str]:
        return plain_environment()

    def url(self, role: str = SUPERUSER, password: str | None = None, database: str = "postgres") -> str:
        secret = self.superuser_password if password is None else password
        return f"postgresql://{quote(role, safe='')}:{quote(secret, safe='')}@127.0.0.1:{self.port}/{database}"

    async def probe(self) -> None:
        connection = await asyncpg.connect(self.url(), timeout=5, ssl=False)
        try:
            await connection.execute("SELECT 1")
        finally:
            await connection.close(timeout=5)

    def outside(self) -> list[Path]:
        return [] if self.socket_folder.parent == self.folder else [self.socket_folder]

    @property
    def socket_folder(self) -> Path:
        return socket_folder(self.folder / "socket", _LONGEST_SOCKET_NAME)

    @property
    def _settings_file(self) -> Path:
        return self.folder / "postgresql.conf"

    def _as_server(self, program: str, *arguments: str) -> list[str]:
        return command_as(server_account(), [binaries.postgres(program), *arguments], [self.data_folder])

    def _initialise(self) -> None:
        # A cluster counts only under its final name: an initdb that was killed half way is thrown away and repeated.
        unfinished = self.folder / "data.unfinished"
        remove([unfinished])
        unfinished.mkdir(mode=0o700)
        password_file = self.folder / "superuser-password"
        write_private(password_file, self.superuser_password + "\n")
        _give_to_server(unfinished, password_file)
        try:
            self._run_initdb(unfinished, password_file)
        finally:
            password_file.unlink()
        unfinished.rename(self.data_folder)

    def _run_initdb(self, data_folder: Path, password_file: Path) -> None:
        options = ["--auth=scram-sha-256", "--encoding=UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        options += ["--locale=C", f"--username={SUPERUSER}", f"--pwfile={password_file}"]
        if self.is_throwaway:
            options.append("--no-sync")
        finished = subprocess.run(
            self._as_server("initdb", "-D", str(data_folder), *options),
            env=self.environment(),
            cwd="/",  # the server's account may not be able to enter ours
            capture_output=True,
            text=True,
            check=False,
        )
        if finished.returncode != 0:
            raise InitdbFailed(
                f"initdb ended with {finished.returncode}:\n{finished.stdout}{finished.stderr}", fix="df -h"
            )

    def _make_socket_folder(self) -> Path:
        account = server_account()
        make_socket_folder(self.socket_folder, {os.geteuid()} | ({account.uid} if account else set()))
        _give_to_server(self.socket_folder)
        return self.socket_folder


def _give_to_server(*paths: Path) -> None:
    account = server_account()
    if account:
        for path in paths:
            shutil.chown(path, account.uid, account.gid)


def _discard_stale_lock(lock: Path) -> None:
    """After a reboot the process id in the lock may belong to a stranger, and PostgreSQL would refuse to start for ever.
    Only a process that carries our marker can be its postmaster; PostgreSQL's own shared memory check still follows."""
    if not lock.exists():
        return
    pid = lock.read_text(encoding="utf-8", errors="replace").split("\n", 1)[0].strip()
    environment = Path("/proc") / pid / "environ"
    try:
        is_ours = f"{MARKER}=".encode() in environment.read_bytes()
    except OSError:
        is_ours = False
    if not is_ours:
        lock.unlink(missing_ok=True)


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


async def create_role_and_database(
    connection: Connection, name: str, password: str, services: Iterable[str] = ()
) -> None:
    """One role that owns one database of its name, where nobody else may connect, and the roles that requests read and services
    write it as. Safe to repeat; sets the password anew."""
    verb = "ALTER" if await connection.fetchval("SELECT 1 FROM pg_roles WHERE rolname = $1", name) else "CREATE"
    owner = identifier(name)
    await connection.execute(
        f"{verb} ROLE {owner} WITH LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD {_literal(password)}"
    )
    if not await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", name):
        await connection.execute(f"CREATE DATABASE {owner} OWNER {owner} TEMPLATE template0")
    await connection.execute(f"REVOKE ALL ON DATABASE {owner} FROM PUBLIC")
    for role in (reader_role(name), *(writer_role(name, service) for service in services)):
        create, grant = role_statements(name, role)
        if not await connection.fetchval("SELECT 1 FROM pg_roles WHERE rolname = $1", role):
            await connection.execute(create)
        await connection.execute(grant)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
