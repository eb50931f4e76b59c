"""The verdict over everything, and asking again."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from msgspec.structs import replace

from farmiq.audit.balance import DeadLetters, Reading, TenantReading, balance, with_more
from farmiq.audit.device_reading import DeviceReading, Situation
from farmiq.audit.findings import WORDS, Finding, found, lasting
from farmiq.audit.rounds import PAUSES_SECONDS, look_until_sure
from farmiq.audit.streams import NodeAccount, Packs, Place
from farmiq.timeseries.accounts import DeviceAccount, StreamAccount
from farmiq.timeseries.coverage import Span

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
STREAM = UUID(int=9)


def account(received: list[Span], samples: int) -> DeviceAccount:
    return DeviceAccount("node-1", samples, samples, [StreamAccount(STREAM, received, [], AT, AT)], [])


def reading(cloud_end: int, outbox: Sequence[Span], edge_end: int, node_end: int, letters: int = 0) -> Reading:
    """A farm that has come so far; nothing is on the bus."""
    device = DeviceReading(
        device_id="node-1",
        edge=account([(1, edge_end)], edge_end - 1),
        cloud=account([(1, cloud_end)], cloud_end - 1),
        nodes={STREAM: NodeAccount(node_end - 1, edge_end - 1, [(1, node_end)])},
        packs={STREAM: Packs(list(outbox))},
    )
    tenant = TenantReading(
        situation=Situation(tenant_id="demo"),
        devices=[device],
        dead_letters=[DeadLetters("cloud-telemetry-service", letters)],
    )
    return Reading(asked_at=AT, since=AT - timedelta(days=31), until=AT, tenants=[tenant], duplicates_removed=4)


async def asked(readings: Sequence[Reading]) -> tuple[Finding | None, int, dict[Place, int]]:
    """The first finding, how often somebody looked, and what is in flight where."""
    left = list(readings)
    paused: list[float] = []

    async def look() -> Reading:
        return left.pop(0) if len(left) > 1 else left[0]

    async def pause(seconds: float) -> None:
        paused.append(seconds)

    verdict = await look_until_sure(look, pause)
    assert verdict.captured == (
        verdict.stored + verdict.lost + verdict.in_flight + verdict.dead_lettered + verdict.unexplained
    )
    assert verdict.balanced is (verdict.findings == [])
    return next(iter(verdict.findings), None), len(paused) + 1, verdict.in_flight_at


def test_everything_in_its_place_balances() -> None:
    verdict = balance(reading(61, [(61, 81)], 81, 101))
    assert verdict.balanced
    assert (verdict.captured, verdict.stored, verdict.lost, verdict.in_flight) == (100, 60, 0, 40)
    assert verdict.in_flight_at == {"edge_outbox": 20, "node_spool": 20}
    assert (verdict.duplicates_removed, verdict.unexplained, verdict.dead_lettered) == (4, 0, 0)


async def test_what_moved_while_it_was_asked_is_in_flight_and_nothing_is_cried() -> None:
    """Each time, other samples have left the outbox and are not in the cloud's answer, which is older."""
    finding, looks, flying = await asked([reading(61, [], 81, 101), reading(81, [], 91, 101)])
    assert (finding, looks) == (None, 2)
    assert flying == {"moving": 10, "node_spool": 10}


async def test_what_is_missing_each_time_is_missing_and_only_that() -> None:
    finding, looks, flying = await asked([reading(61, [], 81, 101), reading(61, [], 91, 101)])
    assert finding is not None
    assert (finding.kind, finding.first_seq, finding.last_seq, finding.count) == ("lost_after_edge", 61, 80, 20)
    assert looks == len(PAUSES_SECONDS) + 1
    assert flying == {"moving": 10, "node_spool": 10}


def test_a_message_on_the_bus_explains_what_it_can_hold_and_only_once() -> None:
    known = replace(reading(61, [], 10_061, 10_061), bus_messages=1)
    (tenant,) = known.tenants
    packs = {STREAM: Packs(recent=[(61, 5061), (5061, 10_061)])}
    device = replace(tenant.devices[0], packs=packs)
    both = [device, replace(device, device_id="node-2")]
    verdict = balance(replace(known, tenants=[replace(tenant, devices=both)]))
    assert (verdict.balanced, verdict.in_flight_at, verdict.unexplained) == (False, {"cloud_bus": 5000}, 15_000)


async def test_a_dead_letter_needs_no_second_look() -> None:
    finding, looks, _ = await asked([reading(81, [], 81, 101, letters=2)])
    assert finding is not None
    assert (finding.kind, finding.subject, finding.count, looks) == (
        "cloud_dead_letter",
        "cloud-telemetry-service",
        2,
        1,
    )


def test_other_events_in_the_outbox_are_counted_and_those_given_up_do_not_balance() -> None:
    (tenant,) = reading(81, [], 81, 81).tenants
    known = reading(81, [], 81, 81)
    waiting = balance(replace(known, tenants=[replace(tenant, events_waiting={"media.stored": 2})]))
    assert (waiting.balanced, waiting.events_waiting) == (True, {"media.stored": 2})
    dead = balance(replace(known, tenants=[replace(tenant, events_dead={"barn.door": 1})]), before=[])
    assert [(one.kind, one.subject, one.count) for one in dead.findings] == [("dead_event", "barn.door", 1)]


def test_what_looks_different_a_moment_later_is_still_the_same_samples() -> None:
    before = [found("acked_and_gone", "demo", "node-1/s", 10, span=(11, 21))]
    now = [found("not_in_spool", "demo", "node-1/s", 10, span=(16, 26)), found("nowhere", "demo", "node-2/s", 1)]
    (left,) = lasting(before, now)
    assert (left.kind, left.first_seq, left.last_seq, left.count) == ("not_in_spool", 16, 20, 5)


def test_of_numbers_the_smaller_one_lasts() -> None:
    (left,) = lasting([found("single_missing", "demo", "a", 3)], [found("single_missing", "demo", "a", 8)])
    assert left.count == 3


def test_what_was_found_elsewhere_counts_as_well() -> None:
    verdict = with_more(balance(reading(81, [], 81, 81)), [found("picture_object", "demo", "key", 1)], ["a note"])
    assert (verdict.balanced, len(verdict.findings), verdict.notes) == (False, 1, ["a note"])


@pytest.mark.parametrize("kind", WORDS)
def test_every_kind_says_what_it_is_where_it_was_seen_and_what_helps(kind: str) -> None:
    assert all((WORDS[kind].what, WORDS[kind].last_seen, WORDS[kind].fix))
