"""What a token looks like that we make, and how one is recognised.

    farmiq-edge_3f9a0c5e71d2_<43 characters>      the second word is the token's id, which is no secret

A token is found by its id and compared in constant time with its SHA-256, which is all that is kept of it. Tokens that were given
to us and not made here have no id in them: theirs is the beginning of their hash.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from typing import Final, Literal

from farmiq.contracts.ids import check_id
from farmiq.kit.errors import Rejected

Holder = Literal["edge", "viewer"]

_OURS: Final = re.compile(r"farmiq-(?:edge|viewer)_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")


class TokenRefused(Rejected):
    """Nobody is let in with this token."""

    code = "unauthorized"


def new_token(holder: Holder) -> str:
    return f"farmiq-{holder}_{secrets.token_hex(6)}_{secrets.token_urlsafe(32)}"


def id_of(token: str) -> str:
    ours = _OURS.fullmatch(token)
    return ours[1] if ours else digest(token).hex()[:16]


def digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def is_token_of(token: str, token_hash: bytes) -> bool:
    return hmac.compare_digest(token_hash, digest(token))


def bearer_of(authorization: str) -> str:
    """The token in an `Authorization` header; '' where there is none."""
    scheme, _, token = authorization.partition(" ")
    return token if scheme.lower() == "bearer" else ""


def checked_tenants(tenant_ids: Iterable[str]) -> list[str]:
    return sorted({check_id("tenant_id", tenant_id) for tenant_id in tenant_ids})
