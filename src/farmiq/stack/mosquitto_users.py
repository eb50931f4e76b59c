"""Who may connect to the broker, and what each may publish and subscribe to.

Mosquitto reads two files. Password hashes: a change is written there, and SIGHUP makes the broker read it again; connections
whose login is still good stay, those whose password was changed or taken away are ended. Rights: the file of its
dynamic-security plugin, which the plugin reads when it starts and writes at each order (`broker_control`). The plugin could
keep the passwords too, but takes none as a hash while it runs, and a hash is all that the register of devices has."""

import fcntl
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from farmiq.contracts import topics
from farmiq.edge.ingress_gateway.broker_logins import MqttLogin, Right, hash_password, may_publish, may_read
from farmiq.stack.private_files import private_folder, write_private

CONTROL_TOPIC: Final = "$CONTROL/dynamic-security/v1"
GATEWAY_GROUP: Final = "edge-ingress-gateway"
# Has no rights. Its password is a digest of all others' entries: whoever lets it in has read just these.
WITNESS_USER: Final = "farmiq-witness"
_DEFAULT_ACCESS: Final = {
    "publishClientSend": False,
    "publishClientReceive": False,
    "subscribe": False,
    "unsubscribe": True,
}


@dataclass(frozen=True)
class MqttUser:
    name: str
    password: str = field(repr=False)
    rights: tuple[Right, ...]
    has_fixed_id: bool = False

    @property
    def login(self) -> MqttLogin:
        return MqttLogin(self.name, hash_password(self.password), self.rights, self.has_fixed_id)


@dataclass(frozen=True)
class Witness:
    password: str = field(repr=False)
    # Whether the file has other entries than before.
    is_new: bool


def gateway_rights() -> tuple[Right, ...]:
    shared = [may_read(topic_filter)[0] for topic_filter in topics.shared(GATEWAY_GROUP)]
    return (*shared, *may_read("iot/#"), *may_publish("iot/+/ack"))


def operator_rights() -> tuple[Right, ...]:
    """Whoever runs the stack can read every credential anyway. Good for trying things out by hand."""
    shared = may_read("$share/+/iot/#")[0]
    return (*may_publish("iot/#"), *may_read("iot/#"), *may_read("$SYS/#"), shared)


def keeper_rights() -> tuple[Right, ...]:
    return (*may_publish(CONTROL_TOPIC), *may_read(f"{CONTROL_TOPIC}/response"))


def set_users(folder: Path, *users: MqttUser) -> None:
    """Adds the users or replaces them. The broker learns of it at its next start."""
    change_files(folder, put=[user.login for user in users])


def change_files(folder: Path, put: Iterable[MqttLogin] = (), drop: Iterable[str] = ()) -> None:
    """For a broker that does not run. Adds or replaces some and removes others; everybody else stays whom the plugin knows."""
    logins, gone = list(put), set(drop)
    with _locked(folder):
        access = read_access(folder)
        named = gone | {login.name for login in logins}
        clients = [client for client in access["clients"] if client["username"] not in named]
        roles = [role for role in access["roles"] if role["rolename"] not in named]
        whole: dict[str, Any] = {
            "defaultACLAccess": _DEFAULT_ACCESS,
            "clients": clients + [login.client for login in logins],
            "roles": roles + [login.role for login in logins],
        }
        # Rights first: a login without rights, or without the client id that it is bound to, must never work.
        write_private(access_file(folder), json.dumps(whole))
        strangers = _read_hashes(password_file(folder)).keys() - {client["username"] for client in whole["clients"]}
        _change_passwords(folder, {login.name: login.password_hash for login in logins}, gone | strangers)


def change_passwords(folder: Path, put: Iterable[MqttLogin] = (), drop: Iterable[str] = ()) -> Witness:
    """Adds or replaces some and removes others; everybody else stays."""
    logins = list(put)
    with _locked(folder):
        return _change_passwords(folder, {login.name: login.password_hash for login in logins}, drop)


def devices_in(folder: Path) -> set[str]:
    """Whom the broker would know as devices if it started now."""
    return {client["username"] for client in read_access(folder)["clients"] if "clientid" in client}


def read_access(folder: Path) -> dict[str, Any]:
    """Without anybody when there is no file, or none that can be read: the plugin's writes are not synced to disk."""
    nobody: dict[str, Any] = {"clients": [], "roles": []}
    try:
        known = json.loads(access_file(folder).read_bytes())
    except (FileNotFoundError, ValueError):
        return nobody
    return nobody | known if isinstance(known, dict) else nobody


def password_file(folder: Path) -> Path:
    return folder / "passwords"


def access_file(folder: Path) -> Path:
    return folder / "access.json"


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    private_folder(folder)
    with (folder / ".users.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _change_passwords(folder: Path, put: Mapping[str, str], drop: Iterable[str]) -> Witness:
    for name, password_hash in put.items():
        _refuse_unsafe(name, password_hash)
    before = _read_hashes(password_file(folder))
    had_witness = before.pop(WITNESS_USER, None) is not None
    after = before | dict(put)
    for name in drop:
        after.pop(name, None)
    lines = "".join(f"{name}:{text}\n" for name, text in sorted(after.items()))
    witness = Witness(hashlib.sha256(lines.encode()).hexdigest(), is_new=after != before or not had_witness)
    if witness.is_new:
        write_private(password_file(folder), f"{lines}{WITNESS_USER}:{hash_password(witness.password)}\n")
    return witness


def _read_hashes(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    pairs = (line.partition(":") for line in path.read_text(encoding="utf-8").splitlines())
    return {name: text for name, _, text in pairs if name}


def _refuse_unsafe(name: str, password_hash: str) -> None:
    """The file has one entry a line, so a line break in a name would smuggle in another user."""
    if not name or ":" in name or not name.isprintable() or not password_hash.isprintable():
        raise ValueError(f"not a name for an MQTT user: {name!r}")
