"""Whose figures are shown, and how fine. Pure."""

from datetime import timedelta
from typing import Final, Literal

from msgspec import Struct

from farmiq.console.wording import duration

Tier = Literal["cloud", "edge"]
AskedTier = Literal["auto", "cloud", "edge"]

SERVICE_OF: Final[dict[Tier, str]] = {"cloud": "cloud-telemetry-service", "edge": "edge-telemetry-timeseries"}
BEHIND_SECONDS: Final = 60
EDGE_LENGTH_MAX: Final = timedelta(days=7)
"""An edge keeps its samples for a limited time, so for long ranges the cloud knows more even when it is behind."""
RAW_LENGTH_MAX: Final = timedelta(hours=1)
WINDOW_WORDS: Final = {"1m": "one minute", "1h": "one hour", "1d": "one day"}
WINDOW_SECONDS: Final = {"1m": 60.0, "1h": 3600.0, "1d": 86_400.0}


class TierState(Struct, frozen=True, kw_only=True):
    """What the pulse says. `behind_seconds` is the age of the oldest event that waits at the edge; None: not known."""

    has_cloud: bool
    has_edge: bool
    is_cloud_away: bool
    is_edge_away: bool
    behind_seconds: float | None


class Shown(Struct, frozen=True):
    tier: Tier
    note: str


def tier_to_show(asked: AskedTier, state: TierState, length: timedelta) -> Shown:
    if asked != "auto":
        return Shown(asked, f"As the {asked} has it.")
    if not state.has_edge or (state.is_edge_away and not state.is_cloud_away):
        return Shown("cloud", "As the cloud has it.")
    if not state.has_cloud or state.is_cloud_away:
        why = "The cloud does not answer: this" if state.has_cloud else "This"
        return Shown("edge", f"{why} is what the edge has.")
    if state.behind_seconds is None or state.behind_seconds <= BEHIND_SECONDS:
        return Shown("cloud", "As the cloud has it.")
    behind = duration(state.behind_seconds)
    if length <= EDGE_LENGTH_MAX:
        return Shown("edge", f"The cloud is {behind} behind: this is what the edge has.")
    return Shown("cloud", f"As the cloud has it, which is {behind} behind. The newest part is at the edge.")


def is_raw_enough(length: timedelta) -> bool:
    """Short enough to show every reading, unless there are too many of them."""
    return length <= RAW_LENGTH_MAX


def resolution_words(window: str | None) -> str:
    if window is None:
        return "Each point is one reading."
    return f"Each point is the mean of {WINDOW_WORDS.get(window, window)}, at its beginning; the shade is lowest to highest."
