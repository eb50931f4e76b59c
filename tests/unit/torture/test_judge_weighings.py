"""Sessions, pictures and results: whatever differs from the ledger is found."""

from uuid import UUID, uuid4

import pytest

from farmiq.contracts import event_types
from farmiq.timeseries.stream import Origin
from farmiq.torture.judge import Ledger, Tally
from farmiq.torture.judge_weighings import (
    FoundPicture,
    FoundResult,
    FoundSession,
    expected_sessions,
    judge_pictures,
    judge_results,
    judge_sessions,
)
from farmiq.torture.ledger import Picture, Said, Weighed

STATION = Origin("demo", "f", "b", "station")
ELSEWHERE = Origin("demo", "f", "another-barn", "station")
SESSION, BEGUN, MEDIA, SILENT, RESULT = (UUID(int=number) for number in range(3, 8))
LEDGER = Ledger.of(
    [
        Said("station", uuid4(), event_types.SESSION_CREATED, 1, session=SESSION),
        Said("station", uuid4(), event_types.SESSION_FINALIZED, 9, session=SESSION),
        Said("station", uuid4(), event_types.SESSION_CREATED, 2, session=BEGUN),
        Weighed(SESSION, "station", 84.0, [MEDIA, uuid4()]),
    ]
)
IN_FULL = FoundSession(SESSION, STATION, "finalized", 1, 9, "torture", 84.0, 84.0, 2, RESULT)


def counts(tally: Tally) -> dict[str, int]:
    names = (
        "accepted",
        "stored",
        "lost",
        "unexplained",
        "duplicated",
        "altered",
        "never_sent",
        "contradicted",
    )
    return {name: getattr(tally, name) for name in names if getattr(tally, name)}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([IN_FULL], {"stored": 1}),
        ([], {"lost": 1}),
        ([IN_FULL._replace(status="created", final_kg=None, images=None)], {"altered": 1}),
        ([IN_FULL._replace(final_kg=83.0)], {"altered": 1}),
        ([IN_FULL._replace(initial_kg=83.0)], {"altered": 1}),
        ([IN_FULL._replace(images=1)], {"altered": 1}),
        ([IN_FULL._replace(origin=ELSEWHERE)], {"altered": 1}),
        ([IN_FULL._replace(start_us=2)], {"altered": 1}),
        ([IN_FULL._replace(end_us=None)], {"altered": 1}),
        ([IN_FULL._replace(batch=None)], {"altered": 1}),
        ([IN_FULL._replace(inference=None)], {"altered": 1}),
        ([IN_FULL._replace(inference=uuid4())], {"altered": 1}),
        ([IN_FULL, IN_FULL], {"stored": 1, "duplicated": 1}),
        ([IN_FULL, IN_FULL._replace(session=BEGUN, status="created")], {"stored": 1}),
        ([IN_FULL, IN_FULL._replace(session=uuid4())], {"stored": 1, "never_sent": 1}),
    ],
)
def test_weigh_sessions(found: list[FoundSession], expected: dict[str, int]) -> None:
    """promise-cloud 10: start, batch, first weight and result were not compared."""
    sessions = expected_sessions(LEDGER, {"station": STATION}, {MEDIA: {RESULT}})
    assert counts(judge_sessions(sessions, found)) == {"accepted": 1} | expected


def test_a_session_without_a_model_names_no_result() -> None:
    sessions = expected_sessions(LEDGER, {"station": STATION}, {})
    assert judge_sessions(sessions, [IN_FULL._replace(inference=None)]).is_clean
    assert judge_sessions(sessions, [IN_FULL]).altered == 1


SEEN = FoundPicture(MEDIA, STATION, SESSION, "stored", "aa", 7, 5, "image/jpeg")
TAKEN = {MEDIA: Picture(MEDIA, SESSION, "aa", 7, 5), SILENT: Picture(SILENT, SESSION, "cc", 7, 5)}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([SEEN], {"stored": 1}),
        ([], {"lost": 1}),
        ([SEEN._replace(sha256=None)], {"lost": 1}),
        ([SEEN._replace(state="announced")], {"lost": 1}),
        ([SEEN._replace(sha256="bb")], {"altered": 1}),
        ([SEEN._replace(session=BEGUN)], {"altered": 1}),
        ([SEEN._replace(origin=ELSEWHERE)], {"altered": 1}),
        ([SEEN._replace(size_bytes=8)], {"altered": 1}),
        ([SEEN._replace(captured_us=0)], {"altered": 1}),
        ([SEEN._replace(mime="image/png")], {"altered": 1}),
        ([SEEN, SEEN], {"stored": 1, "duplicated": 1}),
        ([SEEN, SEEN._replace(media=uuid4())], {"stored": 1, "duplicated": 1}),
        ([SEEN, SEEN._replace(media=uuid4(), session=BEGUN)], {"stored": 1, "never_sent": 1}),
        ([SEEN, SEEN._replace(media=uuid4(), sha256="dd")], {"stored": 1, "never_sent": 1}),
        ([SEEN, SEEN._replace(media=SILENT, sha256="cc")], {"stored": 1}),
        ([SEEN, SEEN._replace(media=uuid4(), state="presigned", sha256=None)], {"stored": 1}),
    ],
)
def test_pictures(found: list[FoundPicture], expected: dict[str, int]) -> None:
    """promise-cloud 10: when a picture was taken, and of what kind it is, were not compared."""
    assert counts(judge_pictures(TAKEN, {MEDIA}, STATION, found)) == {"accepted": 1} | expected


MADE = FoundResult(RESULT, STATION, SESSION, MEDIA, 84.5, None, 0.9, "v1", 6)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([MADE], {"stored": 1}),
        ([], {"lost": 2}),  # the result, and that of the picture
        ([MADE._replace(weight_kg=80.0)], {"altered": 1}),
        ([MADE._replace(confidence=None)], {"altered": 1}),
        ([MADE._replace(session=None)], {"altered": 1}),
        ([MADE._replace(model="v2")], {"altered": 1}),
        ([MADE._replace(origin=ELSEWHERE)], {"altered": 1}),
        ([MADE, MADE], {"stored": 1, "duplicated": 1}),
        ([MADE, MADE._replace(result=uuid4())], {"stored": 1, "duplicated": 1, "never_sent": 1}),
        ([MADE, MADE._replace(result=uuid4(), media=uuid4())], {"stored": 1, "never_sent": 1}),
    ],
)
def test_results(found: list[FoundResult], expected: dict[str, int]) -> None:
    """promise-cloud 10: inference was not read at all."""
    accepted = {MEDIA: TAKEN[MEDIA]}
    assert counts(judge_results(accepted, set(TAKEN), [MADE], found, 1)) == {"accepted": 1} | expected


def test_without_a_model_nobody_looks_at_a_picture() -> None:
    assert judge_results({MEDIA: TAKEN[MEDIA]}, set(TAKEN), [], [], 0).is_clean
    assert judge_results({MEDIA: TAKEN[MEDIA]}, set(TAKEN), [], [], 1).lost == 1


def test_a_result_for_another_session_than_its_picture_is_wrong_at_the_edge_too() -> None:
    wrong = MADE._replace(session=BEGUN)
    assert judge_results({MEDIA: TAKEN[MEDIA]}, set(TAKEN), [wrong], [wrong], 1).altered == 1
