"""One device: its rows against its coverage at each tier, its single readings and its hours between the tiers."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from farmiq.audit.device_reading import DeviceReading, Situation
from farmiq.audit.devices import DeviceBalance, balance_device
from farmiq.audit.streams import BusRoom, NodeAccount, Packs
from farmiq.timeseries.accounts import DeviceAccount, StreamAccount
from farmiq.timeseries.hours import HourRow
from farmiq.timeseries.stored_rows import StoredRows

STREAM = UUID(int=7)
AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
SITUATION = Situation(tenant_id="demo")


def account(stored: int = 100, single: int = 0, **parts: Any) -> DeviceAccount:
    """A stream of so many and some single readings, all of one hour, with their rows."""
    samples = stored + single
    known = DeviceAccount(
        "node-1",
        samples,
        samples,
        [StreamAccount(STREAM, [(1, stored + 1)], [], AT, AT, StoredRows(stored, [], [], 0))],
        [HourRow("node-1", AT, samples)],
        0,
        single,
    )
    return replace(known, **parts)


def with_rows(rows: StoredRows, **parts: Any) -> DeviceAccount:
    return account(streams=[StreamAccount(STREAM, [(1, 101)], [], AT, AT, rows)], **parts)


def judged(situation: Situation = SITUATION, bus_messages: int = 0, **parts: Any) -> DeviceBalance:
    known = DeviceReading(
        device_id="node-1",
        edge=account(),
        cloud=account(),
        nodes={STREAM: NodeAccount(100, 100, [(91, 101)])},
    )
    return balance_device(replace(known, **parts), situation, BusRoom(bus_messages))


def kinds(balance: DeviceBalance) -> dict[str, int]:
    return {finding.kind: finding.count for finding in balance.findings}


def test_what_is_stored_everywhere_balances() -> None:
    found = judged()
    assert found.findings == []
    assert (found.captured, found.stored, found.lost, found.in_flight, found.missing) == (100, 100, 0, {}, 0)
    assert (found.at_edge, found.rows_counted) == (100, {"edge": 100, "cloud": 100})
    (hour,) = found.hours
    assert (hour.captured, hour.edge_stored, hour.stored, hour.in_flight) == (100, 100, 100, 0)


@pytest.mark.parametrize("tier", ["edge", "cloud"])
@pytest.mark.parametrize(
    ("wrong", "kind", "count"),
    [
        (with_rows(StoredRows(97, [(11, 14)], [], 0)), "rows_absent", 3),
        (with_rows(StoredRows(102, [], [], 2)), "stored_twice", 2),
        (with_rows(StoredRows(104, [], [(201, 205)], 0)), "not_covered", 4),
        (account(samples=95, samples_in_months=95), "aggregates_short", 5),
        (account(single_rows=1), "single_rows_differ", 1),
    ],
)
def test_a_tier_whose_rows_are_not_what_it_says_is_found(
    tier: str, wrong: DeviceAccount, kind: str, count: int
) -> None:
    found = judged(SITUATION, 0, **{tier: wrong})
    (finding,) = [one for one in found.findings if one.kind == kind]
    assert (finding.tier, finding.count, finding.device_id) == (tier, count, "node-1")
    assert finding.fix


def test_of_absent_rows_the_sequences_are_named() -> None:
    (finding,) = judged(cloud=with_rows(StoredRows(97, [(11, 14)], [], 0))).findings
    assert (finding.stream_id, finding.first_seq, finding.last_seq) == (STREAM, 11, 13)


def test_rows_that_retention_took_are_not_missed() -> None:
    """Sixty samples are of months that were dropped: their rows are gone, and coverage and aggregates stay."""
    retired = with_rows(StoredRows(40, [(1, 61)], [], 0), samples_in_months=40)
    assert judged(edge=retired).findings == []
    assert kinds(judged(edge=with_rows(StoredRows(39, [(1, 62)], [], 0), samples_in_months=40))) == {"rows_absent": 61}


def test_aggregates_that_retention_took_are_not_missed() -> None:
    late = Situation(tenant_id="demo", retired={"edge": 60})
    gone = with_rows(StoredRows(40, [(1, 61)], [], 0), samples=40, samples_in_months=40, hours=[])
    assert judged(late, edge=gone).findings == []
    assert judged(late, edge=replace(gone, samples=39, samples_in_months=39)).findings != []


def test_single_readings_are_stored_on_their_way_given_up_or_missing() -> None:
    edge, cloud = account(single=10), account(single=4)
    waiting = judged(edge=edge, cloud=cloud, single_waiting=6)
    assert (waiting.captured, waiting.stored, waiting.in_flight, waiting.findings) == (110, 104, {"edge_outbox": 6}, [])
    dead = judged(edge=edge, cloud=cloud, single_waiting=5, single_dead=1)
    assert (dead.dead_lettered, kinds(dead)) == (1, {"dead_letter": 1})
    gone = judged(edge=edge, cloud=cloud, single_waiting=4)
    assert (gone.missing, kinds(gone)) == (2, {"single_missing": 2})
    on_bus = judged(bus_messages=2, edge=edge, cloud=cloud, single_waiting=4, single_recent=9)
    assert (on_bus.in_flight, on_bus.findings) == ({"edge_outbox": 4, "cloud_bus": 2}, [])
    crowded = judged(bus_messages=1, edge=edge, cloud=cloud, single_waiting=4, single_recent=9)
    assert (crowded.in_flight["cloud_bus"], kinds(crowded)) == (1, {"single_missing": 1})
    older = judged(bus_messages=9, edge=edge, cloud=cloud, single_waiting=4)
    assert kinds(older) == {"single_missing": 2}
    assert kinds(judged(edge=cloud, cloud=edge))["single_surplus"] == 6


def test_hours_that_differ_are_explained_by_what_is_on_its_way_or_found() -> None:
    behind = account(90)
    packs = {STREAM: Packs([(91, 101)])}
    assert judged(cloud=behind, packs=packs).findings == []
    shifted = account(hours=[HourRow("node-1", AT, 93), HourRow("node-1", AT + timedelta(hours=1), 7)])
    assert kinds(judged(cloud=shifted)) == {"hours_disagree": 7}


def test_where_the_cloud_is_told_of_aggregates_only_the_edge_is_the_end() -> None:
    aggregated = Situation(tenant_id="demo", is_raw_sent=False, are_aggregates_sent=True)
    found = judged(aggregated, cloud=DeviceAccount("node-1", 100, 100, [], [HourRow("node-1", AT, 100)], 0, 0))
    assert (found.captured, found.stored, found.findings) == (100, 100, [])


def test_a_device_of_which_only_its_spool_knows_is_in_flight() -> None:
    found = judged(edge=None, cloud=None, nodes={STREAM: NodeAccount(30, 0, [(1, 31)])})
    assert (found.captured, found.in_flight, found.findings) == (30, {"node_spool": 30}, [])
