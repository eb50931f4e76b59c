"""What a chart shades: asked over HTTP on the edge's service."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID, uuid4

import msgspec
import pytest
import pytest_asyncio

from farmiq.kit.postgres import Pool
from farmiq.timeseries.admission import admit_batches, declare_lost
from farmiq.timeseries.samples import StreamBatch
from farmiq.timeseries.spans import PROBES
from support.query_api import QueryApi, query_api
from support.telemetry import HERE, START_US, batch_of, loss_of

STREAM = UUID("00000000-0000-7000-8000-0000000000aa")
START = datetime.fromtimestamp(START_US / 1e6, UTC)
RANGE = {"from": START.isoformat(), "to": (START + timedelta(seconds=PROBES)).isoformat()}


def time_of(seq: int) -> datetime:
    """Parts of the range are a second each, and so are samples: sample n is the n-th part."""
    return START + timedelta(seconds=seq)


@pytest_asyncio.fixture
async def api(edge_url: str, edge_pool: Pool) -> AsyncIterator[QueryApi]:
    """Stored within 100 s: 1..99, 301..400. Stored an hour later: 100..199. Declared lost: 201..250. Missing: 200, 251..300."""
    async with edge_pool.acquire() as connection, connection.transaction():
        for first, last, delay in [(1, 99, 1), (301, 400, 1), (100, 199, 3600)]:
            batch = StreamBatch(HERE, batch_of(STREAM, first, last))
            await admit_batches(connection, [batch], time_of(last) + timedelta(seconds=delay))
        loss = loss_of(STREAM, 201, 250)
        timed = msgspec.structs.replace(loss, first_ts=time_of(201), last_ts=time_of(250), dropped_at=time_of(900))
        await declare_lost(connection, HERE, uuid4(), timed)
    async with query_api(edge_url) as found:
        yield found


async def ask(api: QueryApi, **more: Any) -> dict[str, Any]:
    return cast(
        "dict[str, Any]",
        await api.get("/api/v1/telemetry/spans", tenant_id="demo", device_id="node-1", **{**RANGE, **more}),
    )


def seqs(span: dict[str, Any]) -> tuple[int, int]:
    ends = [datetime.fromisoformat(span[name]) for name in ("first_at", "last_at")]
    return int((ends[0] - START).total_seconds()), int((ends[1] - START).total_seconds())


async def test_what_was_declared_lost_has_its_times_and_its_reason(api: QueryApi) -> None:
    (lost,) = (await ask(api))["lost"]
    assert (seqs(lost), lost["samples"], lost["reason"]) == ((201, 250), 50, "spool_cap")


async def test_what_is_missing_lies_between_the_samples_on_either_side(api: QueryApi) -> None:
    answer = await ask(api)
    assert [(seqs(gap), gap["samples"]) for gap in answer["missing"]] == [((199, 199), 1), ((301, 301), 50)]
    assert answer["undated"] == 0


async def test_what_came_late_is_one_span_with_how_late(api: QueryApi) -> None:
    (late,) = (await ask(api, late_seconds=300))["late"]
    assert (seqs(late), late["delay_seconds"]) == ((100, 200), 3699.0)


async def test_what_counts_as_late_is_the_callers_to_say(api: QueryApi) -> None:
    assert (await ask(api, late_seconds=7200))["late"] == []
    assert [seqs(late) for late in (await ask(api, late_seconds=50))["late"]] == [(1, 50), (100, 200), (301, 351)]


async def test_a_range_without_any_of_it_has_no_spans(api: QueryApi) -> None:
    later = {"from": time_of(5000).isoformat(), "to": time_of(6000).isoformat()}
    assert await ask(api, **later) == {"lost": [], "missing": [], "late": [], "undated": 0}


@pytest.mark.parametrize("given", [{"device_id": "a/b"}, {"late_seconds": 0}, {"from": "2026-01-01T00:00:00"}])
async def test_a_wrong_question_is_refused(api: QueryApi, given: dict[str, Any]) -> None:
    question = {"tenant_id": "demo", "device_id": "node-1", **RANGE, **given}
    assert (await api.ask("/api/v1/telemetry/spans", **question))[0] == 400


async def test_another_tenants_device_has_none(api: QueryApi) -> None:
    answer = await api.get("/api/v1/telemetry/spans", tenant_id="other", device_id="node-1", **RANGE)
    assert answer == {"lost": [], "missing": [], "late": [], "undated": 0}
