"""Hours: what is not in the cloud is on its way as far as something is, and else unexplained."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from farmiq.audit.balance import settled
from farmiq.audit.device_hours import Hour, explained, hours_of
from farmiq.audit.device_reading import DeviceReading, Situation
from farmiq.audit.devices import balance_device
from farmiq.audit.streams import BusRoom, Packs, Place
from farmiq.timeseries.accounts import DeviceAccount, StreamAccount
from farmiq.timeseries.hours import HourRow
from support.audited_farm import ASKED_AT

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
LATER = AT + timedelta(hours=1)
STREAM = UUID(int=4)


def rows(*stored: int) -> list[HourRow]:
    return [HourRow("node-1", AT + timedelta(hours=place), samples) for place, samples in enumerate(stored)]


def account(received: int, *stored: int) -> DeviceAccount:
    stream = StreamAccount(STREAM, [(1, received + 1)], [], ASKED_AT, ASKED_AT)
    return DeviceAccount("node-1", received, received, [stream], rows(*stored))


def test_missing_samples_are_not_shown_as_on_the_way() -> None:
    """Ten of the first hour are nowhere, and twenty of the second wait."""
    cloud = StreamAccount(STREAM, [(1, 51), (61, 101)], [], AT, AT)
    reading = DeviceReading(
        device_id="node-1",
        edge=account(120, 60, 60),
        cloud=DeviceAccount("node-1", 90, 90, [cloud], rows(50, 40)),
        packs={STREAM: Packs([(101, 121)])},
    )
    judged = balance_device(reading, Situation(tenant_id="demo"), BusRoom(0))
    assert [(hour.in_flight, hour.unexplained) for hour in judged.hours] == [(0, 10), (20, 0)]
    assert [finding.kind for finding in judged.findings] == ["lost_after_edge"]
    moved = settled(judged, [])
    assert [(hour.in_flight, hour.unexplained) for hour in moved.hours] == [(10, 0), (20, 0)]


def test_what_the_edge_lacks_is_explained_by_the_node_and_what_the_cloud_lacks_by_the_outbox() -> None:
    hours = hours_of([HourRow("node-1", AT, 50, 0, 10)], rows(40))
    in_flight: dict[Place, int] = {"edge_outbox": 30, "node_spool": 4}
    (hour,) = explained(hours, in_flight, 0)
    assert (hour.captured, hour.in_flight, hour.unexplained) == (60, 14, 6)


def test_what_the_cloud_only_guesses_to_be_missing_in_an_hour_is_not_unexplained() -> None:
    """Samples of the second hour wait; the cloud shares the hole out over both."""
    cloud = [HourRow("node-1", AT, 60, 0, 10), HourRow("node-1", LATER, 20, 0, 10)]
    hours = explained(hours_of(rows(60, 40), cloud), {"edge_outbox": 20}, 0)
    assert [(hour.captured, hour.in_flight, hour.unexplained) for hour in hours] == [(60, 0, 0), (40, 20, 0)]


some = st.integers(0, 50)


@given(st.lists(st.tuples(some, some, some, some), max_size=6), some, some, some, some)
def test_the_sum_of_each_hour_holds(
    given_hours: list[tuple[int, int, int, int]], outbox: int, spool: int, moving: int, dead: int
) -> None:
    edge = [HourRow("n", AT + timedelta(hours=at), one[0], one[1], one[2]) for at, one in enumerate(given_hours)]
    cloud = [HourRow("n", AT + timedelta(hours=at), one[3]) for at, one in enumerate(given_hours)]
    in_flight: dict[Place, int] = {"edge_outbox": outbox, "node_spool": spool, "moving": moving}
    hours: list[Hour] = explained(hours_of(edge, cloud), in_flight, dead)
    for hour in hours:
        assert hour.captured == hour.stored + hour.lost + hour.in_flight + hour.unexplained
        assert min(hour.lost, hour.in_flight, hour.unexplained) >= 0
    assert sum(hour.in_flight for hour in hours) <= outbox + spool + moving + dead
