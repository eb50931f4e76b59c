"""How long the station can stay alone until it has to give something up, if animals go on coming as they did of late."""

from datetime import timedelta
from typing import Final

from msgspec import Struct

WINDOW: Final = timedelta(hours=24)
WINDOW_MIN: Final = timedelta(minutes=10)
"""Of a station that has not run for so long, nobody knows how often animals come."""


class Lately(Struct, frozen=True, kw_only=True):
    """What has come in a `window`, and what there is room for."""

    window: timedelta
    events: int
    events_room: int
    picture_bytes: int
    picture_bytes_room: int
    age_room: timedelta
    """Until the oldest that waits has waited too long."""


def runway_of(lately: Lately) -> timedelta | None:
    if lately.window < WINDOW_MIN:
        return None
    windows = [lately.age_room / lately.window]  # a number, because of a large disk no span of time could be made
    if lately.events:
        windows.append(lately.events_room / lately.events)
    if lately.picture_bytes:
        windows.append(lately.picture_bytes_room / lately.picture_bytes)
    return lately.window * max(0.0, min(windows))
