from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from farmiq.contracts.sync import CloudLife
from farmiq.edge.sync_forwarder.cloud_lives import KnownLife, Speaker, heard

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FIRST, SECOND = UUID(int=1), UUID(int=2)


@pytest.mark.parametrize(
    ("known", "said", "expected"),
    [
        (KnownLife(None, None), CloudLife(epoch=FIRST, began_at=NOON), Speaker.NEW),
        (KnownLife(FIRST, NOON), CloudLife(epoch=FIRST, began_at=NOON), Speaker.SAME),
        (KnownLife(FIRST, NOON), CloudLife(epoch=SECOND, began_at=NOON + timedelta(seconds=1)), Speaker.NEW),
        (KnownLife(SECOND, NOON), CloudLife(epoch=FIRST, began_at=NOON - timedelta(days=9)), Speaker.DEAD),
    ],
)
def test_the_life_that_began_last_is_believed(known: KnownLife, said: CloudLife, expected: Speaker) -> None:
    assert heard(known, said) is expected
