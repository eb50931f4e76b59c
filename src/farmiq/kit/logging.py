"""JSON lines on stdout: `timestamp`, `level`, `message`, `service`, `version`, `trace_id` and the ids bound at the door.

The message is a constant event name in the past tense; everything that varies is a keyword. WARNING means that nothing
was lost; ERROR means that something was, or that a person is needed. Secrets never pass: keys that name one are masked,
and so are passwords in URLs and signatures in presigned ones.
"""

import json
import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import structlog
from structlog.contextvars import bind_contextvars, merge_contextvars

from farmiq import __version__

_SECRET_KEY = re.compile(r"passw|secret|token|authorization|cookie|api_?key", re.IGNORECASE)
_URL_PASSWORD = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s:/@]*:)[^\s@]+@", re.IGNORECASE)
_SIGNATURE = re.compile(
    r"([?&](?:X-Amz-(?:Signature|Credential|Security-Token)|Signature|token)=)[^&\s\"']+", re.IGNORECASE
)
_BEARER = re.compile(r"(bearer\s+)[A-Za-z0-9._~+/=-]+", re.IGNORECASE)

EventDict = MutableMapping[str, Any]

get_logger = structlog.stdlib.get_logger


def configure(level: str = "INFO") -> None:
    """Send our own events and those of the libraries below us through one renderer."""
    shared: list[structlog.typing.Processor] = [
        merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        structlog.processors.EventRenamer("message"),
        mask_secrets,
    ]
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _render],
        )
    )
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for chatty in ("uvicorn", "botocore", "aio_pika", "asyncio"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    # It calls every attempt to reach a broker that is away an error. `amqp` says once that it is away, and why.
    logging.getLogger("aiormq").setLevel(logging.CRITICAL)


def bind_service(service: str) -> None:
    """Bound once at the door of a service; every line below it carries the name."""
    bind_contextvars(service=service, version=__version__)


def mask(text: str) -> str:
    """The text without passwords, bearer tokens and signatures."""
    text = _URL_PASSWORD.sub(r"\1***@", text)
    text = _SIGNATURE.sub(r"\1***", text)
    return _BEARER.sub(r"\1***", text)


def mask_secrets(_logger: Any, _method: str, event: EventDict) -> EventDict:
    for key, value in event.items():
        if not key.startswith("_"):  # structlog's own notes, taken out before rendering
            event[key] = _masked(key, value)
    return event


def _masked(key: str, value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | datetime | UUID):
        return "***" if value is not None and _SECRET_KEY.search(key) else value
    if _SECRET_KEY.search(key):
        return "***"
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {str(name): _masked(str(name), part) for name, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_masked("", part) for part in value]
    return mask(repr(value))  # the encoder would write out every field of a struct, and settings are structs


def _render(_logger: Any, _method: str, event: EventDict) -> str:
    try:
        return msgspec.json.encode(event).decode()
    except (OverflowError, UnicodeError):  # a number beyond 64 bits, half a character: a log line must not raise
        return json.dumps(event)
