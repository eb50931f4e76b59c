"""What `farmiq size` prints."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import Struct

from farmiq.cli.size_words import bits_written, bytes_written
from farmiq.cli.tables import duration
from farmiq.sizing import Farm, Sizes, edge_runway_seconds, node_runway_seconds, raw_days_that_fit, size_of
from farmiq.sizing.farm import HOUR_SECONDS
from farmiq.sizing.runway import LONGEST_SECONDS
from farmiq.spool import default_max_spool_bytes

GIB: Final = 1 << 30
KEEP_FREE_BYTES: Final = 2 * GIB
"""NODE_FORWARDER_KEEP_FREE_BYTES, and that of the smallest disk whose default spool has 1 GiB."""
STATION_BYTES_MAX: Final = 4 * GIB
"""WEIGHVISION_PICTURES_BYTES_MAX."""
STATION_HOURS_MAX: Final = 72
"""WEIGHVISION_HOURS_MAX."""
STATION_EVENTS_MAX: Final = 10_000
"""WEIGHVISION_EVENTS_MAX."""
EVENTS_PER_PICTURE: Final = 4
"""A beginning, a weight, a picture and an end: at most, when each weighing has one picture."""
PICTURE_BYTES_PER_SECOND: Final = 1_000_000
"""MEDIA_SYNC_BYTES_PER_SECOND."""


class Report(Struct, frozen=True, kw_only=True):
    sizes: Sizes
    settings: dict[str, int]
    """What has to be set because the defaults are not enough."""
    node_runway_seconds: float | None = None
    """With the disk that was named, all of it but what is kept free."""
    edge_runway_seconds: float | None = None
    fits_edge_disk: bool | None = None
    """None when no disk was named."""


def report_of(farm: Farm, *, node_disk_bytes: int | None = None, edge_disk_bytes: int | None = None) -> Report:
    sizes = size_of(farm)
    edge_runway = None if edge_disk_bytes is None else edge_runway_seconds(farm, edge_disk_bytes)
    raw_days = None if edge_disk_bytes is None else raw_days_that_fit(farm, edge_disk_bytes)
    return Report(
        sizes=sizes,
        settings=settings_of(farm, sizes, node_disk_bytes, raw_days),
        node_runway_seconds=(
            None if node_disk_bytes is None else node_runway_seconds(farm, max(0, node_disk_bytes - KEEP_FREE_BYTES))
        ),
        edge_runway_seconds=edge_runway,
        fits_edge_disk=None if edge_disk_bytes is None else edge_runway is not None,
    )


def settings_of(farm: Farm, sizes: Sizes, node_disk_bytes: int | None, raw_days: int | None) -> dict[str, int]:
    """Only those whose default would give something up in this outage, be too slow after it, or not fit the edge's disk."""
    spool_default = GIB if node_disk_bytes is None else default_max_spool_bytes(node_disk_bytes)
    outage_hours = farm.outage_seconds / HOUR_SECONDS
    pictures_per_second = farm.all_pictures_per_second * farm.picture_bytes
    catch_up = pictures_per_second * (1 + farm.outage_seconds / farm.catch_up_seconds)
    wanted = {
        "NODE_FORWARDER_MAX_SPOOL_BYTES": (sizes.node.spool_bytes if farm.nodes else 0, spool_default, 1 << 20),
        "WEIGHVISION_PICTURES_BYTES_MAX": (sizes.station.queue_bytes, STATION_BYTES_MAX, 1 << 20),
        "WEIGHVISION_EVENTS_MAX": (sizes.station.pictures * EVENTS_PER_PICTURE, STATION_EVENTS_MAX, 1000),
        "WEIGHVISION_HOURS_MAX": (outage_hours if sizes.station.pictures else 0, STATION_HOURS_MAX, 1),
        "MEDIA_SYNC_BYTES_PER_SECOND": (catch_up, PICTURE_BYTES_PER_SECOND, 1000),
    }
    found = {name: _rounded_up(need, step) for name, (need, default, step) in wanted.items() if need > default}
    return found if raw_days is None else found | {"TELEMETRY_RAW_RETENTION_DAYS": raw_days}


def _rounded_up(need: float, step: int) -> int:
    return -int(-need // step) * step


def as_data(report: Report) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(report)
    data["sizes"]["edge"]["total"] = report.sizes.edge.total
    return data


def as_text(farm: Farm, report: Report) -> str:
    return "\n".join(line.rstrip() for line in _lines(farm, report))


def _lines(farm: Farm, report: Report) -> Iterable[str]:
    yield f"{_farm_in_words(farm)}; {duration(farm.outage_seconds)} without the next tier"
    yield from _node(report)
    yield from _station(farm, report)
    yield from _edge(farm, report)
    yield from _line_to_the_cloud(farm, report)
    if report.settings:
        yield from ("", "The defaults are not enough. Set:")
        yield from (f"  {name}={value}" for name, value in report.settings.items())


def _farm_in_words(farm: Farm) -> str:
    nodes = f"{_count(farm.nodes, 'node')} with {_count(farm.channels, 'channel')} every {farm.interval_seconds:g} s"
    if not farm.stations:
        return nodes
    pictures = f"{farm.pictures_per_day:g} pictures of {bytes_written(farm.picture_bytes)} a day"
    return f"{nodes}, {_count(farm.stations, 'station')} with {pictures}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _node(report: Report) -> Iterable[str]:
    node = report.sizes.node
    yield from ("", "On each node")
    yield _row("spool for the outage", bytes_written(node.spool_bytes), f"{node.samples_per_second:g} samples/s")
    yield _row("grows by", f"{bytes_written(node.spool_bytes_per_day)} a day")
    yield _row("to the edge", bits_written(node.mqtt_bytes_per_second), "MQTT, while nothing waits")
    if report.node_runway_seconds is not None:
        yield _row("its disk lasts", _lasting(report.node_runway_seconds), "without the edge; 2 GiB stay free")


def _station(farm: Farm, report: Report) -> Iterable[str]:
    if farm.stations:
        station = report.sizes.station
        yield from ("", "On each station")
        yield _row("pictures that wait", bytes_written(station.queue_bytes), f"{station.pictures:g} pictures")


def _edge(farm: Farm, report: Report) -> Iterable[str]:
    edge, kept = report.sizes.edge, farm.kept
    yield from ("", "On the edge's disk")
    yield _row("samples", bytes_written(edge.raw), f"{kept.raw_days:g} days, and the month that is not over")
    yield _row("aggregates", bytes_written(edge.aggregates), f"{kept.aggregate_days:g} days")
    yield _row("outbox", bytes_written(edge.outbox), f"{kept.outbox_days:g} days after the cloud has it")
    yield _row("ids of messages", bytes_written(edge.dedupe), f"{kept.dedupe_days:g} days")
    if farm.stations:
        yield _row("pictures", bytes_written(edge.pictures), f"{kept.picture_days:g} days")
        yield _row("their rows", bytes_written(edge.picture_rows))
    yield _row("PostgreSQL's log", bytes_written(edge.wal), "max_wal_size")
    yield _row("together", bytes_written(edge.total))
    if report.fits_edge_disk is False:
        yield _row("its disk lasts", "not at all", "even without an outage it does not fit: keep less")
    elif report.edge_runway_seconds is not None:
        yield _row("its disk lasts", _lasting(report.edge_runway_seconds), "without the cloud")


def _line_to_the_cloud(farm: Farm, report: Report) -> Iterable[str]:
    line = report.sizes.uplink
    yield from ("", "From the edge to the cloud")
    yield _row("always", bits_written(line.live_bytes_per_second), "at most; TLS and TCP come on top")
    yield _row("backlog of the outage", bytes_written(line.backlog_bytes))
    caught_up = f"to catch up in {duration(farm.catch_up_seconds)}"
    yield _row("line needed", bits_written(line.needed_bytes_per_second), caught_up)


def _lasting(seconds: float) -> str:
    return "ten years or more" if seconds >= LONGEST_SECONDS else duration(seconds)


def _row(name: str, value: str, note: str = "") -> str:
    return f"  {name:<22}{value:>14}   {note}"
