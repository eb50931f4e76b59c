"""The judge says no whenever the ledger and the cloud disagree, and only then."""

from dataclasses import asdict, replace
from uuid import UUID, uuid4

import pytest

from farmiq.torture.judge import (
    FULL_DISK,
    WRONG,
    Declared,
    Found,
    FoundPicture,
    FoundSession,
    Ledger,
    NodeJudge,
    Tally,
    judge_bus_poison,
    judge_events,
    judge_pictures,
    judge_sessions,
)
from farmiq.torture.ledger import BusPoison, Heard, Offered, Picture, Said, Stored, Weighed
from farmiq.torture.samples import sensor_of, wall_us_of

Row = tuple[int, float, str, int]

OFFERS = [Offered("node-a", 1, 16, 1_000_000), Offered("node-a", 17, 32, 5_000_000)]
ACCEPTED = 24


def row(number: int) -> Row:
    offer = next(one for one in OFFERS if one.first <= number <= one.last)
    return number, float(number), sensor_of(number), wall_us_of(offer, number)


def rows(*numbers: int) -> list[Row]:
    return [row(number) for number in numbers]


def judged(found: list[Row], declared: list[tuple[int, int]]) -> Tally:
    """Of a node whose disk was filled."""
    losses = [Declared(first, last, "cap_reached") for first, last in declared]
    judge = NodeJudge("node-a", OFFERS, ACCEPTED, losses, FULL_DISK)
    for one in found:
        judge.take(*one)
    return judge.finish()


def counts(tally: Tally) -> dict[str, int]:
    return {name: value for name, value in asdict(tally).items() if name != "examples" and value}


ALL = rows(*range(1, 25))

SAMPLES: dict[str, tuple[list[Row], list[tuple[int, int]], dict[str, int]]] = {
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
    "another value": ([*ALL[:3], (4, 4.5, "s3", ALL[3][3]), *ALL[4:]], [], {"stored": 23, "altered": 1}),
    "another channel": ([*ALL[:3], (4, 4.0, "s4", ALL[3][3]), *ALL[4:]], [], {"stored": 23, "altered": 1}),
    "another time": ([*ALL[:3], (4, 4.0, "s3", 7), *ALL[4:]], [], {"stored": 23, "altered": 1}),
    "never sent": ([*rows(*range(1, 33)), (33, 33.0, "s0", 7)], [], {"stored": 32, "never_sent": 1}),
}


@pytest.mark.parametrize("case", SAMPLES)
def test_the_samples_of_a_node(case: str) -> None:
    found, declared, expected = SAMPLES[case]
    tally = judged(found, declared)
    assert counts(tally) == {"accepted": ACCEPTED} | expected
    assert tally.is_clean == (not {*WRONG} & expected.keys())
    assert tally.is_clean or tally.examples


@pytest.mark.parametrize(
    ("reason", "reasons", "is_clean"),
    [
        ("cap_reached", FULL_DISK, True),
        ("sync_failed", FULL_DISK, True),
        ("damaged", FULL_DISK, False),
        ("missing", FULL_DISK, False),
        ("aged_out", FULL_DISK, False),
        ("cap_reached", frozenset(), False),
    ],
)
def test_a_node_declares_samples_lost_only_for_what_was_done_to_it(
    reason: str, reasons: frozenset[str], is_clean: bool
) -> None:
    for found in (ALL[:8] + ALL[12:], ALL):
        judge = NodeJudge("node-a", OFFERS, ACCEPTED, [Declared(9, 12, reason)], reasons)
        for one in found:
            judge.take(*one)
        tally = judge.finish()
        assert (tally.lost, tally.unexplained, tally.is_clean) == (0, 0 if is_clean else 4, is_clean)


EVENT = Said("sensor", UUID(int=1), "telemetry.reading", 99, value=4.5)
POISON = Said("sensor", UUID(int=2), "telemetry.reading", 99, is_poison=True)
IN_CLOUD = Found(EVENT.event_id, "sensor", 99, 4.5)

EVENTS: dict[str, tuple[dict[UUID, str], list[Found], dict[str, int]]] = {
    "there": ({EVENT.event_id: "stored"}, [IN_CLOUD], {"accepted": 1, "stored": 1}),
    "there, by a repeated delivery": ({EVENT.event_id: "duplicate"}, [IN_CLOUD], {"accepted": 1, "stored": 1}),
    "never answered and there": ({}, [IN_CLOUD], {"accepted": 1, "stored": 1}),
    "never answered and not there": ({}, [], {}),
    "lost": ({EVENT.event_id: "stored"}, [], {"accepted": 1, "lost": 1}),
    "refused for no reason": ({EVENT.event_id: "rejected"}, [], {"lost": 1}),
    "twice": ({EVENT.event_id: "stored"}, [IN_CLOUD, IN_CLOUD], {"accepted": 1, "stored": 1, "duplicated": 1}),
    "another value": ({EVENT.event_id: "stored"}, [replace(IN_CLOUD, value=4.6)], {"accepted": 1, "altered": 1}),
    "another time": ({EVENT.event_id: "stored"}, [replace(IN_CLOUD, at_us=98)], {"accepted": 1, "altered": 1}),
    "another device": ({EVENT.event_id: "stored"}, [replace(IN_CLOUD, device="x")], {"accepted": 1, "altered": 1}),
    "of nobody": ({}, [Found(uuid4(), "sensor", 99, 1.0)], {"never_sent": 1}),
    "poison refused": ({POISON.event_id: "rejected"}, [], {}),
    "poison accepted": ({POISON.event_id: "stored"}, [], {"altered": 1}),
    "poison in the cloud": ({POISON.event_id: "rejected"}, [Found(POISON.event_id, "sensor", 99)], {"never_sent": 1}),
}


@pytest.mark.parametrize("case", EVENTS)
def test_single_events(case: str) -> None:
    heard, found, expected = EVENTS[case]
    tally = judge_events({EVENT.event_id: EVENT, POISON.event_id: POISON}, heard, found)
    assert counts(tally) == expected
    assert tally.is_clean == (not {*WRONG} & expected.keys())


SESSION, BEGUN = UUID(int=3), UUID(int=4)
IN_FULL = FoundSession(SESSION, "station", "finalized", 84.0, 2)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([IN_FULL], {"stored": 1}),
        ([], {"lost": 1}),
        ([replace(IN_FULL, status="created", weight_kg=None, image_count=None)], {"altered": 1}),
        ([replace(IN_FULL, weight_kg=83.0)], {"altered": 1}),
        ([replace(IN_FULL, image_count=1)], {"altered": 1}),
        ([replace(IN_FULL, device="another")], {"altered": 1}),
        ([IN_FULL, IN_FULL], {"stored": 1, "duplicated": 1}),
        ([IN_FULL, replace(IN_FULL, session=BEGUN, status="created")], {"stored": 1}),
        ([IN_FULL, replace(IN_FULL, session=UUID(int=5))], {"stored": 1, "never_sent": 1}),
    ],
)
def test_weigh_sessions(found: list[FoundSession], expected: dict[str, int]) -> None:
    weighed = {SESSION: Weighed(SESSION, "station", 84.0, [uuid4(), uuid4()])}
    assert counts(judge_sessions(weighed, {SESSION, BEGUN}, found)) == {"accepted": 1} | expected


MEDIA, SILENT = UUID(int=6), UUID(int=7)
SEEN = FoundPicture(MEDIA, SESSION, "stored", "aa")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([SEEN], {"stored": 1}),
        ([], {"lost": 1}),
        ([replace(SEEN, sha256=None)], {"lost": 1}),
        ([replace(SEEN, state="announced")], {"lost": 1}),
        ([replace(SEEN, sha256="bb")], {"altered": 1}),
        ([replace(SEEN, session=BEGUN)], {"altered": 1}),
        ([SEEN, SEEN], {"stored": 1, "duplicated": 1}),
        ([SEEN, replace(SEEN, media=UUID(int=8))], {"stored": 1, "duplicated": 1}),
        ([SEEN, replace(SEEN, media=UUID(int=8), session=BEGUN)], {"stored": 1, "never_sent": 1}),
        ([SEEN, replace(SEEN, media=UUID(int=8), sha256="dd")], {"stored": 1, "never_sent": 1}),
        ([SEEN, FoundPicture(SILENT, SESSION, "stored", "cc")], {"stored": 1}),
    ],
)
def test_pictures(found: list[FoundPicture], expected: dict[str, int]) -> None:
    taken = {MEDIA: Picture(MEDIA, SESSION, "aa"), SILENT: Picture(SILENT, SESSION, "cc")}
    assert counts(judge_pictures(taken, {MEDIA}, found)) == {"accepted": 1} | expected


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
