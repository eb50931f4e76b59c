from datetime import UTC, datetime, timedelta
from math import inf

from farmiq.edge.telemetry_timeseries.fleet import HOLDING_SECONDS, Fleet, Held
from farmiq.edge.telemetry_timeseries.liveness import Clocks

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
TIMEOUT = timedelta(seconds=60)


def heard(seconds_ago: float) -> Clocks:
    return Clocks(NOW - timedelta(seconds=seconds_ago), None, None, None, scheduled_at=NOW - timedelta(days=30))


def of(*devices: tuple[Clocks, Held]) -> Fleet:
    fleet = Fleet()
    for clocks, held in devices:
        fleet.add(clocks, held, NOW, TIMEOUT)
    return fleet


def test_devices_are_counted_as_the_device_list_shows_them() -> None:
    without_schedule = Clocks(NOW - timedelta(seconds=61), None, None, None)
    gone = Clocks(None, NOW, NOW, NOW, scheduled_at=NOW)
    fleet = of((heard(5), Held()), (heard(61), Held()), (without_schedule, Held()), (gone, Held()))
    assert (fleet.online, fleet.quiet, fleet.idle) == (1, 2, 1)


def test_what_the_devices_hold_is_added_up_and_the_oldest_is_the_oldest_of_all() -> None:
    fleet = of(
        (heard(5), Held("node", NOW - timedelta(seconds=5), 100, 7, 3.0)),
        (heard(5), Held("node", NOW - timedelta(seconds=10), 50, 1, 20.0)),
        (heard(5), Held("node", NOW, 10, 0, None)),
    )
    assert (fleet.spool_bytes, fleet.unacked_samples, fleet.oldest_seconds) == (160, 8, 30.0)


def test_a_device_that_delivers_has_no_runway_to_worry_about() -> None:
    assert of((heard(5), Held("node", NOW, 100, 7, 3.0, 100.0))).runway_seconds == inf


def test_the_runway_of_a_device_that_is_gone_gets_shorter_while_nobody_hears_it() -> None:
    gone = Held("node", NOW - timedelta(hours=1), 100, 7, 3.0, 7200.0)
    assert of((heard(3600), gone)).runway_seconds == 3600
    long_gone = Held("node", NOW - timedelta(days=9), 100, 7, 3.0, 7200.0)
    assert of((heard(3600), gone), (heard(777_600), long_gone)).runway_seconds == 0


def test_a_connected_device_whose_samples_are_not_taken_counts_as_well() -> None:
    stuck = Held("node", NOW, 100, 7, HOLDING_SECONDS + 1, 5000.0)
    assert of((heard(5), stuck)).runway_seconds == 5000
