from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from farmiq.contracts.sync import CloudEpoch
from farmiq.edge.sync_forwarder.cloud_epochs import UNKNOWN, KnownEpoch, Speaker, judge

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FIRST, SECOND = UUID(int=1), UUID(int=2)


@pytest.mark.parametrize(
    ("known", "asked_under", "said", "expected"),
    [
        (UNKNOWN, UNKNOWN, FIRST, Speaker.NEW),
        (KnownEpoch(FIRST, 9), KnownEpoch(FIRST, 3), FIRST, Speaker.SAME),
        (KnownEpoch(FIRST, 9), KnownEpoch(FIRST, 3), SECOND, Speaker.NEW),
        # The known one was heard of while this question was under way: which of the two is older, nobody knows.
        (KnownEpoch(SECOND, 9), KnownEpoch(FIRST, 9), FIRST, Speaker.STALE),
        (KnownEpoch(SECOND, 9), UNKNOWN, FIRST, Speaker.STALE),
    ],
)
def test_who_was_asked_under_the_known_epoch_and_answers_as_another_follows_it(
    known: KnownEpoch, asked_under: KnownEpoch, said: UUID, expected: Speaker
) -> None:
    assert judge(known, asked_under, CloudEpoch(epoch=said, began_at=NOON)) is expected


def test_no_clock_orders_the_epochs_of_a_cloud() -> None:
    """promise-cloud 7, promise-device-edge 12: a restore on a machine with a right clock after one whose clock was ahead."""
    known = KnownEpoch(FIRST, 7)
    said = CloudEpoch(epoch=SECOND, began_at=NOON - timedelta(days=365), resend_since=NOON - timedelta(days=367))
    assert judge(known, known, said) is Speaker.NEW
