"""Servers that the environment names are used instead of the embedded ones."""

from collections.abc import Mapping
from dataclasses import dataclass

from farmiq.kit.settings import BadSettings

_SCHEMES = {
    "DATABASE_URL": ("postgresql://", "postgres://"),
    "EDGE_DATABASE_URL": ("postgresql://", "postgres://"),
    "CLOUD_DATABASE_URL": ("postgresql://", "postgres://"),
    "MQTT_URL": ("mqtt://", "mqtts://"),
    "AMQP_URL": ("amqp://", "amqps://"),
    "S3_ENDPOINT": ("http://", "https://"),
}


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

    @property
    def needs_postgres(self) -> bool:
        return self.database_url is None and not (self.edge_database_url and self.cloud_database_url)


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
    if problems:
        raise BadSettings("; ".join(problems))
    given = {name.lower(): environ.get(name) or None for name in (*_SCHEMES, "S3_ACCESS_KEY", "S3_SECRET_KEY")}
    return External(**given)
