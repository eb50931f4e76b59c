import asyncio
import os
import signal
import struct
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from farmiq.stack import binaries
from farmiq.stack.errors import StackError
from farmiq.stack.mosquitto_users import MqttUser, password_file, rules_file, set_users
from farmiq.stack.private_files import private_folder, write_private
from farmiq.stack.program import plain_environment

_SETTINGS = """\
# Written by farmiq at each start: changes made here do not last.
per_listener_settings false
listener {port} 127.0.0.1
{user}allow_anonymous false
password_file {passwords}
acl_file {rules}

# By default the broker drops whatever a client can't take after 1000 queued messages. A gateway that restarts must find all.
max_queued_messages 100000
max_queued_bytes 268435456
max_inflight_messages 1000
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
# As root, Mosquitto would switch to an account that can't enter our private folders. A normal user stays who he is.
_STAY_ROOT = "user root\n"


class MqttRefused(StackError):
    """The broker answered and refused the connection."""


@dataclass(frozen=True)
class Mosquitto:
    """A private MQTT broker that knows nobody but the users it was given."""

    folder: Path
    port: int
    probe_password: str
    # Those who are always there. Others are added with `set_users` and stay.
    users: tuple[MqttUser, ...] = ()

    name = "mosquitto"
    stop_signal = signal.SIGTERM
    stop_seconds = 10.0

    def prepare(self) -> None:
        private_folder(self.folder)
        data = private_folder(self.folder / "data")
        set_users(self.folder, MqttUser(_PROBE_USER, self.probe_password, rules=()), *self.users)
        settings = _SETTINGS.format(
            port=self.port,
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
        return f"mqtt://{quote(user, safe='')}:{quote(password, safe='')}@127.0.0.1:{self.port}"

    async def probe(self) -> None:
        await log_in("127.0.0.1", self.port, _PROBE_USER, self.probe_password)

    async def admit(self, pid: int, user: MqttUser, seconds_max: float = 10.0) -> None:
        """Adds a user to the running broker without dropping a connection. Returns when the broker lets the user in."""
        set_users(self.folder, user)
        os.kill(pid, signal.SIGHUP)
        async with asyncio.timeout(seconds_max):
            while not await self._lets_in(user):  # noqa: ASYNC110 - the broker tells nobody when it has read its files
                await asyncio.sleep(0.02)

    async def _lets_in(self, user: MqttUser) -> bool:
        try:
            await log_in("127.0.0.1", self.port, user.name, user.password)
        except MqttRefused:
            return False
        return True

    def outside(self) -> list[Path]:
        return []

    @property
    def _settings_file(self) -> Path:
        return self.folder / "mosquitto.conf"


async def log_in(host: str, port: int, user: str, password: str, timeout_seconds: float = 5.0) -> None:
    """Connects as an MQTT 3.1.1 client, reads the broker's answer, and leaves. Raises MqttRefused for a no."""
    async with asyncio.timeout(timeout_seconds):
        reader, writer = await asyncio.open_connection(host, port)
        try:
            writer.write(_connect_packet(user, password))
            answer = await reader.readexactly(4)
            if answer[0] != 0x20 or answer[3] != 0:
                raise MqttRefused(f"the broker on {host}:{port} refused user {user} with code {answer[3]}")
            writer.write(b"\xe0\x00")  # DISCONNECT
            await writer.drain()
        finally:
            writer.close()


def _connect_packet(user: str, password: str) -> bytes:
    # Protocol MQTT, level 4; flags: user name, password, clean session; keep-alive 10 s; empty client id.
    body = b"\x00\x04MQTT\x04\xc2\x00\x0a" + b"".join(_counted(text) for text in ("", user, password))
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
