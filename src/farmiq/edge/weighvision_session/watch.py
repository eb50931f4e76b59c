"""When a session is late, and when the cloud is told how it ended.

Everything here goes by the edge's clock and by when things came in, never by the station's times: a station that was offline for
a day hands in old events, and nobody was late with them.
"""

from datetime import datetime, timedelta
from typing import Final

import msgspec

from farmiq.edge.weighvision_session.ending import Told, digest_of
from farmiq.edge.weighvision_session.session import Session
from farmiq.kit.due_times import DELAY_SECONDS_MAX

CLOCK_SLACK: Final = timedelta(minutes=1)
"""Between the clocks of replicas, and as a time server corrects them."""
LOOK_AGAIN: Final = timedelta(seconds=DELAY_SECONDS_MAX)
"""However long a session still has: no due time lies further ahead."""


class Patience(msgspec.Struct, frozen=True):
    incomplete: timedelta
    """How long pictures, or the end of the session, may be outstanding."""
    settle: timedelta
    """How long the news of the end waits for pictures and inference, so that the cloud is told once."""
    unbound: timedelta
    """How long pictures may be there of a session that nobody has spoken of: a station without MQTT uploads them all the same."""

    @property
    def longest(self) -> timedelta:
        return max(self.incomplete, self.settle, self.unbound)


class Heard(msgspec.Struct, frozen=True):
    """When the edge heard of a session: first, last, and of its end."""

    first_at: datetime
    last_at: datetime
    ended_at: datetime | None = None

    def as_of(self, now: datetime, patience: Patience) -> "Heard":
        """What was heard later than now was heard by a clock that was ahead, and how long ago nobody knows: every wait that began
        with it is over."""
        latest, long_ago = now + CLOCK_SLACK, now - patience.longest
        return Heard(
            long_ago if self.first_at > latest else self.first_at,
            long_ago if self.last_at > latest else self.last_at,
            long_ago if self.ended_at is not None and self.ended_at > latest else self.ended_at,
        )


class Judgement(msgspec.Struct, frozen=True):
    incomplete_since: datetime | None
    is_to_be_told: bool
    look_at: datetime | None
    """When to look again although nothing new came. None: not before something does."""


def judge(
    session: Session,
    heard: Heard,
    incomplete_since: datetime | None,
    told: Told | None,
    now: datetime,
    patience: Patience,
) -> Judgement:
    heard = heard.as_of(now, patience)
    late_at = overdue_at(session, heard, patience)
    tell_at = telling_at(session, heard, told, now, patience)
    is_late = late_at is not None and late_at <= now
    waits = [at for at in (late_at, tell_at) if at is not None and at > now]
    return Judgement(
        incomplete_since=(incomplete_since or late_at) if is_late else None,
        is_to_be_told=tell_at is not None and tell_at <= now,
        look_at=min([*waits, now + LOOK_AGAIN]) if waits else None,
    )


def overdue_at(session: Session, heard: Heard, patience: Patience) -> datetime | None:
    """From when on the session is incomplete. None: nothing is outstanding.

    As long as there is nothing but pictures, the station's words may be waiting on its disk for days. After its first word: until
    the first picture is stored it counts from the first word about the session; then from its end; and while nobody has
    ended it, from the last word.
    """
    if not session.is_awaited:
        return None
    if session.is_unheard_of:
        return heard.last_at + patience.unbound
    if session.pictures_stored == 0:
        return heard.first_at + patience.incomplete
    return (heard.ended_at or heard.last_at) + patience.incomplete


def telling_at(session: Session, heard: Heard, told: Told | None, now: datetime, patience: Patience) -> datetime | None:
    """When the cloud is to be told how the session ended. None: it has not, or the cloud knows."""
    if session.ended is None or (told is not None and told.digest == digest_of(session)):
        return None
    if told is not None or session.is_settled:
        return now
    return (heard.ended_at or heard.last_at) + patience.settle
