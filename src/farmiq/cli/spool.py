"""`farmiq spool`: a node's spool, looked at from outside. Works while a forwarder writes it, and changes nothing."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from farmiq import __version__
from farmiq.cli.terminal import say, say_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from farmiq.cli.spool_rows import Row, Wanted
    from farmiq.spool.inspection import SpoolView

SEQ_MAX = 2**62 - 1

spool = typer.Typer(
    name="spool",
    help="Look into a node's spool, also while it is written. Nothing is changed.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class Format(StrEnum):
    CSV = "csv"
    JSONL = "jsonl"


Folder = Annotated[Path | None, typer.Argument(help="The spool's folder. Left out: that of the farm on this machine.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print everything as JSON.")]
FromSeq = Annotated[int, typer.Option("--from", min=1, metavar="SEQ", help="The first sequence.")]
ToSeq = Annotated[int, typer.Option("--to", min=1, metavar="SEQ", show_default=False, help="The last sequence.")]
Metric = Annotated[str | None, typer.Option(help="Only samples of this metric.")]
Sensor = Annotated[str | None, typer.Option(help="Only samples of this sensor.")]
Limit = Annotated[int | None, typer.Option(min=0, help="At most so many samples.")]


@spool.command("ls")
def list_segments(folder: Folder = None, as_json: AsJson = False) -> None:
    """Show the segments, how far they are synced and acknowledged, and what was lost."""
    from farmiq.cli.spool_folder import find_folder

    place = find_folder(folder)
    if not as_json:
        say(f"farmiq {__version__} · {place}\n")
    view = look(place, is_given=folder is not None)
    from farmiq.cli.spool_tables import as_data, show

    if as_json:
        say_json(as_data(view))
    else:
        show(view)


@spool.command()
def cat(
    folder: Folder = None,
    from_seq: FromSeq = 1,
    to_seq: ToSeq = SEQ_MAX,
    metric: Metric = None,
    sensor: Sensor = None,
    limit: Limit = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Print samples, one a line, in the order of their capture.

    While a forwarder writes, what its last sync covers is shown.
    """
    import sys

    from farmiq.cli.spool_rows import Wanted, write_jsonl, write_text

    rows = choose(folder, Wanted(from_seq, to_seq, metric, sensor, limit))
    (write_jsonl if as_json else write_text)(rows, sys.stdout)


@spool.command()
def verify(folder: Folder = None, as_json: AsJson = False) -> None:
    """Read every frame and say what is wrong.

    Exit code 0: every sample that was promised is readable, acknowledged or declared lost; 1: some are not.
    """
    from farmiq.cli.spool_folder import explained, find_folder

    place = find_folder(folder)
    if not as_json:
        say(f"farmiq {__version__} · {place}\n")
    view = look(place, is_given=folder is not None)
    from farmiq.cli.spool_verdict import judge

    with explained(place, is_given=folder is not None):
        judge(view, as_json=as_json)


@spool.command()
def export(
    folder: Folder = None,
    out_format: Annotated[Format, typer.Option("--format", help="CSV has a header line.")] = Format.CSV,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="A file. Left out: standard output.")] = None,
    from_seq: FromSeq = 1,
    to_seq: ToSeq = SEQ_MAX,
    metric: Metric = None,
    sensor: Sensor = None,
    limit: Limit = None,
) -> None:
    """Write samples as CSV or as JSON lines. A file is there only when it is whole."""
    import sys

    from farmiq.cli.spool_export import refuse_inside, write_file
    from farmiq.cli.spool_folder import find_folder
    from farmiq.cli.spool_rows import Wanted, write_csv, write_jsonl
    from farmiq.cli.spool_times import samples

    if output is not None:
        refuse_inside(find_folder(folder), output)
    rows = choose(folder, Wanted(from_seq, to_seq, metric, sensor, limit))
    write = write_csv if out_format is Format.CSV else write_jsonl
    if output is None:
        write(rows, sys.stdout)
    else:
        say(f"{samples(write_file(rows, write, output))} in {output}")


def look(place: Path, *, is_given: bool) -> "SpoolView":
    from farmiq.cli.spool_folder import explained
    from farmiq.spool.inspection import inspect

    with explained(place, is_given=is_given):
        return inspect(place)


def choose(folder: Path | None, wanted: "Wanted") -> "Iterator[Row]":
    """The samples; and behind the last of them, on stderr, how many could not be read."""
    from farmiq.cli.spool_folder import explained, find_folder
    from farmiq.cli.spool_rows import refuse_unknown, rows

    place, is_given = find_folder(folder), folder is not None
    view = look(place, is_given=is_given)
    refuse_unknown(view, wanted)

    def told() -> "Iterator[Row]":
        with explained(place, is_given=is_given):
            yield from rows(view, wanted)

    return told()
