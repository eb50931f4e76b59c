"""The databases of a farm at rest, corrupted one row at a time: each corruption is found, and where it is.

The short form does some, of all tables. The long form does all of them: `FARMIQ_CORRUPTIONS=FILE make test-long
ARGS=tests/e2e/test_audit_corruptions.py` also writes a row of a table for each, with what found it."""

import asyncio
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from e2e.farm import Farm
from farmiq.stack.demo_farm import STATION_ID
from support.corrupted_farm import NODE, STATION, Outcome, audited_farm, login_of, speak
from support.corruptions import Corruption, corruptions
from support.waiting import wait_for

SEED = 7
SHORT = 16
COMPLETE = """
    SELECT count(*) >= 2 AS are_complete FROM weight_sessions AS session
     WHERE device_id = $1 AND status = 'finalized' AND inference_result_id IS NOT NULL
       AND image_count = (SELECT count(*) FROM media_objects AS stored
                           WHERE stored.session_id = session.id AND stored.state = 'stored')
"""

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def resting(farm: Farm) -> Iterator[Farm]:
    """With every kind of row, and with nobody who measures or weighs any longer."""
    logins = {
        NODE: login_of(farm.command("device", "add", NODE, "--json").stdout),
        STATION: login_of(farm.command("device", "add", STATION, "--kind", "weigh-station", "--json").stdout),
    }
    speak(logins, datetime.now(UTC))
    # As if they had been there all the time: what the cloud has of a device from before is not missed at the edge.
    farm.fetch("edge", "UPDATE devices SET created_at = created_at - interval '60 days' RETURNING device_id")
    wait_for(
        lambda: all(farm.fetch(tier, COMPLETE, STATION_ID)[0]["are_complete"] for tier in ("edge", "cloud")),
        300,
        "two animals that were weighed",
    )
    with farm.stopped("node-agent"), farm.stopped("weighvision-agent"):
        yield farm


def found(farm: Farm, chosen: list[Corruption]) -> list[Outcome]:
    async def run() -> list[Outcome]:
        async with audited_farm(farm.environment()) as audited:
            await audited.until_at_rest()
            outcomes = [await audited.outcome(one) for one in chosen]
            assert (await audited.audit(is_deep=True)).findings == []
        return [one for one in outcomes if one is not None]

    return asyncio.run(run())


@pytest.mark.parametrize(
    "count",
    [SHORT, pytest.param(None, marks=pytest.mark.long(reason="every corruption takes seconds"), id="all")],
)
def test_every_corruption_of_a_farm_is_found_where_it_is(resting: Farm, count: int | None) -> None:
    """promise-cloud 4; issue 18, 7."""
    everything = corruptions(SEED)
    step = 1 if count is None else len(everything) // count
    outcomes = found(resting, everything[::step])
    page = os.environ.get("FARMIQ_CORRUPTIONS")
    if page is not None:
        Path(page).write_text("\n".join(map(line_of, outcomes)) + "\n")
    assert len(outcomes) >= (count or 100)
    assert [line_of(one) for one in outcomes if not one.is_found] == []
    # What a tier's databases show by themselves is found without reading every row.
    assert [one.corruption.name for one in outcomes if one.is_deep and not one.corruption.needs_deep] == []


def line_of(outcome: Outcome) -> str:
    how = "`--deep`" if outcome.is_deep else ""
    kind = f"`{outcome.named.kind}`" if outcome.named else "not found"
    return f"| {outcome.corruption.name} | {kind} | {how} |"
