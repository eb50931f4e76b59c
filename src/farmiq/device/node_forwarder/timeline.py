"""When something happened, from the time since the start of the machine and a few anchors: moments at which the true time was
known.

A boot's time since its start runs on whatever is done to the wall clock. It is only too fast or too slow, by a rate that stays
nearly the same: about 0.01 % for a cheap crystal. Between two anchors of a boot that rate is known; beyond them it is that of the
boot, or of an earlier boot of the same machine. Pure, and in microseconds.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from farmiq.contracts.telemetry import DRIFT_PPB_MAX, SHIFT_US_MAX, T_MAX_US, T_MIN_US, TimeSegment
from farmiq.spool import Frame

ANCHORS_MAX: Final = 64
SLOT_US: Final = 300_000_000
"""One anchor is kept for each such time: the best of them."""
RATE_MAX: Final = 500e-6
"""No crystal is that far off. Anchors that say so contradict each other."""
UNKNOWN_RATE: Final = 200e-6
RATE_BASELINE_US: Final = 600_000_000
WANDER: Final = 1e-6
"""How much a rate changes by itself, with the temperature."""
TOLERANCE_US: Final = 50_000
"""A clock that is wrong by less than this is right."""
SEGMENT_US: Final = 1_000
"""As exact as corrections are written down."""


class Anchor(msgspec.Struct, frozen=True, array_like=True):
    """At this time since the start of the machine it was `true_us`, give or take. `quality`: of the clock that said so, as in a
    batch. `is_own`: of this machine's clock, while a time service kept it right; else of the edge's."""

    monotonic_us: int
    true_us: int
    uncertainty_us: int
    quality: int
    is_own: bool = False

    @property
    def offset_us(self) -> int:
        return self.true_us - self.monotonic_us


class Rate(NamedTuple):
    """How much true time passes in a second since the start of the machine, less one."""

    value: float
    uncertainty: float


class Estimate(NamedTuple):
    true_us: int
    uncertainty_us: float
    rate: float


class Boot:
    """The anchors of one boot, in order, all from clocks of one quality. Few: old ones are thinned out."""

    def __init__(self, anchors: Iterable[Anchor] = ()) -> None:
        self.anchors = sorted(anchors, key=lambda anchor: anchor.monotonic_us)
        self._doubtful: Anchor | None = None

    def add(self, anchor: Anchor) -> bool:
        """Whether it is used. The word of a better clock replaces that of worse ones, and theirs does not count any more. One
        that contradicts the last one waits for another that agrees with it: then it is the earlier ones that were wrong."""
        if self.anchors and anchor.quality != self.anchors[-1].quality:
            if anchor.quality < self.anchors[-1].quality:
                return False
            self.anchors, self._doubtful = [], None
        if self.anchors and not _agree(self.anchors[-1], anchor):
            doubtful, self._doubtful = self._doubtful, anchor
            if doubtful is None or not _agree(doubtful, anchor):
                return False
            self.anchors = [one for one in self.anchors if _agree(one, anchor)]
        self._doubtful = None
        if self.anchors and anchor.monotonic_us // SLOT_US == self.anchors[-1].monotonic_us // SLOT_US:
            return self._improve(anchor)
        self.anchors.append(anchor)
        if len(self.anchors) > ANCHORS_MAX:
            self.anchors = [*self.anchors[:-1:2], self.anchors[-1]]
        return True

    def _improve(self, anchor: Anchor) -> bool:
        last = self.anchors[-1]
        if anchor.uncertainty_us > last.uncertainty_us + UNKNOWN_RATE * (anchor.monotonic_us - last.monotonic_us):
            return False
        self.anchors[-1] = anchor
        return True

    @property
    def rate(self) -> Rate | None:
        """None while the anchors are too close to each other to say."""
        anchors = self.anchors
        span_us = anchors[-1].monotonic_us - anchors[0].monotonic_us if anchors else 0
        if span_us < RATE_BASELINE_US:
            return None
        uncertainty_us = anchors[0].uncertainty_us + anchors[-1].uncertainty_us
        return Rate((anchors[-1].offset_us - anchors[0].offset_us) / span_us, uncertainty_us / span_us + WANDER)

    @property
    def is_undisciplined(self) -> bool:
        """No time service has changed how fast its clock runs, so the rate is the crystal's."""
        return not any(anchor.is_own for anchor in self.anchors)


class Timeline:
    """The true time of one boot. `crystal` is the rate that earlier boots of the machine showed."""

    def __init__(self, boot: Boot, crystal: Rate | None = None) -> None:
        self._anchors = list(boot.anchors)
        self._times = [anchor.monotonic_us for anchor in self._anchors]
        rates = [rate for rate in (boot.rate, crystal if boot.is_undisciplined else None) if rate is not None]
        self._rate = min(rates, key=lambda rate: rate.uncertainty, default=Rate(0.0, UNKNOWN_RATE))

    def at(self, monotonic_us: int) -> Estimate | None:
        """None without any anchor."""
        if not self._anchors:
            return None
        place = bisect_right(self._times, monotonic_us)
        if 0 < place < len(self._anchors):
            before, after = self._anchors[place - 1], self._anchors[place]
            rate = (after.offset_us - before.offset_us) / (after.monotonic_us - before.monotonic_us)
            return _from(before, monotonic_us, rate, max(before.uncertainty_us, after.uncertainty_us))
        nearest = self._anchors[max(place - 1, 0)]
        away_us = abs(monotonic_us - nearest.monotonic_us)
        return _from(nearest, monotonic_us, self._rate.value, nearest.uncertainty_us + self._rate.uncertainty * away_us)


def crystal_of(boots: Iterable[Boot]) -> Rate | None:
    """The rate of the machine's crystal, as the boot shows it that knows it best."""
    rates = [boot.rate for boot in boots if boot.is_undisciplined]
    return min((rate for rate in rates if rate is not None), key=lambda rate: rate.uncertainty, default=None)


def correction_of(timeline: Timeline, frames: Sequence[Frame], offset: int = 0) -> list[TimeSegment] | UnsetType:
    """How the wall times of these frames, which are of one boot, are to be corrected. UNSET where they are right as far as is
    known. A frame's sequence less `offset` is its number in its stream."""
    if not any(_is_wrong(frame, timeline.at(frame.monotonic_us)) for frame in frames):
        return UNSET
    segments: list[TimeSegment] = []
    for frame in frames:
        estimate = timeline.at(frame.monotonic_us)
        if estimate is None or not T_MIN_US <= estimate.true_us <= T_MAX_US:
            return UNSET
        if segments and abs(segments[-1].corrected(frame.wall_us) - estimate.true_us) <= SEGMENT_US:
            continue
        shift_us, drift_ppb = estimate.true_us - frame.wall_us, round(estimate.rate * 1_000_000_000)
        if abs(shift_us) > SHIFT_US_MAX or abs(drift_ppb) > DRIFT_PPB_MAX:
            return UNSET
        segments.append(TimeSegment(frame.seq - offset, frame.wall_us, shift_us, drift_ppb))
    return segments


def _is_wrong(frame: Frame, estimate: Estimate | None) -> bool:
    """By more than we can be ourselves."""
    return estimate is not None and abs(estimate.true_us - frame.wall_us) > max(TOLERANCE_US, estimate.uncertainty_us)


def _from(anchor: Anchor, monotonic_us: int, rate: float, uncertainty_us: float) -> Estimate:
    passed_us = monotonic_us - anchor.monotonic_us
    return Estimate(anchor.true_us + passed_us + round(passed_us * rate), uncertainty_us, rate)


def _agree(one: Anchor, other: Anchor) -> bool:
    room_us = one.uncertainty_us + other.uncertainty_us + RATE_MAX * abs(other.monotonic_us - one.monotonic_us)
    return abs(other.offset_us - one.offset_us) <= room_us
