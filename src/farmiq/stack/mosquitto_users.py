"""Who may connect to the broker, and what each may publish and read.

Mosquitto reads two files: password hashes and topic rules. A change is written to both, then SIGHUP makes the broker read them
again. Connections whose login is still good stay; those whose password was changed or taken away are ended by the broker."""

import fcntl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from farmiq.edge.ingress_gateway.broker_logins import MqttLogin, hash_password
from farmiq.stack.private_files import private_folder, write_private


@dataclass(frozen=True)
class MqttUser:
    name: str
    password: str = field(repr=False)
    rules: tuple[str, ...]


def gateway_rules() -> tuple[str, ...]:
    # Mosquitto 2.0 applies these when it delivers, to the topic of the message: a `$share/group/` in front needs no rule.
    return ("topic read iot/#", "topic write iot/+/ack")


def operator_rules() -> tuple[str, ...]:
    """Whoever runs the stack can read every credential anyway. Good for trying things out by hand."""
    return ("topic readwrite iot/#", "topic read $SYS/#")


def set_users(folder: Path, *users: MqttUser) -> None:
    """Adds the users or replaces them. The broker learns of it at its next start or SIGHUP."""
    change_logins(folder, put=[MqttLogin(user.name, hash_password(user.password), user.rules) for user in users])


def change_logins(folder: Path, put: Iterable[MqttLogin] = (), drop: Iterable[str] = ()) -> bool:
    """Adds or replaces some and removes others; everybody else stays. Answers whether that changed anything."""
    logins = list(put)
    for login in logins:
        _refuse_unsafe(login)
    with _both_files(folder) as (hashes, rules):
        before = dict(hashes), dict(rules)
        for login in logins:
            hashes[login.name] = login.password_hash
            rules[login.name] = login.rules
        for name in drop:
            hashes.pop(name, None)
            rules.pop(name, None)
        return before != (hashes, rules)


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
        # Rules first: a user without rules may do nothing, rules without a user mean nothing. So whoever is added or removed
        # may do nothing yet, or nothing any more, if we die between the two.
        blocks = ["\n".join((f"user {name}", *lines)) for name, lines in sorted(rules.items())]
        write_private(rules_file(folder), "\n\n".join(blocks) + "\n")
        write_private(password_file(folder), "".join(f"{name}:{text}\n" for name, text in sorted(hashes.items())))


def _read_hashes(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    pairs = (line.partition(":") for line in path.read_text(encoding="utf-8").splitlines())
    return {name: text for name, _, text in pairs if name}


def _read_rules(path: Path) -> dict[str, tuple[str, ...]]:
    """By the words and not by the blank lines: somebody may have edited the file by hand."""
    rules: dict[str, list[str]] = {}
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for line in filter(None, map(str.strip, lines)):
        if line.startswith("user "):
            own = rules.setdefault(line.removeprefix("user ").strip(), [])
        elif rules:
            own.append(line)
    return {name: tuple(own) for name, own in rules.items()}


def _refuse_unsafe(login: MqttLogin) -> None:
    """Both files have one entry a line, so a line break in a name would smuggle in a user with rules of its own."""
    texts = (login.name, login.password_hash, *login.rules)
    if not login.name or ":" in login.name or any(not text.isprintable() for text in texts):
        raise ValueError(f"not a name for an MQTT user: {login.name!r}")
