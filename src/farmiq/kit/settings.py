"""Settings come from the environment, under the documented names, and are checked before anything starts.

A service declares a frozen struct; the variable is the field's name in capitals. `NAME_FILE` names a file that holds the
value, for secrets that should not stand in an environment. A wrong value stops the start with one error that names every
wrong variable and what is allowed.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from farmiq.kit.errors import Fatal

Id = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z", description="a FarmIQ id")]
Port = Annotated[int, Meta(ge=0, le=65535, description="a TCP port; 0 takes a free one")]
IpAddress = Annotated[str, Meta(pattern=r"^[0-9A-Fa-f.:]{2,45}\Z", description="an IP address")]
Positive = Annotated[int, Meta(ge=1)]
Secret = Annotated[str, Meta(min_length=1, extra={"secret": True})]
DatabaseUrl = Annotated[Secret, Meta(description="postgresql://user:password@host:port/database")]
AmqpUrl = Annotated[
    Secret, Meta(description="amqp://user:password@host:port/vhost, or amqps://; commas between several hosts")
]
MqttUrl = Annotated[Secret, Meta(description="mqtt://user:password@host:port, or mqtts:// for TLS")]
AdminToken = Annotated[Secret, Meta(description="the bearer token that opens this service's routes for operators")]


class BadSettings(Fatal):
    """One or more environment variables are missing or not allowed. The message names each one and what is allowed."""

    code = "bad_settings"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Base of every service's settings. Its text form hides secrets, so a stray log line cannot show one."""

    def __repr__(self) -> str:
        shown = (
            f"{field.name}={'***' if is_secret(field.type) else repr(getattr(self, field.name))}"
            for field in msgspec.structs.fields(self)
        )
        return f"{type(self).__name__}({', '.join(shown)})"


class HttpSettings(Settings, frozen=True, kw_only=True):
    """What every service with an HTTP port reads."""

    port: Port
    host: str = "127.0.0.1"
    """The address it listens on. Containers need 0.0.0.0."""
    log_level: str = "INFO"
    """DEBUG, INFO, WARNING or ERROR."""
    http_connections_max: Positive = 800
    """Connections that the port holds. When there are more, one without a request under way is closed."""
    http_connections_per_address_max: Positive = 400
    """The same for the connections of one client address."""
    http_header_seconds: Positive = 20
    """How long a client may take to send the head of a request before its connection is closed."""
    http_body_seconds: Positive = 60
    """How long a client may pause while it sends a body or reads an answer. A whole body may take ten times as long."""
    http_trusted_proxies: tuple[IpAddress, ...] = ()
    """Addresses of proxies, separated by commas, whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed."""


S = TypeVar("S", bound=Settings)


def load(kind: type[S], environ: Mapping[str, str], **defaults: Any) -> S:
    """Read `kind` from the environment; `defaults` stand in for fields that the environment does not give."""
    values: dict[str, Any] = {}
    problems: list[str] = []
    for field in msgspec.structs.fields(kind):
        try:
            text = _text_of(field.name.upper(), environ)
            if text is not None:
                values[field.name] = _convert(text, field)
            elif field.name in defaults:
                values[field.name] = defaults[field.name]
            elif field.required:
                problems.append(f"{field.name.upper()} is missing: {_allowed(field.type)}")
        except ValueError as error:
            problems.append(f"{field.name.upper()} {error}")
    if problems:
        raise BadSettings("; ".join(problems))
    return kind(**values)


def is_secret(annotation: Any) -> bool:
    return any(
        isinstance(meta, Meta) and (meta.extra or {}).get("secret") for meta in getattr(annotation, "__metadata__", ())
    ) or any(is_secret(part) for part in getattr(annotation, "__args__", ()))


def _text_of(name: str, environ: Mapping[str, str]) -> str | None:
    text = environ.get(name) or None
    path = environ.get(f"{name}_FILE") or None
    if text is not None or path is None:
        return text
    try:
        text = Path(path).read_text(encoding="utf-8").rstrip("\n")
    except OSError as error:
        raise ValueError(f"cannot be read from {name}_FILE={path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"cannot be read from {name}_FILE={path}: it is not UTF-8 text") from error
    if not text:
        raise ValueError(f"cannot be read from {name}_FILE={path}: it is empty")
    return text


def _convert(text: str, field: msgspec.structs.FieldInfo) -> Any:
    parts: Any = text
    if getattr(field.type, "__origin__", None) is tuple:
        parts = [part.strip() for part in text.split(",") if part.strip()]
    try:
        return msgspec.convert(parts, field.type, strict=False)
    except msgspec.ValidationError as error:
        shown = "has a value that" if is_secret(field.type) else f"is {text!r}, which"
        said = _description(field.type)
        raise ValueError(f"{shown} is not allowed: {error}" + (f" ({said})" if said else "")) from error


def _allowed(annotation: Any) -> str:
    origin = getattr(annotation, "__origin__", annotation)
    return _description(annotation) or f"expected {getattr(origin, '__name__', str(origin))}"


def _description(annotation: Any) -> str | None:
    for meta in getattr(annotation, "__metadata__", ()):
        if isinstance(meta, Meta) and meta.description:
            return meta.description
    return None
