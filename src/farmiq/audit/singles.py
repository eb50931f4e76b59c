"""Single readings, which have no sequences: named where both tiers can, and else counted while more of them arrive. Pure."""

from datetime import UTC, datetime

from farmiq.audit.device_reading import DeviceReading, Situation
from farmiq.audit.records import RecordReading, is_on_its_way
from farmiq.audit.streams import BusRoom, Part, Place, StreamBalance
from farmiq.timeseries.accounts import DeviceAccount
from farmiq.timeseries.coverage import count


def covered(account: DeviceAccount | None) -> int:
    return sum(count(stream.received) for stream in account.streams) if account else 0


def single(account: DeviceAccount | None, situation: Situation, tier: str) -> int | None:
    """Single readings have no sequences: they are what the aggregates count and no stream covers. None: not to be told."""
    if (tier == "cloud" and situation.are_aggregates_sent) or situation.retired.get(tier):
        return None
    return tally(account)


def tally(account: DeviceAccount | None, since: datetime | None = None) -> int:
    """What the aggregates count and no stream covers. Since a time, only the difference of two of these means something."""
    if account is None:
        return 0
    if since is None:
        return max(0, account.samples - covered(account))
    return sum(hour.stored for hour in account.hours if hour.hour_at >= since) - covered(account)


def balance_singles(reading: DeviceReading, situation: Situation, bus: BusRoom) -> StreamBalance:
    """As if they were a stream of their own, whose sequences stand for how many there are."""
    if reading.readings is not None:
        return _named_singles(reading, reading.readings, bus)
    at_edge = single(reading.edge, situation, "edge") or 0
    in_outbox = reading.single_waiting + reading.single_dead
    if not situation.is_raw_sent:
        return StreamBalance(at_edge, at_edge, 0, {}, [], [], [])
    if situation.are_aggregates_sent:
        # Aggregates of the cloud count twice what came as aggregates and as readings: only the outbox tells what is not there.
        return _parted(reading, stored=max(0, at_edge - in_outbox), behind=in_outbox, on_bus=0, confirmed=0)
    stored = single(reading.cloud, situation, "cloud") or 0
    since = _compared_since(reading.edge, situation)
    behind = tally(reading.edge, since) - tally(reading.cloud, since)
    recent = reading.single_recent
    if since is not None:
        # What has left the aggregates is not in the difference, and may be in the outbox all the same.
        behind = max(behind, in_outbox)
    on_bus = bus.take(min(recent, max(0, behind - in_outbox)))
    return _parted(reading, stored, behind, on_bus, _confirmed(reading, since))


def _named_singles(reading: DeviceReading, readings: RecordReading, bus: BusRoom) -> StreamBalance:
    on_bus = [one for one in readings.missing if one.id not in readings.waiting and is_on_its_way(readings, one, bus)]
    in_outbox = sum(one.id in readings.waiting for one in readings.missing)
    dead = min(in_outbox, reading.single_dead)
    missing = len(readings.missing) - in_outbox - len(on_bus)
    flying: dict[Place, int] = {"edge_outbox": in_outbox - dead, "cloud_bus": len(on_bus)}
    captured = max(len(readings.missing), tally(reading.edge))
    return StreamBalance(
        captured=captured,
        stored=captured - len(readings.missing),
        lost=0,
        in_flight={place: samples for place, samples in flying.items() if samples},
        dead=[(0, dead)] if dead else [],
        missing=[Part("single_missing", [(0, missing)])] if missing else [],
        disagreements=[Part("single_surplus", [(0, len(readings.surplus))])] if readings.surplus else [],
    )


def _compared_since(edge: DeviceAccount | None, situation: Situation) -> datetime | None:
    """Where retention has taken aggregates, the hours of the window are compared that the edge still has; else everything."""
    if not any(situation.retired.values()):
        return None
    return edge.hours[0].hour_at if edge and edge.hours else datetime.max.replace(tzinfo=UTC)


def _confirmed(reading: DeviceReading, since: datetime | None) -> int | None:
    """How many of those that the edge had when it was first asked are not in the cloud now. None: it is the first time."""
    earlier = reading.earlier
    if earlier is None:
        return None
    at_edge = tally(earlier.edge, since) - (earlier.edge.single_since if earlier.edge else 0)
    in_cloud = tally(reading.cloud, since) - (reading.cloud.single_since if reading.cloud else 0)
    if earlier.in_outbox is None:
        return at_edge - in_cloud
    # What has left the outbox since the last time may be in nobody's answer: the cloud was asked before it came.
    return at_edge - in_cloud - max(earlier.in_outbox, reading.single_old_in_outbox)


def _parted(reading: DeviceReading, stored: int, behind: int, on_bus: int, confirmed: int | None) -> StreamBalance:
    """What the cloud is `behind` by place; what is in none and not `confirmed` to be missing has only just come."""
    waiting = min(max(0, behind), reading.single_waiting)
    dead = min(max(0, behind) - waiting, reading.single_dead)
    rest = max(0, behind) - waiting - dead
    missing = max(0, (rest if confirmed is None else min(rest, confirmed)) - on_bus)
    flying: dict[Place, int] = {"edge_outbox": waiting, "cloud_bus": on_bus, "moving": rest - on_bus - missing}
    return StreamBalance(
        captured=stored + max(0, behind),
        stored=stored,
        lost=0,
        in_flight={place: samples for place, samples in flying.items() if samples},
        dead=[(0, dead)] if dead else [],
        missing=[Part("single_missing", [(0, missing)])] if missing else [],
        disagreements=[Part("single_surplus", [(0, -behind)])] if behind < 0 else [],
    )
