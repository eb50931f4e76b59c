"""Samples of a spool as lines: for a person, as JSON, as CSV."""

import csv
import itertools
import json
import math
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, NamedTuple

from farmiq.cli.errors import BadUsage
from farmiq.cli.spool_times import samples as counted
from farmiq.cli.spool_times import wall_time
from farmiq.spool import Channel, Range
from farmiq.spool.inspection import SpoolView, read

LINES_A_WRITE = 500
UNKNOWN = Channel("", "", "")  # for a frame whose channel its segment does not name


class Row(NamedTuple):
    """One sample. The names are the columns of the CSV and the keys of the JSON, in this order."""

    seq: int
    time: str
    metric: str
    sensor: str
    value: float
    unit: str
    quality: int
    boot_id: str
    monotonic_us: int
    stream_id: str


@dataclass(frozen=True)
class Wanted:
    from_seq: int
    to_seq: int
    metric: str | None
    sensor: str | None
    limit: int | None

    def has(self, channel: Channel) -> bool:
        return self.metric in (None, channel.metric) and self.sensor in (None, channel.sensor)


def refuse_unknown(view: SpoolView, wanted: Wanted) -> None:
    """What can only give nothing is a slip of the hand, and is told as one."""
    if wanted.from_seq > wanted.to_seq:
        raise BadUsage(
            f"there is nothing from {wanted.from_seq} to {wanted.to_seq}",
            why="--from names the first sequence, and --to the last one.",
            fix=f"farmiq spool cat --from {wanted.to_seq} --to {wanted.from_seq}",
        )
    channels = {channel for segment in view.segments if segment.header for channel in segment.header.channels}
    if channels and not any(map(wanted.has, channels)):
        names = ", ".join(sorted(f"{channel.metric} of {channel.sensor}" for channel in channels))
        asked = " of ".join(name for name in (wanted.metric, wanted.sensor) if name is not None)
        raise BadUsage(f"no sensor here gives {asked!r}", why=f"There are: {names}.", fix="farmiq spool cat")


def rows(view: SpoolView, wanted: Wanted) -> Iterator[Row]:
    missed: list[Range] = []
    yield from itertools.islice(_all_rows(view, wanted, missed), wanted.limit)
    if missed:
        count = sum(last - first + 1 for first, last in missed)
        sys.stderr.write(
            f"warning: {counted(count)} could not be read, the first of them {missed[0][0]}."
            " `farmiq spool verify` tells more.\n"
        )


def write_text(samples: Iterable[Row], out: IO[str]) -> None:
    _write(out, (f"{_for_a_person(row)}\n" for row in samples))


def write_jsonl(samples: Iterable[Row], out: IO[str]) -> None:
    _write(out, (f"{json.dumps(_finite(row), ensure_ascii=False)}\n" for row in samples))


def write_csv(samples: Iterable[Row], out: IO[str]) -> None:
    table = csv.writer(out, lineterminator="\n")
    table.writerow(Row._fields)
    table.writerows(samples)
    out.flush()


def _write(out: IO[str], lines: Iterable[str]) -> None:
    waiting = iter(lines)
    while block := "".join(itertools.islice(waiting, LINES_A_WRITE)):
        out.write(block)
    out.flush()  # here and not at the end of the process, where a reader who has gone would be a traceback


def _all_rows(view: SpoolView, wanted: Wanted, missed: list[Range]) -> Iterator[Row]:
    for run in read(view, (wanted.from_seq, wanted.to_seq), missed.append):
        channels, boot_id, stream_id = run.header.channels, str(run.header.boot_id), str(run.header.stream_id)
        for seq, wall_us, monotonic_us, number, quality, value in run.frames:
            channel = channels[number] if number < len(channels) else UNKNOWN
            if wanted.has(channel):
                yield Row(
                    seq - run.offset, wall_time(wall_us), channel.metric, channel.sensor, value, channel.unit,
                    quality, boot_id, monotonic_us, stream_id,
                )  # fmt: skip


def _for_a_person(row: Row) -> str:
    return f"{row.seq:>10}  {row.time:<27}  {row.metric:<16} {row.sensor:<10} {row.value!r:>12} {row.unit:<4}".rstrip()


def _finite(row: Row) -> dict[str, object]:
    """JSON has no word for what is not a number."""
    return row._asdict() | ({} if math.isfinite(row.value) else {"value": None})
