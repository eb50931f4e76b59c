"""PostgreSQL refuses to run as root. When we are root, it runs as another account that can still reach a checkout
or a data folder that lies below a folder of mode 0700 (`/root`, `mktemp -d`), without any folder being opened up."""

import os
import pwd
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from farmiq.stack.errors import StackError


class NoWayToDropRoot(StackError):
    """PostgreSQL does not run as root, and here no other account can be made to reach its files."""


@dataclass(frozen=True)
class Account:
    uid: int
    gid: int


def server_account() -> Account | None:
    """The account for servers that refuse root; None when we are a normal user and simply stay who we are."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise NoWayToDropRoot("this machine has neither a user `postgres` nor a user `nobody`", fix=_FIX)


def command_as(
    account: Account | None, command: Sequence[str], reach: Iterable[Path], *, bounding_set: int | None = None
) -> list[str]:
    """The command line that runs `command` as `account`, able to enter every folder on the way to `reach`."""
    if account is None:
        return list(command)
    capability = _capability_needed(account, Path(command[0]), reach)
    return [
        "setpriv",
        f"--reuid={account.uid}",
        f"--regid={account.gid}",
        "--clear-groups",
        *_grant(capability, _own_bounding_set() if bounding_set is None else bounding_set),
        *command,
    ]


_FIX = "run farmiq as a normal user, or set DATABASE_URL to a PostgreSQL of your own"
_BITS = {"dac_override": 1, "dac_read_search": 2, "setpcap": 8}


def _grant(capability: str | None, bounding_set: int) -> list[str]:
    if capability is None:
        return []
    for candidate in dict.fromkeys((capability, "dac_override")):
        if all(bounding_set >> _BITS[name] & 1 for name in (candidate, "setpcap")):
            # initdb looks for its programs with access(2), which leaves capabilities out of account unless told otherwise.
            return [f"--inh-caps=+{candidate}", f"--ambient-caps=+{candidate}", "--securebits=+no_setuid_fixup"]
    raise NoWayToDropRoot(f"the capability {capability} is not in this process's bounding set", fix=_FIX)


def _capability_needed(account: Account, binary: Path, reach: Iterable[Path]) -> str | None:
    # Reading and searching is the smaller right. It does not cover executing a file that pip installed under umask 077.
    if not _may_execute(account, binary.stat()):
        return "dac_override"
    paths = [binary, *reach]
    is_reachable = all(_may_execute(account, folder.stat()) for path in paths for folder in path.resolve().parents)
    return None if is_reachable else "dac_read_search"


def _may_execute(account: Account, status: os.stat_result) -> bool:
    if status.st_uid == account.uid:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid == account.gid:
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)


def _own_bounding_set() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("CapBnd:"):
            return int(line.split()[1], 16)
    return 0
