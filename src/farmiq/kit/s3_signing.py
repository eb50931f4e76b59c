"""Presigned URLs of an S3 store: AWS Signature Version 4 in the query, for bodies that are not read here.

boto3 signs the same, and builds a request for it that is never sent. A station waits for a signature before each picture.
"""

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import quote, urlsplit

ALGORITHM: Final = "AWS4-HMAC-SHA256"
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class Signer:
    """One account at one endpoint."""

    def __init__(self, endpoint: str, *, access_key: str, secret_key: str, region: str) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._prefix = urlsplit(self._endpoint).path
        self._host = _host_of(endpoint)
        self._access_key = access_key
        self._secret_key = secret_key
        self._region = region
        self._day = _Day("", "", "", b"")

    def presign(
        self,
        method: str,
        bucket: str,
        key: str,
        at: datetime,
        expires_seconds: int,
        *,
        headers: Mapping[str, str] = _NOTHING,
        query: Mapping[str, str] = _NOTHING,
    ) -> str:
        """Good for `expires_seconds` after `at`, in UTC, and only together with these headers. All names are in lower case."""
        second = at.strftime("%Y%m%dT%H%M%SZ")
        day = self._on(second[:8])
        signed = sorted({**headers, "host": self._host}.items())
        names = [name for name, _ in signed]
        # In the order of the names, as it is signed: capital letters come first.
        asked = (
            f"X-Amz-Algorithm={ALGORITHM}&X-Amz-Credential={day.credential}&X-Amz-Date={second}"
            f"&X-Amz-Expires={expires_seconds}&X-Amz-SignedHeaders={'%3B'.join(names)}"
        ) + "".join(f"&{name}={quote(value, safe='')}" for name, value in sorted(query.items()))
        path = f"/{bucket}/{quote(key)}"
        lines = "".join(f"{name}:{' '.join(value.split())}\n" for name, value in signed)
        request = f"{method}\n{self._prefix}{path}\n{asked}\n{lines}\n{';'.join(names)}\nUNSIGNED-PAYLOAD"
        to_sign = f"{ALGORITHM}\n{second}\n{day.scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        return f"{self._endpoint}{path}?{asked}&X-Amz-Signature={_hmac(day.key, to_sign).hex()}"

    def _on(self, date: str) -> "_Day":
        day = self._day  # threads may sign at once, around midnight too
        if day.date != date:
            scope = f"{date}/{self._region}/s3/aws4_request"
            key = f"AWS4{self._secret_key}".encode()
            for part in scope.split("/"):
                key = _hmac(key, part)
            day = self._day = _Day(date, scope, quote(f"{self._access_key}/{scope}", safe=""), key)
        return day


class _Day(NamedTuple):
    """What all signatures of a day share. `credential` is as a query has it."""

    date: str
    scope: str
    credential: str
    key: bytes


def _host_of(endpoint: str) -> str:
    """As a client sends it: without a port that goes without saying."""
    parts = urlsplit(endpoint)
    name = parts.hostname or ""
    host = f"[{name}]" if ":" in name else name
    return host if parts.port in (None, _DEFAULT_PORTS.get(parts.scheme)) else f"{host}:{parts.port}"


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
