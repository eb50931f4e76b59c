"""The hours of a device, and how much of what is not in the cloud its samples on the way can explain. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from farmiq.audit.streams import Place
from farmiq.timeseries.hours import HourRow


class Hour(Struct, frozen=True):
    """captured = stored + lost + in flight + unexplained, of what was measured in this hour; `edge_stored` is what the edge has
    of it. Dead letters are in flight here: nobody knows their hours."""

    hour_at: datetime
    captured: int
    edge_stored: int
    stored: int
    lost: int
    in_flight: int
    unexplained: int = 0


def hours_of(edge_hours: Sequence[HourRow], cloud_hours: Sequence[HourRow]) -> list[Hour]:
    """What is neither stored nor lost is in flight, until `explained` says how much of it can be."""
    edge = {hour.hour_at: hour for hour in edge_hours}
    cloud = {hour.hour_at: hour for hour in cloud_hours}
    found = []
    for hour_at in sorted({*edge, *cloud}):
        # What the cloud misses lies somewhere between two times; where the edge has counted its samples, that is known better.
        here = edge.get(hour_at) or cloud[hour_at]
        stored = cloud[hour_at].stored if hour_at in cloud else 0
        captured = max(here.stored + here.lost + here.missing, stored)
        lost = min(here.lost, captured - stored)
        at_edge = edge[hour_at].stored if hour_at in edge else 0
        found.append(Hour(hour_at, captured, at_edge, stored, lost, captured - stored - lost))
    return found


def explained(hours: Sequence[Hour], in_flight: Mapping[Place, int], dead: int) -> list[Hour]:
    """The latest hours first: what is on its way is of them. What is left over is unexplained."""
    between = dead + in_flight.get("edge_outbox", 0) + in_flight.get("cloud_bus", 0)
    upstream = in_flight.get("node_spool", 0) + in_flight.get("device", 0)
    moving = in_flight.get("moving", 0)
    found = []
    for hour in reversed(hours):
        open_ = hour.captured - hour.stored - hour.lost
        behind = min(open_, max(0, hour.edge_stored - hour.stored))
        sent, held = min(behind, between), min(open_ - behind, upstream)
        moved = min(open_ - sent - held, moving)
        between, upstream, moving = between - sent, upstream - held, moving - moved
        flying = sent + held + moved
        found.append(replace(hour, in_flight=flying, unexplained=open_ - flying))
    return found[::-1]
