"""Passwords of people: kept as scrypt hashes, compared in constant time."""

import base64
import hashlib
import hmac
import secrets
from typing import Final

PASSWORD_CHARS_MIN: Final = 12
PASSWORD_CHARS_MAX: Final = 256

# 32 MiB and a third of a second where 0.1.0 took 16 MiB and a tenth. As strong as the usual 128 MiB in one pass, which an edge
# box may not have to spare for several logins at once.
_COST: Final = 1 << 15
_BLOCK: Final = 8
_PASSES: Final = 3
_MEMORY_BYTES: Final = 64 << 20
_PRESENT: Final = f"scrypt${_COST}${_BLOCK}${_PASSES}$"


def new_password() -> str:
    return secrets.token_urlsafe(15)


def hash_password(password: str) -> str:
    salt = secrets.token_bytes(16)
    return f"{_PRESENT}{_text(salt)}${_text(_derive(password, salt, _COST, _BLOCK, _PASSES))}"


def is_password(password: str, password_hash: str) -> bool:
    """Takes as long for a wrong one as for the right one."""
    _, cost, block, *passes, salt, expected = password_hash.split("$")
    numbers = (int(cost), int(block), int(passes[0]) if passes else 1)  # 0.1.0 wrote no passes
    derived = _derive(password[:PASSWORD_CHARS_MAX], base64.b64decode(salt), *numbers)
    return hmac.compare_digest(derived, base64.b64decode(expected))


def is_outdated(password_hash: str) -> bool:
    """Made when less work was enough."""
    return not password_hash.startswith(_PRESENT)


def _derive(password: str, salt: bytes, cost: int, block: int, passes: int) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=cost, r=block, p=passes, maxmem=_MEMORY_BYTES, dklen=32)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


NOBODY: Final = f"{_PRESENT}{_text(secrets.token_bytes(16))}${_text(secrets.token_bytes(32))}"
"""Compared with where there is no such person, so that the time of an answer does not tell who exists."""
