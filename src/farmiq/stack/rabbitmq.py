import asyncio
import hashlib
import os
import signal
import struct
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import aiormq

from farmiq.stack import binaries
from farmiq.stack.errors import StackError
from farmiq.stack.private_files import private_folder, write_private
from farmiq.stack.program import plain_environment

_SETTINGS = """\
# Written by farmiq at each start: changes made here do not last.
listeners.tcp.local = 127.0.0.1:{port}
default_user = {user}
default_pass = {password}
default_vhost = /
default_permissions.configure = .*
default_permissions.read = .*
default_permissions.write = .*
log.console = true
log.console.level = info
log.file = false
# The health check opens a connection each time; two lines for each would bury the rest.
log.connection.level = warning
disk_free_limit.absolute = 200MB
"""


# RabbitMQ 3.10 writes down who leads a quorum queue a moment after it has made the queue. Killed in that moment, it comes back
# with a queue that nobody leads, and never holds an election by itself: whoever publishes or consumes there waits for ever.
_ELECT = (
    "[ra:trigger_election(amqqueue:get_pid(Q)) ||"
    " Q <- rabbit_amqqueue:list(), amqqueue:get_type(Q) =:= rabbit_quorum_queue], done.\n"
)


class NoElection(StackError):
    """RabbitMQ answers its clients and not its own control program. The next health check tries again."""


class NotEvaluated(StackError):
    """RabbitMQ did not evaluate what it was asked: it does not run, or is too busy to answer."""


@dataclass(frozen=True)
class Epmd:
    """Erlang's name service for our RabbitMQ alone. Erlang would otherwise leave a daemon behind that outlives everything."""

    port: int

    name = "epmd"
    stop_signal = signal.SIGTERM
    stop_seconds = 3.0

    def prepare(self) -> None:
        """It needs no folder and no configuration."""

    def command(self) -> list[str]:
        return [binaries.epmd(), "-address", "127.0.0.1", "-port", str(self.port)]

    def environment(self) -> dict[str, str]:
        return plain_environment()

    async def probe(self) -> None:
        """Asks for the list of names: the answer starts with the port that we gave it."""
        async with asyncio.timeout(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                writer.write(b"\x00\x01n")
                (port,) = struct.unpack("!I", await reader.readexactly(4))
            finally:
                writer.close()
        if port != self.port:
            raise StackError(f"something else than epmd answers on port {self.port}")

    def outside(self) -> list[Path]:
        return []


@dataclass(frozen=True)
class RabbitMq:
    """A private RabbitMQ node: own name, own cookie, own folders, loopback only, one user with a random password."""

    folder: Path
    port: int
    distribution_port: int
    epmd_port: int
    password: str
    cookie: str

    user = "farmiq"
    name = "rabbitmq"
    stop_signal = signal.SIGTERM
    stop_seconds = 30.0

    @property
    def node_name(self) -> str:
        # Stays the same when the ports change: RabbitMQ's database belongs to the node's name.
        return f"farmiq-{hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:12]}@localhost"

    def prepare(self) -> None:
        private_folder(self.folder)
        for part in ("data", "logs", "plugins", "generated"):
            private_folder(self.folder / part)
        write_private(self.folder / ".erlang.cookie", self.cookie, mode=0o400)
        write_private(
            self.folder / "rabbitmq.conf", _SETTINGS.format(port=self.port, user=self.user, password=self.password)
        )
        write_private(self.folder / "enabled_plugins", "[].\n")
        write_private(self.folder / "environment.conf", "# Keeps RabbitMQ from reading the one in /etc.\n")
        write_private(self._without_election, "")

    def command(self) -> list[str]:
        return [binaries.rabbitmq_server()]

    def environment(self) -> dict[str, str]:
        folder = self.folder
        return plain_environment() | {
            "HOME": str(folder),  # the cookie's place
            "ERL_CRASH_DUMP": str(folder / "logs" / "crash.dump"),
            "RABBITMQ_NODENAME": self.node_name,
            "RABBITMQ_DIST_PORT": str(self.distribution_port),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "environment.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(folder / "generated"),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_PLUGINS_EXPAND_DIR": str(folder / "plugins"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_PID_FILE": str(folder / "data" / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-start_epmd false -kernel inet_dist_use_interface {127,0,0,1}",
            # Also for the small Erlang machine that RabbitMQ starts before itself, to wake epmd: its daemon would hold the port
            # for ever, and ours, which was only being started again, could never have it back.
            "ERL_FLAGS": "-start_epmd false",
            "ERL_EPMD_PORT": str(self.epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            # The script then becomes the Erlang machine instead of waiting beside it, so that our signals reach it.
            "RUNNING_UNDER_SYSTEMD": "true",
        }

    def url(self, virtual_host: str = "/") -> str:
        return (
            f"amqp://{self.user}:{quote(self.password, safe='')}@127.0.0.1:{self.port}/{quote(virtual_host, safe='')}"
        )

    async def probe(self) -> None:
        # The client logs every refused connection as an error, and a node needs many seconds to start: knock first.
        async with asyncio.timeout(5):
            _, knock = await asyncio.open_connection("127.0.0.1", self.port)
            knock.close()
        async with asyncio.timeout(5):
            connection = await aiormq.connect(self.url())
        try:
            await connection.channel()
        finally:
            await connection.close()
        if self._without_election.exists():
            await self._elect_leaders()

    @property
    def _without_election(self) -> Path:
        """There from each start until every queue has been asked to choose a leader."""
        return self.folder / "generated" / "without-election"

    async def evaluate(self, expressions: str) -> str:
        """Erlang inside the node, and the value of the last expression. `rabbitmqctl` would take seconds for the same."""
        process = await asyncio.create_subprocess_exec(
            *[binaries.erl_call(), "-r", "-timeout", "10", "-n", self.node_name, "-e"],
            env=self.environment(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        told, _ = await process.communicate(expressions.encode())
        answer = told.decode("utf-8", "replace")
        if not answer.startswith("{ok, "):
            raise NotEvaluated(answer[:300])
        return answer.removeprefix("{ok, ").removesuffix("}")

    async def _elect_leaders(self) -> None:
        try:
            await self.evaluate(_ELECT)
        except NotEvaluated as error:
            raise NoElection(str(error)) from error
        self._without_election.unlink(missing_ok=True)

    def outside(self) -> list[Path]:
        return []
