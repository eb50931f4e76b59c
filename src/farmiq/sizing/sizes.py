"""Bytes on each disk and on the line. Pure."""

from math import ceil
from typing import Final

from msgspec import Struct

from farmiq.sizing import measured
from farmiq.sizing.farm import DAY_SECONDS, HOUR_SECONDS, Farm

MONTH_DAYS: Final = 31
REQUEST_EVENTS: Final = 100
"""OUTBOX_BATCH_SIZE: events in one request while a backlog is sent."""


class NodeBytes(Struct, frozen=True, kw_only=True):
    samples_per_second: float
    spool_bytes_per_day: float
    spool_bytes: float
    """For the outage, and an hour more: the spool gives up whole segments."""
    mqtt_bytes_per_second: float


class StationBytes(Struct, frozen=True, kw_only=True):
    pictures: float
    """That wait at the end of the outage."""
    queue_bytes: float


class EdgeBytes(Struct, frozen=True, kw_only=True):
    """What the disk of the edge holds at its fullest, when an outage has just ended and everything was sent."""

    raw: float
    aggregates: float
    outbox: float
    dedupe: float
    pictures: float
    picture_rows: float
    wal: float

    @property
    def total(self) -> float:
        return self.raw + self.aggregates + self.outbox + self.dedupe + self.pictures + self.picture_rows + self.wal


class Uplink(Struct, frozen=True, kw_only=True):
    """From the edge to the cloud, in bytes. TLS, TCP and IP come on top, and so do the answers."""

    live_bytes_per_second: float
    """At most: each batch in a request of its own, as on a farm where nothing waits."""
    backlog_bytes: float
    needed_bytes_per_second: float
    """To catch up in the time given, with what is measured meanwhile."""


class Sizes(Struct, frozen=True, kw_only=True):
    node: NodeBytes
    station: StationBytes
    edge: EdgeBytes
    uplink: Uplink


def size_of(farm: Farm) -> Sizes:
    return Sizes(node=node_bytes(farm), station=station_bytes(farm), edge=edge_bytes(farm), uplink=uplink(farm))


def node_bytes(farm: Farm) -> NodeBytes:
    per_second = spool_bytes_per_second(farm)
    seconds = farm.outage_seconds + HOUR_SECONDS if farm.channels else 0.0
    batches = farm.batches_per_second / farm.nodes if farm.nodes else 0.0
    return NodeBytes(
        samples_per_second=farm.samples_per_second,
        spool_bytes_per_day=per_second * DAY_SECONDS,
        spool_bytes=per_second * seconds + measured.SPOOL_BYTES_BESIDES,
        mqtt_bytes_per_second=batches * measured.MQTT_BYTES.of(farm.batch_samples),
    )


def spool_bytes_per_second(farm: Farm) -> float:
    """A segment ends after an hour, so each hour has a header."""
    if not farm.channels:
        return 0.0
    return farm.samples_per_second * measured.SPOOL_BYTES_PER_SAMPLE + measured.SEGMENT_HEADER_BYTES / HOUR_SECONDS


def station_bytes(farm: Farm) -> StationBytes:
    pictures = ceil(farm.pictures_per_day * farm.outage_seconds / DAY_SECONDS) if farm.stations else 0
    return StationBytes(pictures=pictures, queue_bytes=pictures * farm.picture_bytes)


def edge_bytes(farm: Farm) -> EdgeBytes:
    """What is older than its retention stays for as long as the cloud does not have it."""
    outage_days, kept = farm.outage_seconds / DAY_SECONDS, farm.kept
    samples, batches = farm.all_samples_per_second * DAY_SECONDS, farm.batches_per_second * DAY_SECONDS
    pictures = farm.all_pictures_per_second * DAY_SECONDS * max(kept.picture_days, outage_days)
    size = farm.batch_samples
    return EdgeBytes(
        raw=samples * (max(kept.raw_days, outage_days) + MONTH_DAYS) * measured.RAW_BYTES_PER_SAMPLE,
        aggregates=_buckets_per_day(farm) * kept.aggregate_days * measured.AGGREGATE_BYTES_PER_BUCKET,
        # Retention counts from the acknowledgement: what was sent after the outage stays for as long as all the rest.
        outbox=batches * (kept.outbox_days + outage_days) * measured.OUTBOX_BYTES.of(size),
        dedupe=batches * kept.dedupe_days * measured.DEDUPE_BYTES.of(size),
        pictures=pictures * farm.picture_bytes,
        picture_rows=pictures * (measured.PICTURE_ROWS_BYTES + measured.PICTURE_STORE_BYTES),
        wal=measured.WAL_BYTES_MAX,
    )


def uplink(farm: Farm) -> Uplink:
    size, batches = farm.batch_samples, farm.batches_per_second
    pictures = farm.all_pictures_per_second * farm.picture_bytes
    live = batches * (measured.REQUEST_BYTES_OF_ONE.of(size) + measured.REQUEST_HEAD_BYTES) + pictures
    waiting = measured.REQUEST_BYTES.of(size) + measured.REQUEST_HEAD_BYTES / REQUEST_EVENTS
    backlog = (batches * waiting + pictures) * farm.outage_seconds
    return Uplink(
        live_bytes_per_second=live,
        backlog_bytes=backlog,
        needed_bytes_per_second=backlog / farm.catch_up_seconds + live,
    )


def _buckets_per_day(farm: Farm) -> float:
    """Of a minute, an hour and a day, as far as there are samples for them."""
    samples = DAY_SECONDS / farm.interval_seconds
    return farm.nodes * farm.channels * sum(min(samples, buckets) for buckets in (1440, 24, 1))
