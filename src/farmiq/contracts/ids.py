"""Names of tenants, farms, barns, devices, stations, metrics and event types: what is allowed, and checking it.

These end up in topics, object keys, routing keys and file names, so none of them can hold a slash, a wildcard, a
control character or start with a dot. Ids are made elsewhere; here they are only judged.

Every pattern ends in `$(?!\\n)`: a bare `$` also matches before a final newline, and the lookahead, unlike Python's
`\\Z`, means the same to whoever reads the pattern in our OpenAPI document.
"""

import re
from typing import Annotated, Final

from msgspec import Meta

_END: Final = r"$(?!\n)"
_ID: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"

RESERVED_DEVICE_IDS: Final = frozenset({"telemetry", "event", "weighvision", "status"})
"""Second words of our topics. A device of that name would have an acknowledgement topic inside somebody's filter."""

RESERVED_METRICS: Final = frozenset({"batch"})
"""The last word of the batch topic."""

ID_PATTERN: Final = rf"^{_ID}{_END}"
DEVICE_ID_PATTERN: Final = rf"^(?!(?:{'|'.join(sorted(RESERVED_DEVICE_IDS))})$){_ID}{_END}"
METRIC_PATTERN: Final = rf"^(?!(?:{'|'.join(sorted(RESERVED_METRICS))})$){_ID}{_END}"
EVENT_TYPE_PATTERN: Final = rf"^[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*{_END}"
EVENT_TYPE_LENGTH_MAX: Final = 128
TRACE_ID_PATTERN: Final = rf"^[!-~]{{1,128}}{_END}"
SHA256_PATTERN: Final = rf"^[0-9a-fA-F]{{64}}{_END}"
UUID_PATTERN: Final = rf"^[0-9a-fA-F]{{8}}(?:-[0-9a-fA-F]{{4}}){{3}}-[0-9a-fA-F]{{12}}{_END}"

Id = Annotated[str, Meta(pattern=ID_PATTERN, max_length=64)]
DeviceId = Annotated[str, Meta(pattern=DEVICE_ID_PATTERN, max_length=64)]
MetricName = Annotated[str, Meta(pattern=METRIC_PATTERN, max_length=64)]
EventType = Annotated[str, Meta(pattern=EVENT_TYPE_PATTERN, max_length=EVENT_TYPE_LENGTH_MAX)]
# A trace id goes on in HTTP and AMQP headers: printable ASCII without spaces cannot break out of one.
TraceId = Annotated[str, Meta(pattern=TRACE_ID_PATTERN, max_length=128)]
Sha256 = Annotated[str, Meta(pattern=SHA256_PATTERN, max_length=64)]

_ID_RE: Final = re.compile(ID_PATTERN)
_DEVICE_ID_RE: Final = re.compile(DEVICE_ID_PATTERN)
_METRIC_RE: Final = re.compile(METRIC_PATTERN)
_EVENT_TYPE_RE: Final = re.compile(EVENT_TYPE_PATTERN)


class InvalidId(ValueError):
    """A name breaks the id rules: one letter or digit, then up to 63 letters, digits, dots, underscores or hyphens."""

    def __init__(self, what: str, value: str) -> None:
        super().__init__(f"{what} {value[:80]!r} is not allowed")
        self.what = what


def check_id(what: str, value: str) -> str:
    if _ID_RE.search(value) is None:
        raise InvalidId(what, value)
    return value


def check_device_id(value: str) -> str:
    if _DEVICE_ID_RE.search(value) is None:
        raise InvalidId("device_id", value)
    return value


def check_metric(value: str) -> str:
    if _METRIC_RE.search(value) is None:
        raise InvalidId("metric", value)
    return value


def check_event_type(value: str) -> str:
    if len(value) > EVENT_TYPE_LENGTH_MAX or _EVENT_TYPE_RE.search(value) is None:
        raise InvalidId("event_type", value)
    return value
