"""Who may connect to the broker, and what each may publish and read.

Mosquitto reads two files: password hashes and topic rules. They are the only place where users are kept; a change is written
to both, then SIGHUP makes the broker read them again without dropping a connection."""

import base64
import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from farmiq.stack.private_files import private_folder, write_private

# The broker checks passwords in its only thread, also when a whole farm reconnects at once. Ours are long and random, so
# guessing is hopeless at any count; this is the one that mosquitto_passwd uses.
_ITERATIONS = 101
_SALT_BYTES = 12


@dataclass(frozen=True)
class MqttUser:
    name: str
    password: str
    rules: tuple[str, ...]


def device_rules(tenant_id: str, farm_id: str, barn_id: str, device_id: str) -> tuple[str, ...]:
    """A device speaks for itself alone and hears nothing but its own acknowledgements."""
    place = f"{tenant_id}/{farm_id}/{barn_id}/{device_id}"
    return (
        f"topic write iot/telemetry/{place}/#",
        f"topic write iot/event/{place}/#",
        f"topic write iot/weighvision/{place}/#",
        f"topic write iot/status/{place}",
        f"topic read iot/{device_id}/ack",
    )


def gateway_rules() -> tuple[str, ...]:
    # Mosquitto 2.0 applies these when it delivers, to the topic of the message: a `$share/group/` in front needs no rule.
    return ("topic read iot/#", "topic write iot/+/ack")


def operator_rules() -> tuple[str, ...]:
    """Whoever runs the stack can read every credential anyway. Good for trying things out by hand."""
    return ("topic readwrite iot/#", "topic read $SYS/#")


def set_users(folder: Path, *users: MqttUser) -> None:
    """Adds the users or replaces them. The broker learns of it at its next start or SIGHUP."""
    for user in users:
        _refuse_unsafe(user)
    with _both_files(folder) as (hashes, rules):
        for user in users:
            hashes[user.name] = _password_hash(user.password, os.urandom(_SALT_BYTES))
            rules[user.name] = user.rules


def password_file(folder: Path) -> Path:
    return folder / "passwords"


def rules_file(folder: Path) -> Path:
    return folder / "rules"


@contextmanager
def _both_files(folder: Path) -> Iterator[tuple[dict[str, str], dict[str, tuple[str, ...]]]]:
    private_folder(folder)
    with (folder / ".users.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        hashes, rules = _read_hashes(password_file(folder)), _read_rules(rules_file(folder))
        yield hashes, rules
        # Rules first: a user without rules may do nothing, rules without a user mean nothing.
        blocks = ["\n".join((f"user {name}", *lines)) for name, lines in sorted(rules.items())]
        write_private(rules_file(folder), "\n\n".join(blocks) + "\n")
        write_private(password_file(folder), "".join(f"{name}:{text}\n" for name, text in sorted(hashes.items())))


def _read_hashes(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    pairs = (line.partition(":") for line in path.read_text(encoding="utf-8").splitlines())
    return {name: text for name, _, text in pairs if name}


def _read_rules(path: Path) -> dict[str, tuple[str, ...]]:
    if not path.exists():
        return {}
    blocks = [block.splitlines() for block in path.read_text(encoding="utf-8").split("\n\n")]
    return {lines[0].removeprefix("user "): tuple(lines[1:]) for lines in blocks if lines}


def _password_hash(password: str, salt: bytes) -> str:
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ITERATIONS)
    return f"$7${_ITERATIONS}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"


def _refuse_unsafe(user: MqttUser) -> None:
    """Both files have one entry a line, so a line break in a name would smuggle in a user with rules of its own."""
    if not user.name or ":" in user.name or any(not text.isprintable() for text in (user.name, *user.rules)):
        raise ValueError(f"not a name for an MQTT user: {user.name!r}")
