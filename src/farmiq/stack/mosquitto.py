import asyncio
import contextlib
import os
import signal
import struct
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field
from pathlib import Path

from farmiq.edge.ingress_gateway.broker_logins import MqttLogin, mqtt_url
from farmiq.kit.mqtt import BrokerAway
from farmiq.stack import binaries
from farmiq.stack.broker_control import control
from farmiq.stack.broker_log import LOG_TYPES
from farmiq.stack.broker_sessions import keep_sessions_of
from farmiq.stack.errors import StackError
from farmiq.stack.mosquitto_users import (
    WITNESS_USER,
    MqttUser,
    Witness,
    access_file,
    change_files,
    change_passwords,
    keeper_rights,
    password_file,
)
from farmiq.stack.private_files import private_folder, write_private
from farmiq.stack.program import plain_environment

# Two listeners with the same users. Client ids are one name space for the whole broker, and a second connection under an id ends
# the first. So on the devices' listener the id is the user's name, whatever a client asks for: a device can neither throw
# another out nor take over what waits for it, and has one connection at most. Replicas of a service share a login and tell
# themselves apart by their ids, so services have a listener of their own. There too the dynamic-security plugin lets a device in
# under its own name only. (`per_listener_settings true` would load the plugin twice, and breaks persistent sessions in 2.0.12 to
# 2.0.18. No `max_connections`: 2.0.11 counts each refusal as a connection that ended, and so refuses nobody after the first few.)
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
plugin {plugin}
plugin_opt_config_file {access}

# By default the broker drops whatever a client can't take after 1000 queued messages. A gateway that restarts must find all.
# Each client has its own queue of this size: one that does not take its messages fills its own and nobody else's.
max_queued_messages 100000
max_queued_bytes 268435456
# Messages under way to one client, not yet acknowledged by it: as many as one device may send in a burst and some more, so that
# those of other devices are not behind them here, but beside them in the gateway, which gives everybody a turn.
max_inflight_messages {window}
max_inflight_bytes 67108864
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
{log_types}"""

WINDOW_MESSAGES = 12_000
# Messages of this size and more have memory of their own, which goes back to the system as soon as they are gone. Otherwise one
# large message moves the C library's threshold up, and what a device made the broker hold once, the process holds for ever.
GIVES_MEMORY_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536"}
# Looks whether the broker answers, and gives orders to its plugin.
KEEPER_USER = "farmiq-keeper"
# Who did the former in 0.1.0.
_FORMER_USERS = ("farmiq-probe",)
# As root, Mosquitto would switch to an account that can't enter our private folders. A normal user stays who he is.
_STAY_ROOT = "user root\n"
_RELOAD_SECONDS_MAX = 15.0
# More for each login that changes, in a farm of many: see `broker_control`.
_LOGIN_SECONDS_MAX = 2.0


class MqttRefused(StackError):
    """The broker answered and refused the connection."""


class BrokerNotReloaded(StackError):
    """The broker did not confirm a change of its users. It knows of it after its next start, or after the next change."""


@dataclass(frozen=True)
class Mosquitto:
    """A private MQTT broker that knows nobody but the users it was given."""

    folder: Path
    port: int
    keeper_password: str
    # Those who are always there. Others are added with `set_users` and stay.
    users: tuple[MqttUser, ...] = ()
    # Where services log in. Without it there is one listener for all, on which a device can use any client id.
    services_port: int | None = None
    # Where devices come in, when something stands before their listener.
    entrance_port: int | None = None
    # Somebody reads the log while it is written: without, what single packets leave there would fill the disk.
    is_log_read: bool = False

    name = "mosquitto"
    stop_signal = signal.SIGTERM
    stop_seconds = 10.0

    def prepare(self) -> None:
        private_folder(self.folder)
        data = private_folder(self.folder / "data")
        keeper = MqttUser(KEEPER_USER, self.keeper_password, keeper_rights())
        users = (keeper, *self.users)
        self._drop_what_was_granted_before(data)
        change_files(self.folder, put=[user.login for user in users], drop=_FORMER_USERS)
        listeners = _ONE_LISTENER if self.services_port is None else _TWO_LISTENERS
        settings = _SETTINGS.format(
            listeners=listeners.format(port=self.port, services_port=self.services_port),
            user=_STAY_ROOT if os.geteuid() == 0 else "",
            passwords=password_file(self.folder),
            plugin=binaries.mosquitto_plugin(),
            access=access_file(self.folder),
            data=data,
            window=WINDOW_MESSAGES,
            log_types=LOG_TYPES if self.is_log_read else "",
        )
        write_private(self._settings_file, settings)

    def _drop_what_was_granted_before(self, data: Path) -> None:
        """0.1.0 had an access file, with which devices could subscribe to anything, and be away with what they had got."""
        if self._settings_file.exists() and "acl_file" not in self._settings_file.read_text(encoding="utf-8"):
            return
        keep_sessions_of({user.name for user in self.users if not user.has_fixed_id}, data / "mosquitto.db")
        (self.folder / "rules").unlink(missing_ok=True)

    def command(self) -> list[str]:
        return [binaries.mosquitto(), "-c", str(self._settings_file)]

    def environment(self) -> dict[str, str]:
        return plain_environment() | GIVES_MEMORY_BACK

    def url(self, user: str, password: str) -> str:
        """For a service, which may have several connections with one login."""
        return mqtt_url(user, password, "127.0.0.1", self._own_port)

    def device_url(self, user: str, password: str) -> str:
        return mqtt_url(user, password, "127.0.0.1", self.entrance_port or self.port)

    async def probe(self) -> None:
        await log_in("127.0.0.1", self._own_port, KEEPER_USER, self.keeper_password)

    def outside(self) -> list[Path]:
        return []

    @property
    def _own_port(self) -> int:
        return self.services_port or self.port

    @property
    def _settings_file(self) -> Path:
        return self.folder / "mosquitto.conf"


@dataclass(frozen=True)
class Running:
    """A broker that runs from `folder`. `find_pid` answers None while it is away."""

    folder: Path
    services_port: int
    keeper_password: str = field(repr=False)
    find_pid: Callable[[], int | None]

    @property
    def services_url(self) -> str:
        return mqtt_url(KEEPER_USER, self.keeper_password, "127.0.0.1", self.services_port)


async def put_in_force(
    broker: Running,
    put: Iterable[MqttLogin] = (),
    drop: Iterable[str] = (),
    live: Set[str] | None = None,
    seconds_max: float = _RELOAD_SECONDS_MAX,
) -> bool:
    """Changes who may log in and what each may do, and returns when the broker acts on it. Answers whether that changed anything.

    `live`: devices that are not among these are dropped too. It can be cut short anywhere, and be done again."""
    logins = list(put)
    try:
        async with asyncio.timeout(seconds_max) as patience, control(broker.services_url) as plugin:
            known = await plugin.known()
            lacking = [login for login in logins if not known.has(login)]
            gone = set(drop) | (known.devices - live if live is not None else set())
            more_seconds = _LOGIN_SECONDS_MAX * (len(lacking) + len(gone))
            patience.reschedule(asyncio.get_running_loop().time() + seconds_max + more_seconds)
            # Rights come before a password and go after it: no login ever works without the client id that it is bound to.
            await plugin.put(lacking, known)
            witness = change_passwords(broker.folder, logins, gone)
            await _reload(broker, witness)
            leaving = sorted(gone & known.logins.keys())
            for name in leaving:
                await _end_session(broker, name)
            await plugin.drop(leaving)
    except (OSError, asyncio.IncompleteReadError, BrokerAway) as error:
        what = (
            f"the broker on port {broker.services_port} did not confirm a change of its users within {seconds_max:g} s"
        )
        raise BrokerNotReloaded(what, fix="farmiq status, then the same command again") from error
    return bool(lacking or leaving or witness.is_new)


async def _reload(broker: Running, witness: Witness) -> None:
    port = broker.services_port
    told: int | None = None
    while True:
        try:
            await log_in("127.0.0.1", port, WITNESS_USER, witness.password)
        except MqttRefused:
            # An answer means that it runs. A process that is still starting would die of the signal.
            pid = broker.find_pid()
            if pid is not None and pid != told:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGHUP)
                told = pid
        except (OSError, asyncio.IncompleteReadError):
            told = None  # away: whoever starts in its place reads the new files
        else:
            return
        await asyncio.sleep(0.02)


async def _end_session(broker: Running, client_id: str) -> None:
    """What a device that is gone has subscribed to, and what waits for it. A clean login under its id replaces its session."""
    await _visit("127.0.0.1", broker.services_port, KEEPER_USER, broker.keeper_password, client_id, is_clean=True)


async def log_in(
    host: str, port: int, user: str, password: str, *, keeps_session: bool = False, timeout_seconds: float = 5.0
) -> None:
    """Connects as an MQTT 3.1.1 client, reads the broker's answer, and leaves. Raises MqttRefused for a no.

    `keeps_session`: under the user's own client id, and without ending the session that may wait for him there."""
    async with asyncio.timeout(timeout_seconds):
        await _visit(host, port, user, password, user if keeps_session else "", is_clean=not keeps_session)


async def _visit(host: str, port: int, user: str, password: str, client_id: str, *, is_clean: bool) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(_connect_packet(user, password, client_id, is_clean))
        answer = await reader.readexactly(4)
        if answer[0] != 0x20 or answer[3] != 0:
            raise MqttRefused(f"the broker on {host}:{port} refused user {user} with code {answer[3]}")
        writer.write(b"\xe0\x00")  # DISCONNECT
        await writer.drain()
    finally:
        writer.close()


def _connect_packet(user: str, password: str, client_id: str, is_clean: bool) -> bytes:
    # Protocol MQTT, level 4; flags: user name, password, clean session or not; keep-alive 10 s; the client id.
    head = b"\x00\x04MQTT\x04" + (b"\xc2" if is_clean else b"\xc0") + b"\x00\x0a"
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
