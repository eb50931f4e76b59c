"""Where each picture of a session is, and where the others would have to be looked for."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from farmiq.console.weighings.answers import CloudPicture, EdgePicture, Transfer
from farmiq.console.weighings.whereabouts import NOT_HEARD_OF, Sources, pictures_shown, sentence_of, where_is

START = datetime(2026, 11, 16, 12, tzinfo=UTC)
BOTH, NO_EDGE, NO_CLOUD = (
    Sources(edge=True, cloud=True),
    Sources(edge=False, cloud=True),
    Sources(edge=True, cloud=False),
)


def media(number: int) -> UUID:
    return UUID(int=number)


def at_edge(where: str, number: int = 1, **fields: Any) -> EdgePicture:
    taken_at = START + timedelta(seconds=number)
    return EdgePicture(media_id=media(number), where=where, captured_at=taken_at, size_bytes=100, **fields)


def transfer(state: Any, number: int = 1, attempts: int = 0, **fields: Any) -> Transfer:
    return Transfer(media_id=media(number), state=state, attempt_count=attempts, next_attempt_at=START, **fields)


def in_cloud(state: str, number: int = 1) -> CloudPicture:
    return CloudPicture(media(number), state, START + timedelta(seconds=number), 100)


@pytest.mark.parametrize(
    ("edge", "way", "cloud", "sources", "place", "kind", "said"),
    [
        (at_edge("stored"), transfer("sent"), in_cloud("stored"), BOTH, "cloud", "good", "in the cloud"),
        (None, None, in_cloud("stored"), NO_EDGE, "cloud", "good", "in the cloud"),
        (at_edge("deleted"), None, in_cloud("stored"), BOTH, "cloud", "good", "in the cloud"),
        (at_edge("stored"), None, None, BOTH, "edge", "busy", "in the edge, not yet in the cloud"),
        (at_edge("stored"), transfer("pending"), in_cloud("announced"), BOTH, "edge", "busy", "it waits for its turn"),
        (at_edge("stored"), transfer("pending", attempts=3, last_error_code="HTTP_500"), None, BOTH, "edge", "warn",
         "3 attempts so far, last HTTP_500"),
        (at_edge("stored"), transfer("sending"), None, BOTH, "edge", "busy", "on its way to the cloud now"),
        (at_edge("stored"), transfer("failed", attempts=10, last_error_code="HTTP_422", last_error_message="bad type"), None,
         BOTH, "edge", "bad", "given up after 10 attempts (HTTP_422: bad type). Redrive it on the page Sync"),
        (at_edge("stored"), transfer("sent"), in_cloud("missing"), BOTH, "edge", "warn", "the cloud had it and lost it"),
        (at_edge("stored"), transfer("sent"), None, BOTH, "edge", "busy", "the cloud has not counted it yet"),
        (at_edge("stored"), transfer("sent"), None, NO_CLOUD, "edge", "good", "sent to the cloud, which does not answer"),
        (at_edge("stored"), None, None, NO_CLOUD, "edge", "busy", "(the cloud does not answer)"),
        (at_edge("not_announced"), None, None, BOTH, "station", "busy", "on the station"),
        (at_edge("not_verified"), None, None, BOTH, "edge", "busy", "the edge has not looked at it yet"),
        (at_edge("not_uploaded"), None, in_cloud("unknown"), BOTH, "station", "warn",
         "announced by the station, upload not seen yet"),
        (at_edge("missing"), None, None, BOTH, "nowhere", "bad", "never came"),
        (at_edge("refused", reason="not_a_picture"), None, None, BOTH, "nowhere", "bad", "was refused: not_a_picture"),
        (at_edge("deleted"), None, None, BOTH, "nowhere", "bad", "removed from the edge after its time, and not in the cloud"),
        (at_edge("deleted"), None, None, NO_CLOUD, "unknown", "none", "the cloud does not answer"),
        (None, None, in_cloud("announced"), NO_EDGE, "unknown", "warn", "the edge, which would know more, does not answer"),
        (None, None, in_cloud("missing"), BOTH, "nowhere", "bad", "the edge does not have it any more"),
        (None, None, in_cloud("unknown"), BOTH, "unknown", "warn", "the edge does not know of it any more"),
    ],
)  # fmt: skip
def test_where_a_picture_is(
    edge: EdgePicture | None,
    way: Transfer | None,
    cloud: CloudPicture | None,
    sources: Sources,
    place: str,
    kind: str,
    said: str,
) -> None:
    found = where_is(edge, way, cloud, sources)
    assert (found.place, found.kind) == (place, kind)
    assert said in found.sentence


def test_only_what_is_stored_can_be_looked_at() -> None:
    assert where_is(at_edge("stored"), None, None, BOTH).is_visible
    assert where_is(None, None, in_cloud("stored"), BOTH).is_visible
    for where in ("not_announced", "not_verified", "not_uploaded", "missing", "refused", "deleted"):
        assert not where_is(at_edge(where), None, None, BOTH).is_visible


def test_pictures_are_numbered_as_they_were_taken_and_those_nobody_heard_of_come_last() -> None:
    edge = [at_edge("not_uploaded", 3), at_edge("stored", 1)]
    shown = pictures_shown(edge, [transfer("sent", 1)], [in_cloud("stored", 1), in_cloud("stored", 2)], 5, BOTH)
    assert [(one.number, one.media_id, one.where.place) for one in shown] == [
        (1, media(1), "cloud"),
        (2, media(2), "cloud"),
        (3, media(3), "station"),
        (4, None, "station"),
        (5, None, "station"),
    ]
    assert shown[3].where == NOT_HEARD_OF


def test_the_sentence_says_how_many_are_expected_and_where_each_absent_one_is() -> None:
    edge = [at_edge("stored", 1), at_edge("stored", 2), at_edge("stored", 3), at_edge("not_uploaded", 4)]
    shown = pictures_shown(edge, [], [], 4, BOTH)
    assert sentence_of(4, shown) == (
        "Expected 4, present 3; picture 4: announced by the station, upload not seen yet: on the station."
    )


def test_before_the_end_nobody_knows_how_many_there_will_be() -> None:
    shown = pictures_shown([at_edge("stored", 1)], [], [], None, BOTH)
    assert sentence_of(None, shown) == "How many there will be is not known yet, present 1."


def test_more_pictures_than_were_counted_are_all_shown() -> None:
    shown = pictures_shown([at_edge("stored", 1), at_edge("stored", 2)], [], [], 1, BOTH)
    assert len(shown) == 2
