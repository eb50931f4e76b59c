"""What `farmiq spool ls` shows."""

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from farmiq.cli.spool_times import samples, size, wall_time, wall_time_or_none
from farmiq.cli.terminal import console, put
from farmiq.spool import Loss, Range
from farmiq.spool.inspection import SpoolView
from farmiq.spool.segment_view import SegmentView

if TYPE_CHECKING:
    from rich.table import Table

BOOT_SHOWN = 8
GAPS_SHOWN = 5


def as_data(view: SpoolView) -> dict[str, Any]:
    return {
        "folder": str(view.folder),
        "stream_id": str(view.stream_id) if view.stream_id else None,
        "streams": [
            {"stream_id": str(part.stream_id), "first_seq": part.first_seq, "offset": part.offset}
            for part in (view.layout.parts if view.layout else ())
        ],
        "writer_pid": view.writer_pid,
        "synced_seq": view.synced_seq,
        "acked": {"seq": view.acked.seq, "epoch": view.acked.epoch},
        "unacked_samples": count(view.unacked),
        "segments": [segment_data(segment) for segment in view.segments],
        "losses": [loss_data(loss) for loss in view.losses],
        "gaps": view.gaps,
        "quarantined": [{"name": file.path.name, "bytes": file.size_bytes} for file in view.quarantined],
    }


def segment_data(segment: SegmentView) -> dict[str, Any]:
    header = segment.header
    return {
        "name": segment.path.name,
        "is_open": segment.is_open,
        "first_seq": segment.first_seq,
        "last_seq": segment.last_seq,
        "samples": segment.samples,
        "bytes": segment.size_bytes,
        "boot_id": str(header.boot_id) if header else None,
        "created_at": wall_time(header.created_at_us) if header else None,
        "channels": [channel._asdict() for channel in header.channels] if header else None,
        "first_time": wall_time_or_none(segment.first_wall_us),
        "last_time": wall_time_or_none(segment.last_wall_us),
    }


def loss_data(loss: Loss) -> dict[str, Any]:
    return {
        "loss_id": str(loss.loss_id),
        "first_seq": loss.first_seq,
        "last_seq": loss.last_seq,
        "count": loss.count,
        "cause": str(loss.cause),
        "first_time": wall_time_or_none(loss.first_wall_us),
        "last_time": wall_time_or_none(loss.last_wall_us),
        "dropped_at": wall_time(loss.dropped_at_us),
        "is_acknowledged": loss.is_acknowledged,
    }


def count(ranges: list[Range]) -> int:
    return sum(last - first + 1 for first, last in ranges)


def show(view: SpoolView) -> None:
    page = console()
    for name, text in summary(view):
        page.print(f"{name:<11} {text}", markup=False, soft_wrap=True)
    if view.segments:
        page.print()
        put(page, segments_table(view.segments, view.acked.seq))
    if view.losses:
        page.print()
        put(page, losses_table(view.losses))


def summary(view: SpoolView) -> list[tuple[str, str]]:
    by_epoch = f", by the edge database {view.acked.epoch}" if view.acked.epoch else ""
    return [
        ("stream", str(view.stream_id) if view.stream_id else "no file tells it any more"),
        *(
            ("", f"up to {following.first_seq - 1}: {part.stream_id}")
            for part, following in pairwise(view.layout.parts if view.layout else ())
        ),
        ("writer", f"process {view.writer_pid}" if view.writer_pid else "nobody writes it now"),
        ("synced", f"up to {view.synced_seq}"),
        ("acked", f"up to {view.acked.seq}{by_epoch}"),
        ("backlog", samples(count(view.unacked))),
        ("lost", _lost(view.losses)),
        ("gaps", _gaps(view.gaps)),
        ("quarantine", f"{len(view.quarantined)} files, {size(sum(file.size_bytes for file in view.quarantined))}"),
    ]


def _lost(losses: tuple[Loss, ...]) -> str:
    if not losses:
        return "nothing"
    by_cause = Counter[str]()
    for loss in losses:
        by_cause[loss.cause] += loss.count
    causes = ", ".join(f"{cause} {number:,}" for cause, number in by_cause.most_common())
    untold = sum(not loss.is_acknowledged for loss in losses)
    return f"{samples(by_cause.total())} ({causes}); {untold} of {len(losses)} records not with the edge yet"


def _gaps(gaps: list[Range]) -> str:
    if not gaps:
        return "none that no loss record explains"
    shown = [f"{first}-{last}" for first, last in gaps[:GAPS_SHOWN]] + ["…"] * (len(gaps) > GAPS_SHOWN)
    return f"{samples(count(gaps))} that nothing explains: " + ", ".join(shown)


def segments_table(segments: tuple[SegmentView, ...], acked_seq: int) -> "Table":
    table = _table(
        "Segments",
        ("state", "edge has", "boot", "captured from", "to"),
        ("first", "last", "samples", "bytes", "channels"),
    )
    for segment in segments:
        header = segment.header
        table.add_row(
            "open" if segment.is_open else "closed",
            "all" if segment.last_seq <= acked_seq else "part" if segment.first_seq <= acked_seq else "none",
            str(header.boot_id)[:BOOT_SHOWN] if header else "header unreadable",
            wall_time_or_none(segment.first_wall_us) or "-",
            wall_time_or_none(segment.last_wall_us) or "-",
            str(segment.first_seq),
            str(segment.last_seq) if segment.samples else "-",
            f"{segment.samples:,}",
            f"{segment.size_bytes:,}",
            str(len(header.channels)) if header else "-",
        )
    return table


def losses_table(losses: tuple[Loss, ...]) -> "Table":
    table = _table("Losses", ("cause", "edge knows", "captured from", "to"), ("first", "last", "samples"))
    for loss in losses:
        table.add_row(
            str(loss.cause),
            "yes" if loss.is_acknowledged else "not yet",
            wall_time_or_none(loss.first_wall_us) or "-",
            wall_time_or_none(loss.last_wall_us) or "-",
            str(loss.first_seq),
            str(loss.last_seq),
            f"{loss.count:,}",
        )
    return table


def _table(title: str, texts: tuple[str, ...], numbers: tuple[str, ...]) -> "Table":
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in texts:
        table.add_column(name, no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table
