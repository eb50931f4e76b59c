import asyncio
import contextlib
import os
import secrets
import signal
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from farmiq.edge.ingress_gateway.broker_logins import MqttLogin, hash_password, mqtt_url
from farmiq.stack import binaries
from farmiq.stack.errors import StackError
from farmiq.stack.mosquitto_users import MqttUser, change_logins, password_file, rules_file, set_users
from farmiq.stack.private_files import private_folder, write_private
from farmiq.stack.program import plain_environment

# Two listeners with the same users. Client ids are one name space for the whole broker, and a second connection under an id ends
# the first. So on the devices' listener the id is the user's name, whatever a client asks for: a device can neither throw
# another out nor take over what waits for it, and has one connection at most. Replicas of a service share a login and tell
# themselves apart by their ids, so services have a listener of their own. Nothing but services may reach it: it takes any login
# under any id. (`per_listener_settings true` could tell the users apart, but breaks persistent sessions in 2.0.12 to 2.0.18. No
# `max_connections`: 2.0.11 counts each refusal as a connection that ended, and so refuses nobody after the first few.)
_TWO_LISTENERS = """\
listener {port} 127.0.0.1
use_username_as_clientid true

listener {services_port} 127.0.0.1
"""
_ONE_LISTENER = "listener {port} 127.0.0.1\n"

_SETTINGS = """\
# Written by farmiq at each start: changes made here do not last.
per_listener_settings false
{listeners}{user}allow_anonymous false
password_file {passwords}
acl_file {rules}

# By default the broker drops whatever a client can't take after 1000 queued messages. A gateway that restarts must find all.
# Each client has its own queue of this size: one that does not take its messages fills its own and nobody else's.
max_queued_messages 100000
max_queued_bytes 268435456
# Messages under way to one client, not yet acknowledged by it.
max_inflight_messages 1000
# A larger packet costs its sender the connection. It bounds what one connection makes the broker hold while it reads.
max_packet_size 262144
set_tcp_nodelay true

# No persistent_client_expiration: the gateway's session must survive any time away.
persistence true
persistence_location {data}/
autosave_interval 60

log_dest stderr
log_timestamp_format %Y-%m-%dT%H:%M:%S
connection_messages true
"""

_PROBE_USER = "farmiq-probe"
# Gets a new password with every change: once the broker takes it, the broker has read the files.
_WITNESS_USER = "farmiq-witness"
# As root, Mosquitto would switch to an account that can't enter our private folders. A normal user stays who he is.
_STAY_ROOT = "user root\n"
_RELOAD_SECONDS_MAX = 15.0


class MqttRefused(StackError):
    """The broker answered and refused the connection."""


class BrokerNotReloaded(StackError):
    """The change is in the broker's files, but the broker did not confirm that it has read them. It will at its next start."""


@dataclass(frozen=True)
class Mosquitto:
    """A private MQTT broker that knows nobody but the users it was given."""

    folder: Path
    port: int
    probe_password: str
    # Those who are always there. Others are added with `set_users` and stay.
    users: tuple[MqttUser, ...] = ()
    # Where services log in. Without it there is one listener for all, on which a device can use any client id.
    services_port: int | None = None
    # Where devices come in, when something stands before their listener.
    entrance_port: int | None = None

    name = "mosquitto"
    stop_signal = signal.SIGTERM
    stop_seconds = 10.0

    def prepare(self) -> None:
        private_folder(self.folder)
        data = private_folder(self.folder / "data")
        set_users(self.folder, MqttUser(_PROBE_USER, self.probe_password, rules=()), *self.users)
        listeners = _ONE_LISTENER if self.services_port is None else _TWO_LISTENERS
        settings = _SETTINGS.format(
            listeners=listeners.format(port=self.port, services_port=self.services_port),
            user=_STAY_ROOT if os.geteuid() == 0 else "",
            passwords=password_file(self.folder),
            rules=rules_file(self.folder),
            data=data,
        )
        write_private(self._settings_file, settings)

    def command(self) -> list[str]:
        return [binaries.mosquitto(), "-c", str(self._settings_file)]

    def environment(self) -> dict[str, str]:
        return plain_environment()

    def url(self, user: str, password: str) -> str:
        """For a service, which may have several connections with one login."""
        return mqtt_url(user, password, "127.0.0.1", self._own_port)

    def device_url(self, user: str, password: str) -> str:
        return mqtt_url(user, password, "127.0.0.1", self.entrance_port or self.port)

    async def probe(self) -> None:
        await log_in("127.0.0.1", self._own_port, _PROBE_USER, self.probe_password)

    async def admit(self, pid: int, user: MqttUser) -> None:
        """Adds a user to the running broker without dropping a connection. Returns when the broker lets the user in."""
        login = MqttLogin(user.name, hash_password(user.password), user.rules)
        await put_in_force(self.folder, self._own_port, lambda: pid, put=[login])

    async def dismiss(self, pid: int, *names: str) -> None:
        """Removes users from the running broker, and ends their connections."""
        await put_in_force(self.folder, self._own_port, lambda: pid, drop=names)

    def outside(self) -> list[Path]:
        return []

    @property
    def _own_port(self) -> int:
        return self.services_port or self.port

    @property
    def _settings_file(self) -> Path:
        return self.folder / "mosquitto.conf"


async def put_in_force(
    folder: Path,
    port: int,
    find_pid: Callable[[], int | None],
    put: Iterable[MqttLogin] = (),
    drop: Iterable[str] = (),
    seconds_max: float = _RELOAD_SECONDS_MAX,
) -> None:
    """Changes who may log in, and returns when the broker acts on it. `find_pid` answers None while the broker is away.

    `port` is any that the broker listens on."""
    witness = MqttUser(_WITNESS_USER, secrets.token_urlsafe(24), rules=())
    change_logins(folder, [*put, MqttLogin(witness.name, hash_password(witness.password), ())], drop)
    try:
        async with asyncio.timeout(seconds_max):
            await _reload(port, find_pid, witness)
    except TimeoutError as error:
        what = f"the broker on port {port} gave no sign within {seconds_max:g} s that it has read its files"
        raise BrokerNotReloaded(what, fix="farmiq status, then the same command again") from error


async def _reload(port: int, find_pid: Callable[[], int | None], witness: MqttUser) -> None:
    told: int | None = None
    while True:
        try:
            await log_in("127.0.0.1", port, witness.name, witness.password)
        except MqttRefused:
            # An answer means that it runs. A process that is still starting would die of the signal.
            pid = find_pid()
            if pid is not None and pid != told:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGHUP)
                told = pid
        except (OSError, asyncio.IncompleteReadError):
            told = None  # away: whoever starts in its place reads the new files
        else:
            return
        await asyncio.sleep(0.02)


async def log_in(
    host: str, port: int, user: str, password: str, *, keeps_session: bool = False, timeout_seconds: float = 5.0
) -> None:
    """Connects as an MQTT 3.1.1 client, reads the broker's answer, and leaves. Raises MqttRefused for a no.

    `keeps_session`: under the user's own client id, and without ending the session that may wait for him there."""
    async with asyncio.timeout(timeout_seconds):
        reader, writer = await asyncio.open_connection(host, port)
        try:
            writer.write(_connect_packet(user, password, keeps_session))
            answer = await reader.readexactly(4)
            if answer[0] != 0x20 or answer[3] != 0:
                raise MqttRefused(f"the broker on {host}:{port} refused user {user} with code {answer[3]}")
            writer.write(b"\xe0\x00")  # DISCONNECT
            await writer.drain()
        finally:
            writer.close()


def _connect_packet(user: str, password: str, keeps_session: bool) -> bytes:
    # Protocol MQTT, level 4; flags: user name, password, clean session or not; keep-alive 10 s; the client id.
    flags, client_id = (b"\xc0", user) if keeps_session else (b"\xc2", "")
    head = b"\x00\x04MQTT\x04" + flags + b"\x00\x0a"
    body = head + b"".join(_counted(text) for text in (client_id, user, password))
    return b"\x10" + _varying_length(len(body)) + body


def _counted(text: str) -> bytes:
    data = text.encode()
    return struct.pack("!H", len(data)) + data


def _varying_length(length: int) -> bytes:
    encoded = bytearray()
    while True:
        length, digit = divmod(length, 128)
        encoded.append(digit | (0x80 if length else 0))
        if not length:
            return bytes(encoded)
