"""What may be asked: the parameters of the query API and their limits."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypeVar

from litestar.params import QueryParameter

from farmiq.contracts.ids import ID_PATTERN, InvalidId, check_id
from farmiq.contracts.timestamps import EARLIEST, LATEST, to_utc
from farmiq.kit.http_server import ApiError
from farmiq.timeseries.paging import CURSOR_LENGTH_MAX, BadCursor, position_of

Tenant = Annotated[str, QueryParameter(pattern=ID_PATTERN, max_length=64)]
AnyDevice = Annotated[str | None, QueryParameter(pattern=ID_PATTERN, max_length=64)]
AnyFarm = Annotated[str | None, QueryParameter(pattern=ID_PATTERN, max_length=64)]
AnyBarn = Annotated[str | None, QueryParameter(pattern=ID_PATTERN, max_length=64)]
AnyMetric = Annotated[str | None, QueryParameter(pattern=ID_PATTERN, max_length=64)]
AnySensor = Annotated[
    str | None,
    QueryParameter(pattern=rf"^\Z|{ID_PATTERN}", max_length=64, description="Empty: what has no sensor's name"),
]
SomeDevices = Annotated[
    list[str] | None,
    QueryParameter(name="device_ids", max_items=100, description="Give it once for each device; at most 100"),
]
From = Annotated[datetime | None, QueryParameter(name="from", description="RFC 3339 with a zone; included")]
To = Annotated[datetime | None, QueryParameter(name="to", description="RFC 3339 with a zone; not included")]
After = Annotated[str | None, QueryParameter(max_length=CURSOR_LENGTH_MAX, description="`next` of the page before")]
Limit = Annotated[int, QueryParameter(ge=1, le=5000)]

T = TypeVar("T", bound=tuple[Any, ...])


def refused(message: str) -> ApiError:
    return ApiError(400, "invalid_request", message)


def checked_ids(device_ids: list[str] | None) -> list[str] | None:
    """Names that no device can have are refused like any other wrong parameter."""
    try:
        return None if device_ids is None else sorted({check_id("device_ids", device_id) for device_id in device_ids})
    except InvalidId as error:
        raise refused(str(error)) from error


def time_range(since: datetime | None, until: datetime | None) -> tuple[datetime, datetime]:
    """The 24 hours up to `until` (now when it is not given) unless `since` says otherwise."""
    upper = _utc(until) if until else datetime.now(UTC)
    lower = _utc(since) if since else max(upper - timedelta(days=1), EARLIEST)
    if lower >= upper:
        raise refused("`from` must be before `to`")
    return lower, upper


def position(after: str | None, kind: type[T]) -> T | None:
    try:
        return None if after is None else position_of(after, kind)
    except BadCursor as error:
        raise refused(str(error)) from error


def _utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise refused("Times need a zone: 2025-01-01T10:00:00Z")
    try:
        at = to_utc(moment)
    except ValueError as error:
        raise refused(str(error)) from error
    if not EARLIEST <= at <= LATEST:
        raise refused("The time is outside the years that can be stored")
    return at
