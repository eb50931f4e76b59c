"""Whose figures are shown."""

from datetime import timedelta

import msgspec
import pytest

from farmiq.console.curves.choosing import TierState, is_raw_enough, resolution_words, tier_to_show

HOUR, MONTH = timedelta(hours=1), timedelta(days=31)
WELL = TierState(has_cloud=True, has_edge=True, is_cloud_away=False, is_edge_away=False, behind_seconds=0.0)


def state(**changed: object) -> TierState:
    return msgspec.structs.replace(WELL, **changed)


@pytest.mark.parametrize(
    ("found", "length", "tier", "said"),
    [
        (WELL, HOUR, "cloud", "As the cloud has it."),
        (state(behind_seconds=None), HOUR, "cloud", "As the cloud has it."),
        (state(behind_seconds=600.0), HOUR, "edge", "The cloud is 10 min behind: this is what the edge has."),
        (state(behind_seconds=600.0), MONTH, "cloud", "which is 10 min behind. The newest part is at the edge."),
        (state(is_cloud_away=True), MONTH, "edge", "The cloud does not answer: this is what the edge has."),
        (state(has_cloud=False), HOUR, "edge", "This is what the edge has."),
        (state(has_edge=False, is_cloud_away=True), HOUR, "cloud", "As the cloud has it."),
        (state(is_edge_away=True, behind_seconds=600.0), HOUR, "cloud", "As the cloud has it."),
    ],
)
def test_the_cloud_is_shown_unless_the_edge_knows_more(
    found: TierState, length: timedelta, tier: str, said: str
) -> None:
    shown = tier_to_show("auto", found, length)
    assert shown.tier == tier
    assert said in shown.note


def test_who_asks_for_a_tier_gets_that_tier() -> None:
    assert tier_to_show("edge", WELL, MONTH).tier == "edge"
    assert tier_to_show("cloud", state(is_cloud_away=True), HOUR).tier == "cloud"


def test_short_ranges_show_readings_and_long_ones_means() -> None:
    assert is_raw_enough(timedelta(minutes=15))
    assert not is_raw_enough(timedelta(hours=6))
    assert resolution_words(None) == "Each point is one reading."
    assert "mean of one hour" in resolution_words("1h")
