"""Brokers that FarmIQ does not run, as people configure them: with an `acl_file`, or with the dynamic-security plugin."""

import json
import os
import secrets
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import pytest

from farmiq.edge.ingress_gateway.broker_logins import hash_password, mqtt_url
from farmiq.stack import binaries
from farmiq.stack.mosquitto import GIVES_MEMORY_BACK, log_in
from farmiq.stack.ports import free_port
from farmiq.stack.program import plain_environment
from support.server_process import ServerProcess

Rules = Mapping[str, Sequence[str]]
"""For each user the lines of an ACL file: `topic write iot/a/b`."""

_PLUGINS: Final = tuple(Path("/usr/lib").glob("*/mosquitto_dynamic_security.so"))
_PROBE: Final = "probe"
_SETTINGS: Final = """\
listener {port} 127.0.0.1
allow_anonymous false
persistence false
max_queued_messages 100000
{user}{policy}
"""
_ACTIONS: Final = {
    "read": ("publishClientReceive", "subscribePattern"),
    "write": ("publishClientSend",),
    "readwrite": ("publishClientReceive", "subscribePattern", "publishClientSend"),
}


class ForeignBroker:
    name = "foreign-broker"
    stop_signal = signal.SIGTERM
    stop_seconds = 10.0

    def __init__(
        self, folder: Path, rules: Rules, policy: Literal["acl_file", "dynamic-security"], more_settings: str = ""
    ) -> None:
        self.folder = folder
        self._more_settings = more_settings
        self.port = free_port()
        self._rules = {_PROBE: (), **rules}
        self._policy = policy
        self._passwords = {name: secrets.token_urlsafe(12) for name in self._rules}

    def url(self, user: str) -> str:
        return mqtt_url(user, self._passwords[user], "127.0.0.1", self.port)

    def prepare(self) -> None:
        self.folder.mkdir(exist_ok=True)
        policy = self._acl_file() if self._policy == "acl_file" else self._dynamic_security()
        user = "user root\n" if os.geteuid() == 0 else ""
        policy += f"\n{self._more_settings}"
        (self.folder / "mosquitto.conf").write_text(_SETTINGS.format(port=self.port, user=user, policy=policy))

    def command(self) -> list[str]:
        return [binaries.mosquitto(), "-c", str(self.folder / "mosquitto.conf")]

    def environment(self) -> dict[str, str]:
        return plain_environment() | GIVES_MEMORY_BACK

    async def probe(self) -> None:
        await log_in("127.0.0.1", self.port, _PROBE, self._passwords[_PROBE])

    def outside(self) -> list[Path]:
        return []

    def _acl_file(self) -> str:
        rules = "\n\n".join("\n".join((f"user {name}", *lines)) for name, lines in self._rules.items())
        (self.folder / "rules").write_text(rules + "\n")
        hashes = "".join(f"{name}:{hash_password(password)}\n" for name, password in self._passwords.items())
        (self.folder / "passwords").write_text(hashes)
        return f"password_file {self.folder}/passwords\nacl_file {self.folder}/rules"

    def _dynamic_security(self) -> str:
        state = {
            "defaultACLAccess": dict.fromkeys(("publishClientSend", "publishClientReceive", "subscribe"), False)
            | {"unsubscribe": True},
            "clients": [_client(name, password) for name, password in self._passwords.items()],
            "roles": [{"rolename": name, "acls": _acls(lines)} for name, lines in self._rules.items()],
            "groups": [],
        }
        (self.folder / "dynsec.json").write_text(json.dumps(state))
        return f"plugin {_PLUGINS[0]}\nplugin_opt_config_file {self.folder}/dynsec.json"


@contextmanager
def foreign_broker(
    folder: Path, home: Path, rules: Rules, policy: Literal["acl_file", "dynamic-security"] = "acl_file"
) -> Iterator[ForeignBroker]:
    if policy == "dynamic-security" and not _PLUGINS:
        pytest.skip("this Mosquitto has no dynamic-security plugin")
    broker = ForeignBroker(folder, rules, policy)
    process = ServerProcess(broker, home, folder.with_suffix(".log"))
    process.start()
    try:
        yield broker
    finally:
        process.stop()


def _client(name: str, password: str) -> dict[str, object]:
    _, _, iterations, salt, digest = hash_password(password).split("$")
    roles = [{"rolename": name}]
    return {"username": name, "password": digest, "salt": salt, "iterations": int(iterations), "roles": roles}


def _acls(lines: Sequence[str]) -> list[dict[str, object]]:
    return [
        {"acltype": acltype, "topic": topic, "allow": True}
        for _, kind, topic in (line.split(" ", 2) for line in lines)
        for acltype in _ACTIONS[kind]
    ]
