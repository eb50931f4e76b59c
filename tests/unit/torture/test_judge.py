"""The judge says no whenever the ledger and a tier disagree, and only then."""

from dataclasses import asdict
from uuid import UUID, uuid4

import pytest

from farmiq.timeseries.stream import Origin
from farmiq.torture.judge import (
    IN_FLIGHT_US,
    LATE_US,
    WRONG,
    Declared,
    Found,
    Ledger,
    NodeJudge,
    Sample,
    Tally,
    judge_bus_poison,
    judge_events,
)
from farmiq.torture.ledger import BusLost, BusPoison, Filled, Heard, Line, Offered, Said, SetBack, Stored
from farmiq.torture.samples import sensor_of, wall_us_of

NODE = Origin("demo", "f", "b", "node-a")
OFFERS = [Offered("node-a", 1, 16, 1_000_000), Offered("node-a", 17, 32, 5_000_000)]
ACCEPTED = 24
DECLARED_AT, LONG_BEFORE = 1_000_000_000, 1_000
FILLED = [Filled("node-a", DECLARED_AT - 1, DECLARED_AT + 1)]


def row(number: int) -> Sample:
    offer = next(one for one in OFFERS if one.first <= number <= one.last)
    at_us = wall_us_of(offer, number)
    return Sample(number, float(number), sensor_of(number), at_us, "torture", "n", 2, NODE, DECLARED_AT)


def rows(*numbers: int) -> list[Sample]:
    return [row(number) for number in numbers]


def judged(found: list[Sample], declared: list[tuple[int, int]]) -> Tally:
    """Of a node whose disk was filled."""
    losses = [Declared(first, last, "cap_reached", DECLARED_AT) for first, last in declared]
    judge = NodeJudge(NODE, OFFERS, ACCEPTED, losses, FILLED)
    for one in found:
        judge.take(one)
    return judge.finish()


def counts(tally: Tally) -> dict[str, int]:
    return {name: value for name, value in asdict(tally).items() if name != "examples" and value}


ALL = rows(*range(1, 25))

SAMPLES: dict[str, tuple[list[Sample], list[tuple[int, int]], dict[str, int]]] = {
    "all there": (ALL, [], {"stored": 24}),
    "stored though never acknowledged": (rows(*range(1, 33)), [], {"stored": 32}),
    "one missing": (ALL[:9] + ALL[10:], [], {"stored": 23, "lost": 1}),
    "the first missing": (ALL[1:], [], {"stored": 23, "lost": 1}),
    "the last missing": (ALL[:-1], [], {"stored": 23, "lost": 1}),
    "nothing there": ([], [], {"lost": 24}),
    "missing and declared": (ALL[:8] + ALL[12:], [(9, 12)], {"stored": 20, "declared_lost": 4}),
    "missing and half declared": (ALL[:8] + ALL[12:], [(11, 14)], {"stored": 20, "declared_lost": 2, "lost": 2}),
    "declared twice over": (
        ALL[:8] + ALL[14:],
        [(9, 12), (10, 12), (9, 11)],
        {"stored": 18, "declared_lost": 4, "lost": 2},
    ),
    "declared in another order": (
        ALL[:8] + ALL[12:19] + ALL[21:],
        [(20, 21), (9, 12)],
        {"stored": 18, "declared_lost": 6},
    ),
    "declared and there all the same": (ALL, [(9, 12)], {"stored": 24}),
    "declared and never taken": (ALL, [(30, 33)], {"stored": 24, "unexplained": 4}),
    "twice": (rows(*range(1, 13), 12, *range(13, 25)), [], {"stored": 24, "duplicated": 1}),
    "three times": (rows(*range(1, 13), 12, 12, *range(13, 25)), [], {"stored": 24, "duplicated": 2}),
    "never sent": (
        [*rows(*range(1, 33)), ALL[0]._replace(number=33)],
        [],
        {"stored": 32, "never_sent": 1},
    ),
}


@pytest.mark.parametrize("case", SAMPLES)
def test_the_samples_of_a_node(case: str) -> None:
    found, declared, expected = SAMPLES[case]
    tally = judged(found, declared)
    assert counts(tally) == {"accepted": ACCEPTED} | expected
    assert tally.is_clean == (not {*WRONG} & expected.keys())
    assert tally.is_clean or tally.examples


@pytest.mark.parametrize(
    "changed",
    [
        row(4)._replace(value=4.5),
        row(4)._replace(sensor="s4"),
        row(4)._replace(at_us=7),
        row(4)._replace(metric="temperature"),
        row(4)._replace(unit=None),
        row(4)._replace(time_quality=1),
        row(4)._replace(origin=Origin("demo", "f", "another-barn", "node-a")),
    ],
)
def test_a_sample_that_differs_in_anything_is_altered(changed: Sample) -> None:
    """promise-cloud 10: metric, unit, place and quality of the time were not compared."""
    tally = judged([*ALL[:3], changed, *ALL[4:]], [])
    assert counts(tally) == {"accepted": ACCEPTED, "stored": 23, "altered": 1}


@pytest.mark.parametrize(
    ("loss", "filled", "is_clean"),
    [
        (Declared(9, 12, "cap_reached", DECLARED_AT), FILLED, True),
        (Declared(9, 12, "sync_failed", DECLARED_AT), FILLED, True),
        (Declared(9, 12, "cap_reached", DECLARED_AT + LATE_US), FILLED, True),
        (Declared(9, 12, "damaged", DECLARED_AT), FILLED, False),
        (Declared(9, 12, "missing", DECLARED_AT), FILLED, False),
        (Declared(9, 12, "aged_out", DECLARED_AT), FILLED, False),
        (Declared(9, 12, "cap_reached", DECLARED_AT), [], False),
        # Of a node whose disk was filled, and at another time (promise-cloud 10).
        (Declared(9, 12, "cap_reached", DECLARED_AT + LATE_US + 2), FILLED, False),
        (Declared(9, 12, "cap_reached", DECLARED_AT - 2), FILLED, False),
    ],
)
def test_a_node_declares_samples_lost_only_for_what_is_done_to_it_at_the_time(
    loss: Declared, filled: list[Filled], is_clean: bool
) -> None:
    judge = NodeJudge(NODE, OFFERS, ACCEPTED, [loss], filled)
    for one in ALL[:8] + ALL[12:]:
        judge.take(one)
    tally = judge.finish()
    assert (tally.lost, tally.unexplained, tally.is_clean) == (0, 0 if is_clean else 4, is_clean)


def test_a_full_disk_explains_no_loss_of_samples_that_were_taken_later() -> None:
    offers = [OFFERS[0], Offered("node-a", 17, 32, 5_000_000, at_us=DECLARED_AT + 1)]
    judge = NodeJudge(NODE, offers, ACCEPTED, [Declared(15, 18, "cap_reached", DECLARED_AT)], FILLED)
    assert judge.tally.unexplained == 4


@pytest.mark.parametrize(
    ("ingested_us", "is_first_tier", "contradicted"),
    [
        (DECLARED_AT - IN_FLIGHT_US, True, 0),
        (DECLARED_AT + IN_FLIGHT_US, True, 0),
        (DECLARED_AT - IN_FLIGHT_US - 1, True, 4),
        (DECLARED_AT + IN_FLIGHT_US + 1, True, 4),
        (DECLARED_AT - IN_FLIGHT_US - 1, False, 4),
        (DECLARED_AT + IN_FLIGHT_US + 1, False, 0),  # the cloud has what the edge stored whenever the line allows
    ],
)
def test_what_is_stored_and_declared_lost_is_a_contradiction(
    ingested_us: int, is_first_tier: bool, contradicted: int
) -> None:
    """promise-cloud 10: records over samples that were there all along were let pass."""
    losses = [Declared(9, 12, "cap_reached", DECLARED_AT), Declared(10, 11, "cap_reached", DECLARED_AT)]
    judge = NodeJudge(NODE, OFFERS, ACCEPTED, losses, FILLED, is_first_tier=is_first_tier)
    for one in ALL:
        judge.take(one._replace(ingested_us=ingested_us))
    tally = judge.finish()
    assert (tally.stored, tally.contradicted, tally.unexplained) == (24, contradicted, 0)


def test_what_was_on_a_disk_alone_that_was_set_back_is_gone_and_nothing_else() -> None:
    judge = NodeJudge(NODE, OFFERS, ACCEPTED, gone=[(9, 13)])
    for one in ALL[:7] + ALL[14:]:
        judge.take(one)
    assert counts(judge.finish()) == {"accepted": ACCEPTED, "stored": 17, "gone": 4, "lost": 3}


EVENT = Said("sensor", UUID(int=1), "telemetry.reading", 99, value=4.5)
POISON = Said("sensor", UUID(int=2), "telemetry.reading", 99, is_poison=True)
SENSOR = Origin("demo", "f", "b", "sensor")
IN_CLOUD = Found(EVENT.event_id, EVENT.event_type, SENSOR, 99, 4.5, metric="torture", unit="n")
ENDED = Said("sensor", UUID(int=3), "weighvision.session.finalized", 99)

EVENTS: dict[str, tuple[dict[UUID, str], list[Found], dict[str, int]]] = {
    "there": ({EVENT.event_id: "stored"}, [IN_CLOUD], {"accepted": 1, "stored": 1}),
    "there, by a repeated delivery": ({EVENT.event_id: "duplicate"}, [IN_CLOUD], {"accepted": 1, "stored": 1}),
    "never answered and there": ({}, [IN_CLOUD], {"accepted": 1, "stored": 1}),
    "never answered and not there": ({}, [], {}),
    "lost": ({EVENT.event_id: "stored"}, [], {"accepted": 1, "lost": 1}),
    "refused for no reason": ({EVENT.event_id: "rejected"}, [], {"lost": 1}),
    "twice": ({EVENT.event_id: "stored"}, [IN_CLOUD, IN_CLOUD], {"accepted": 1, "stored": 1, "duplicated": 1}),
    "another value": ({EVENT.event_id: "stored"}, [IN_CLOUD._replace(value=4.6)], {"accepted": 1, "altered": 1}),
    "another time": ({EVENT.event_id: "stored"}, [IN_CLOUD._replace(at_us=98)], {"accepted": 1, "altered": 1}),
    "another place": (
        {EVENT.event_id: "stored"},
        [IN_CLOUD._replace(origin=Origin("demo", "f", "b", "x"))],
        {"accepted": 1, "altered": 1},
    ),
    "another type": ({EVENT.event_id: "stored"}, [IN_CLOUD._replace(event_type="x")], {"accepted": 1, "altered": 1}),
    "another metric": ({EVENT.event_id: "stored"}, [IN_CLOUD._replace(metric="x")], {"accepted": 1, "altered": 1}),
    "another unit": ({EVENT.event_id: "stored"}, [IN_CLOUD._replace(unit="C")], {"accepted": 1, "altered": 1}),
    "of nobody": ({}, [IN_CLOUD._replace(event_id=uuid4())], {"never_sent": 1}),
    "poison refused": ({POISON.event_id: "rejected"}, [], {}),
    "poison accepted": ({POISON.event_id: "stored"}, [], {"altered": 1}),
    "poison in the cloud": (
        {POISON.event_id: "rejected"},
        [IN_CLOUD._replace(event_id=POISON.event_id)],
        {"never_sent": 1},
    ),
}


@pytest.mark.parametrize("case", EVENTS)
def test_single_events(case: str) -> None:
    heard, found, expected = EVENTS[case]
    tally = judge_events({EVENT.event_id: EVENT, POISON.event_id: POISON}, heard, {"sensor": SENSOR}, found)
    assert counts(tally) == expected
    assert tally.is_clean == (not {*WRONG} & expected.keys())


@pytest.mark.parametrize(("result", "lost"), [("stored", 0), ("rejected", 1)])
def test_the_end_of_a_session_has_another_id_in_the_cloud_and_is_not_refused_all_the_same(
    result: str, lost: int
) -> None:
    """promise-cloud 10: what a station said of its sessions was exempt."""
    heard = {ENDED.event_id: result}
    tally = judge_events({ENDED.event_id: ENDED}, heard, {"sensor": SENSOR}, [], frozenset({ENDED.event_type}))
    assert (tally.accepted, tally.lost) == (0, lost)


def test_dead_letters_are_the_poison_and_nothing_else() -> None:
    sure, unsure = uuid4(), uuid4()
    sent = {
        sure: BusPoison(sure, ["a", "b"], is_confirmed=True),
        unsure: BusPoison(unsure, ["a"], is_confirmed=False),
    }
    both = [("a", sure), ("b", sure)]
    assert judge_bus_poison(sent, both).is_clean
    assert judge_bus_poison(sent, [*both, ("a", unsure), ("a", sure)]).is_clean
    assert counts(judge_bus_poison(sent, [("a", unsure)])) == {"accepted": 2, "lost": 2}
    assert counts(judge_bus_poison(sent, [("a", sure)])) == {"accepted": 2, "stored": 1, "lost": 1}
    for wrong in (("a", None), ("a", uuid4()), ("b", unsure), ("c", sure)):
        assert counts(judge_bus_poison(sent, [*both, wrong])) == {"accepted": 2, "stored": 2, "never_sent": 1}


def test_a_ledger_is_its_lines_sorted_by_what_they_are_about() -> None:
    ledger = Ledger.of(
        [
            *OFFERS,
            Stored("node-a", 16),
            Stored("node-a", 24),
            Stored("node-a", 16),
            EVENT,
            Heard(EVENT.event_id, "stored"),
        ]
    )
    assert ledger.offers == {"node-a": OFFERS}
    assert ledger.stored == {"node-a": 24}
    assert ledger.said == {EVENT.event_id: EVENT}
    assert ledger.heard == {EVENT.event_id: "stored"}
    ledger = Ledger.of([Filled("node-a", 1, 2), SetBack("node-a", 3, 4), SetBack("node-a", 9, 8)])
    assert ledger.filled == {"node-a": [Filled("node-a", 1, 2)]}
    assert ledger.gone == {"node-a": [(3, 5), (9, 9)]}


def test_poison_that_a_broken_disk_may_have_taken_may_be_there_or_not() -> None:
    before, after = uuid4(), uuid4()
    lines: list[Line] = [
        BusPoison(before, ["a"], is_confirmed=True),
        BusLost(7),
        BusPoison(after, ["a"], is_confirmed=True),
    ]
    sent = Ledger.of(lines).bus_poison
    assert judge_bus_poison(sent, [("a", before), ("a", after)]).is_clean
    assert judge_bus_poison(sent, [("a", after)]).is_clean
    assert counts(judge_bus_poison(sent, [("a", before)])) == {"accepted": 1, "lost": 1}
