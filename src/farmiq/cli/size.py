from typing import Annotated

import typer

from farmiq.cli.errors import BadUsage
from farmiq.cli.size_words import read_bytes, read_seconds
from farmiq.cli.terminal import say, say_json


def size(
    nodes: Annotated[int, typer.Option(min=0, metavar="N", help="Sensor nodes.")] = 1,
    channels: Annotated[int, typer.Option(min=0, metavar="N", help="Channels of one node.")] = 10,
    every: Annotated[str, typer.Option(metavar="TIME", help="How often each channel is read.")] = "1s",
    stations: Annotated[int, typer.Option(min=0, metavar="N", help="Weigh stations.")] = 0,
    pictures: Annotated[float, typer.Option(min=0, metavar="N", help="Pictures of one station in a day.")] = 0,
    picture_size: Annotated[str, typer.Option(metavar="BYTES", help="Of one picture.")] = "200kB",
    outage: Annotated[
        str, typer.Option(metavar="TIME", help="To survive: of the edge for a node, of the cloud for the edge.")
    ] = "48h",
    catch_up: Annotated[str, typer.Option(metavar="TIME", help="In which the cloud has the backlog.")] = "4h",
    raw_days: Annotated[float, typer.Option(min=0, metavar="DAYS", help="TELEMETRY_RAW_RETENTION_DAYS.")] = 90,
    aggregate_days: Annotated[float, typer.Option(min=0, metavar="DAYS", help="TELEMETRY_AGG_RETENTION_DAYS.")] = 365,
    outbox_days: Annotated[float, typer.Option(min=0, metavar="DAYS", help="OUTBOX_RETENTION_DAYS.")] = 30,
    picture_days: Annotated[float, typer.Option(min=0, metavar="DAYS", help="MEDIA_RETENTION_DAYS of the edge.")] = 90,
    node_disk: Annotated[
        str | None, typer.Option(metavar="BYTES", help="Of a node: how long does it last without the edge?")
    ] = None,
    edge_disk: Annotated[
        str | None, typer.Option(metavar="BYTES", help="Of the edge: how long does it last without the cloud?")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Compute how much disk and line a farm needs.

    Times are written like 200ms, 30s, 5m, 48h or 14d, sizes like 300kB, 64GB or 32GiB. What a sample and a picture take was
    measured; docs/guides/sizing.md says how. Nothing has to run here.
    """
    from farmiq.cli import size_report
    from farmiq.sizing import BadFarm, Farm, Kept

    try:
        farm = Farm(
            nodes=nodes,
            channels=channels,
            interval_seconds=read_seconds("--every", every),
            stations=stations,
            pictures_per_day=pictures,
            picture_bytes=read_bytes("--picture-size", picture_size),
            outage_seconds=read_seconds("--outage", outage),
            catch_up_seconds=read_seconds("--catch-up", catch_up),
            kept=Kept(
                raw_days=raw_days, aggregate_days=aggregate_days, outbox_days=outbox_days, picture_days=picture_days
            ),
        )
    except BadFarm as error:
        raise BadUsage(str(error), why="There is no such farm.", fix="farmiq size --help") from error
    found = size_report.report_of(
        farm,
        node_disk_bytes=None if node_disk is None else read_bytes("--node-disk", node_disk),
        edge_disk_bytes=None if edge_disk is None else read_bytes("--edge-disk", edge_disk),
    )
    if as_json:
        say_json(size_report.as_data(found))
    else:
        say(size_report.as_text(farm, found))
