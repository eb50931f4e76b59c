"""Passwords of people: kept as scrypt hashes, compared in constant time."""

import base64
import hashlib
import hmac
import secrets
from typing import Final

PASSWORD_CHARS_MIN: Final = 12
PASSWORD_CHARS_MAX: Final = 256

_COST: Final = 1 << 14
_BLOCK: Final = 8
_MEMORY_BYTES: Final = 64 << 20


def new_password() -> str:
    return secrets.token_urlsafe(15)


def hash_password(password: str) -> str:
    salt = secrets.token_bytes(16)
    return f"scrypt${_COST}${_BLOCK}${_text(salt)}${_text(_derive(password, salt, _COST, _BLOCK))}"


def is_password(password: str, password_hash: str) -> bool:
    """Takes as long for a wrong one as for the right one."""
    _, cost, block, salt, expected = password_hash.split("$")
    derived = _derive(password[:PASSWORD_CHARS_MAX], base64.b64decode(salt), int(cost), int(block))
    return hmac.compare_digest(derived, base64.b64decode(expected))


def _derive(password: str, salt: bytes, cost: int, block: int) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=cost, r=block, p=1, maxmem=_MEMORY_BYTES, dklen=32)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


NOBODY: Final = hash_password(secrets.token_urlsafe(32))
"""Compared with where there is no such person, so that the time of an answer does not tell who exists."""
