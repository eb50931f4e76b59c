"""Every credential of a stack: random, made at its first start, kept in one file that only its owner can read."""

import secrets
from pathlib import Path

import msgspec
from msgspec import Struct, field

from farmiq.stack.private_files import write_private


def _token() -> str:
    return secrets.token_urlsafe(24)


def _hex() -> str:
    return secrets.token_hex(20)


class Secrets(Struct, frozen=True, kw_only=True):
    """A field that an older file lacks gets its value at the next start."""

    postgres_superuser: str = field(default_factory=_token)
    postgres_edge: str = field(default_factory=_token)
    postgres_cloud: str = field(default_factory=_token)
    mqtt_keeper: str = field(default_factory=_token)
    mqtt_gateway: str = field(default_factory=_token)
    mqtt_device: str = field(default_factory=_token)
    mqtt_station: str = field(default_factory=_token)
    mqtt_operator: str = field(default_factory=_token)
    mqtt_canary: str = field(default_factory=_token)
    rabbitmq: str = field(default_factory=_token)
    rabbitmq_cookie: str = field(default_factory=_hex)
    s3_access_key: str = field(default_factory=_hex)
    s3_secret_key: str = field(default_factory=_hex)
    s3_cloud_access_key: str = field(default_factory=_hex)
    s3_cloud_secret_key: str = field(default_factory=_hex)
    s3_internal_key: str = field(default_factory=_hex)
    admin_token: str = field(default_factory=_token)
    edge_token: str = field(default_factory=_token)
    console_password: str = field(default_factory=_token)
    station_token: str = field(default_factory=_token)

    def __repr__(self) -> str:
        return "Secrets(***)"


def load_or_create(path: Path) -> Secrets:
    stored = path.read_bytes() if path.exists() else b"{}"
    complete = msgspec.json.decode(stored, type=Secrets)
    text = msgspec.json.format(msgspec.json.encode(complete)).decode()
    if text.encode() != stored:
        write_private(path, text)
    return complete
