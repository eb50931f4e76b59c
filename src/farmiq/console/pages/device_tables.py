"""The tables of a device's page, each as CSV."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final, Literal

from litestar import Response, get
from litestar.params import PathParameter
from msgspec import Struct

from farmiq.console.csv_export import csv_response
from farmiq.console.desk import AnyRequest, Desk
from farmiq.console.neighbours import Away
from farmiq.console.pages.device import DevicePath, facts

Name = Literal["sensors", "streams", "gaps", "losses", "readings", "events"]
Table = Annotated[Name, PathParameter()]

_STREAM: Final = (
    "contiguous_seq", "highest_seq", "stored", "lost", "missing", "first_seen_at", "last_seen_at",
)  # fmt: skip
_GAP: Final = ("first_seq", "last_seq", "count", "after_ts", "before_ts")
COLUMNS: Final[dict[Name, tuple[str, ...]]] = {
    "sensors": ("metric_type", "sensor", "fresh", "faulty", "last_sample_ts"),
    "streams": ("stream_id", "tier", *_STREAM),
    "gaps": ("tier", "stream_id", *_GAP),
    "losses": ("dropped_at", "stream_id", "first_seq", "last_seq", "count", "first_ts", "last_ts", "reason"),
    "readings": ("occurred_at", "metric_type", "sensor", "metric_value", "unit", "seq", "time_quality", "ingested_at"),
    "events": ("occurred_at", "event_id", "event_type", "received_at"),
}


def table_routes(desk: Desk) -> list[Any]:
    @get("/devices/{device_id:str}/csv/{table:str}")
    async def as_csv(request: AnyRequest, device_id: DevicePath, table: Table) -> Response[bytes]:
        shown = await facts(desk, desk.tenant(request), device_id)
        for one in shown["troubles"]:
            # A file that says less than there is would be taken for the truth.
            raise Away(one.service, one.trouble)
        return csv_response(f"{device_id}-{table}", COLUMNS[table], rows_of(table, shown))

    return [as_csv]


def rows_of(table: Name, shown: dict[str, Any]) -> Iterable[Sequence[Any]]:
    match table:
        case "sensors":
            return _fields(shown["device"].sensors, COLUMNS[table])
        case "streams":
            tiers = [(pair, tier) for pair in shown["streams"] for tier in ("edge", "cloud")]
            return [
                (pair.any.stream_id, tier, *next(iter(_fields([stream], _STREAM))))
                for pair, tier in tiers
                if (stream := getattr(pair, tier)) is not None
            ]
        case "gaps":
            return [(tier, stream.stream_id, *next(iter(_fields([gap], _GAP)))) for tier, stream, gap in shown["gaps"]]
        case "losses" | "readings" | "events":
            return _fields(getattr(shown[table].value, table), COLUMNS[table])


def _fields(rows: Iterable[Struct], names: Sequence[str]) -> list[tuple[Any, ...]]:
    return [tuple(getattr(row, name) for name in names) for row in rows]
