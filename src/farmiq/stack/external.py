"""Servers and buckets that the environment names are used instead of the embedded ones."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from farmiq.kit.settings import BadSettings

_SCHEMES = {
    "DATABASE_URL": ("postgresql://", "postgres://"),
    "EDGE_DATABASE_URL": ("postgresql://", "postgres://"),
    "CLOUD_DATABASE_URL": ("postgresql://", "postgres://"),
    "MQTT_URL": ("mqtt://", "mqtts://"),
    "AMQP_URL": ("amqp://", "amqps://"),
    "S3_ENDPOINT": ("http://", "https://"),
}
_BUCKETS = {"MEDIA_BUCKET": "farmiq-media", "CLOUD_MEDIA_BUCKET": "farmiq-cloud-media"}
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


@dataclass(frozen=True)
class External:
    database_url: str | None = None
    edge_database_url: str | None = None
    cloud_database_url: str | None = None
    mqtt_url: str | None = None
    amqp_url: str | None = None
    s3_endpoint: str | None = None
    s3_access_key: str | None = None
    s3_secret_key: str | None = None
    media_bucket: str = _BUCKETS["MEDIA_BUCKET"]
    cloud_media_bucket: str = _BUCKETS["CLOUD_MEDIA_BUCKET"]

    @property
    def needs_postgres(self) -> bool:
        return self.database_url is None and not (self.edge_database_url and self.cloud_database_url)


def tier_database_url(database_url: str, tier: str) -> str:
    """One server for both tiers, whose tables have the same names: each gets a database of its own beside the one named."""
    parts = urlsplit(database_url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/') or '/farmiq'}_{tier}"))


def read_external(environ: Mapping[str, str]) -> External:
    problems = [
        f"{name} has a value that is not allowed: it starts with {' or '.join(schemes)}"
        for name, schemes in _SCHEMES.items()
        if environ.get(name) and not environ[name].startswith(schemes)
    ]
    if environ.get("S3_ENDPOINT"):
        keys = ("S3_ACCESS_KEY", "S3_SECRET_KEY")
        problems += [
            f"{name} is missing: S3_ENDPOINT names a store that needs it" for name in keys if not environ.get(name)
        ]
    problems += _refuse_buckets(environ)
    if problems:
        raise BadSettings("; ".join(problems))
    names = (*_SCHEMES, "S3_ACCESS_KEY", "S3_SECRET_KEY", *_BUCKETS)
    return External(**{name.lower(): environ[name] for name in names if environ.get(name)})


def _refuse_buckets(environ: Mapping[str, str]) -> list[str]:
    """Their names become rights of the store, where a star or a slash would open more than one bucket."""
    problems = [
        f"{name} is {environ[name]!r}, which is not the name of an S3 bucket"
        for name in _BUCKETS
        if environ.get(name) and not _BUCKET.fullmatch(environ[name])
    ]
    edge, cloud = (environ.get(name) or default for name, default in _BUCKETS.items())
    if edge == cloud:
        problems.append("MEDIA_BUCKET and CLOUD_MEDIA_BUCKET are the same: each tier keeps its pictures in its own")
    return problems
