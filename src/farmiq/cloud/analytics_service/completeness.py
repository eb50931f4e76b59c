"""Whether the day is all there: which hours of which series have a sample, and what was declared lost."""

from collections.abc import Sequence

import numpy as np

from farmiq.cloud.analytics_service.days import Flags, Window
from farmiq.cloud.analytics_service.inputs import BarnDay, Loss, Track
from farmiq.cloud.analytics_service.kpis import Data


def data_of(window: Window, tracks: Sequence[Track], rows: BarnDay) -> Data | None:
    """A series is expected from its first hour in the window on, and up to its last one where its device has left the barn.

    None when nothing was expected and nothing came.
    """
    is_due, kept = window.is_today & window.ended_by(rows.now), rows.kept
    expected = present = samples = 0
    for track in tracks:
        expected += int((is_due & _lifetime(track, rows.left)).sum())
        present += int((is_due & track.is_present).sum())
        samples += int(np.nansum(track.count[window.is_today]))
    lost = lost_on(window, rows.losses)
    if not (expected or samples or lost or (kept and (kept.stored or kept.missing))):
        return None
    return Data(
        series=len(tracks),
        hours_expected=expected,
        hours_present=present,
        samples=samples,
        samples_declared_lost=lost,
        completeness=present / expected if expected else None,
        samples_stored=None if kept is None else kept.stored,
        samples_missing=None if kept is None else kept.missing,
    )


def _lifetime(track: Track, left: frozenset[str]) -> Flags:
    since_first = np.logical_or.accumulate(track.is_present)
    if track.series.device_id not in left:
        return since_first
    return np.asarray(since_first & np.logical_or.accumulate(track.is_present[::-1])[::-1])


def lost_on(window: Window, losses: Sequence[Loss]) -> int:
    """A loss over several days is shared out by time."""
    start_at, end_at = window.calendar.bounds(window.day)
    total = 0.0
    for loss in losses:
        seconds = (loss.last_at - loss.first_at).total_seconds()
        if seconds == 0:
            total += loss.samples * (start_at <= loss.first_at < end_at)
        else:
            inside = (min(loss.last_at, end_at) - max(loss.first_at, start_at)).total_seconds()
            total += loss.samples * max(inside, 0.0) / seconds
    return round(total)
