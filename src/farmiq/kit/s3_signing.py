"""Presigned URLs of an S3 store: AWS Signature Version 4 in the query, for bodies that are not read here.

boto3 signs the same, and builds a request for it that is never sent. A station waits for a signature before each picture.
"""

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final
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
        self._key_of_day = ("", b"")

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
        """Good for `expires_seconds` after `at`, and only together with these headers. Their names are in lower case."""
        second = at.strftime("%Y%m%dT%H%M%SZ")
        scope = f"{second[:8]}/{self._region}/s3/aws4_request"
        signed = sorted({**headers, "host": self._host}.items())
        names = ";".join(name for name, _ in signed)
        said = {
            **query,
            "X-Amz-Algorithm": ALGORITHM,
            "X-Amz-Credential": f"{self._access_key}/{scope}",
            "X-Amz-Date": second,
            "X-Amz-Expires": str(expires_seconds),
            "X-Amz-SignedHeaders": names,
        }
        asked = "&".join(f"{name}={quote(value, safe='')}" for name, value in sorted(said.items()))
        path = f"/{bucket}/{quote(key)}"
        lines = "".join(f"{name}:{' '.join(value.split())}\n" for name, value in signed)
        request = f"{method}\n{self._prefix}{path}\n{asked}\n{lines}\n{names}\nUNSIGNED-PAYLOAD"
        to_sign = f"{ALGORITHM}\n{second}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        signature = _hmac(self._signing_key(second[:8]), to_sign).hex()
        return f"{self._endpoint}{path}?{asked}&X-Amz-Signature={signature}"

    def _signing_key(self, day: str) -> bytes:
        """The same for a whole day."""
        if self._key_of_day[0] != day:
            key = f"AWS4{self._secret_key}".encode()
            for part in (day, self._region, "s3", "aws4_request"):
                key = _hmac(key, part)
            self._key_of_day = (day, key)
        return self._key_of_day[1]


def _host_of(endpoint: str) -> str:
    """As a client sends it: without a port that goes without saying."""
    parts = urlsplit(endpoint)
    name = parts.hostname or ""
    host = f"[{name}]" if ":" in name else name
    return host if parts.port in (None, _DEFAULT_PORTS.get(parts.scheme)) else f"{host}:{parts.port}"


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
