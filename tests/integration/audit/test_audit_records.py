"""Weights, results of models and losses that say something else in the cloud than at the edge are found and named."""

from collections.abc import AsyncIterator, Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import aiohttp
import pytest
import pytest_asyncio

from farmiq.audit.findings import Finding
from farmiq.audit.records import CLOUD, KINDS, Asked, balance_records, read_records
from farmiq.audit.streams import BusRoom
from farmiq.console.neighbours import Neighbours
from farmiq.edge.vision_inference.store import RESULTS
from farmiq.edge.weighvision_session.questions import CAPTURED_IMAGES, RECORDED_WEIGHTS
from farmiq.kit.http_server import require_bearer, serve_http
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.postgres import Pool
from farmiq.kit.settings import HttpSettings, load
from farmiq.timeseries.record_routes import measured_record_routes, record_routes
from support.cloud_queries import cloud_api
from support.query_api import TOKEN
from support.service_process import running

DAY = datetime(2026, 11, 3, 9, tzinfo=UTC)
SESSION, STREAM, WEIGHED, SEEN, LOST = (UUID(int=number) for number in range(1, 6))
EDGE_WEIGHT = """
    INSERT INTO session_weights (tenant_id, session_id, event_id, occurred_at, weight_kg)
    VALUES ('demo', $1, $2, $3, 0.1::float8 + 0.2)
"""
CLOUD_WEIGHT = """
    INSERT INTO recorded_weights (tenant_id, device_id, session_id, event_id, occurred_at, weight_kg, received_at)
    VALUES ('demo', 'station-1', $1, $2, $3, 0.1::float8 + 0.2, $3)
"""
SESSION_ROW = """
    INSERT INTO weight_sessions (id, tenant_id, farm_id, barn_id, device_id, status)
    VALUES ($1, 'demo', 'farm-1', 'barn-1', 'station-1', 'created')
"""
RESULT = """
    INSERT INTO inference_results (id, tenant_id, farm_id, barn_id, device_id, media_id, predicted_weight_kg, confidence,
                                   model_version, occurred_at)
    VALUES ($1, 'demo', 'farm-1', 'barn-1', 'station-1', $2, 87.1, 0.9, 'v1', $3)
"""
LOSS = """
    INSERT INTO stream_losses (event_id, tenant_id, farm_id, barn_id, device_id, stream_id, first_seq, last_seq, count, first_ts,
                               reason, dropped_at)
    VALUES ($1, 'demo', 'farm-1', 'barn-1', 'node-1', $2, 11, 20, 10, $3, 'spool_cap', $3)
"""


class Records:
    def __init__(self, edge: Pool, cloud: Pool, neighbours: Neighbours) -> None:
        self.edge = edge
        self.cloud = cloud
        self.neighbours = neighbours
        self.notes: list[str] = []

    async def findings(
        self, waiting: Collection[UUID] = (), recent: Collection[UUID] = (), bus: int = 0
    ) -> list[Finding]:
        query = {
            "tenant_id": "demo",
            "device_id": None,
            "from": (DAY - timedelta(days=9)).isoformat(),
            "to": (DAY + timedelta(days=9)).isoformat(),
        }
        asked = Asked(query, {"node-1": DAY - timedelta(days=8), "station-1": None}, DAY + timedelta(days=9))
        readings = await read_records(self.neighbours, asked, frozenset(waiting), frozenset(recent), self.notes)
        return balance_records("demo", readings, BusRoom(bus))


@pytest_asyncio.fixture
async def records(edge_pool: Pool, cloud_pool: Pool, cloud_url: str) -> AsyncIterator[Records]:
    """What a farm has that is at rest. The services of the edge are one here: they share its database."""
    media_id = uuid4()
    await edge_pool.execute(SESSION_ROW, SESSION)
    for pool, weight in ((edge_pool, EDGE_WEIGHT), (cloud_pool, CLOUD_WEIGHT)):
        await pool.execute(weight, SESSION, WEIGHED, DAY)
        await pool.execute(RESULT, SEEN, media_id, DAY) if pool is edge_pool else await pool.execute(
            RESULT.replace("(id,", "(id, event_id,").replace("($1,", "($1, $1,"), SEEN, media_id, DAY
        )
        await pool.execute(LOSS, LOST, STREAM, DAY)

    async def serve(environ: Mapping[str, str], life: Lifetime) -> None:
        guards = [require_bearer(TOKEN)]
        handlers: list[Any] = [
            *measured_record_routes(edge_pool, guards),
            *record_routes(
                edge_pool, guards, {"weights": RECORDED_WEIGHTS, "results": RESULTS, "images": CAPTURED_IMAGES}
            ),
        ]
        await serve_http(life, load(HttpSettings, environ), handlers)

    async with (
        running(serve, "edge-telemetry-timeseries", {}) as url,
        cloud_api(cloud_url) as cloud,
        aiohttp.ClientSession() as session,
    ):
        addresses = {kind.source: url for kind in KINDS} | {CLOUD: cloud._url}
        yield Records(edge_pool, cloud_pool, Neighbours(session, addresses, {"edge": TOKEN, "cloud": TOKEN}))


async def test_a_farm_at_rest_has_the_same_records_at_both_tiers(records: Records) -> None:
    assert await records.findings() == []
    assert records.notes == []


@pytest.mark.parametrize(
    ("change", "named", "words"),
    [
        (
            "UPDATE recorded_weights SET weight_kg = 0.3",
            WEIGHED,
            f"0.30000000000000004 kg in session {SESSION} at 2026-11-03 09:00:00.000000 at the edge",
        ),
        ("UPDATE recorded_weights SET occurred_at = occurred_at + interval '1 us'", WEIGHED, "recorded weight"),
        (
            "UPDATE recorded_weights SET session_id = event_id",
            WEIGHED,
            f"kg in session {WEIGHED} at 2026-11-03 09:00:00.000000 in the cloud",
        ),
        ("UPDATE inference_results SET confidence = 0.91", SEEN, "confidence 0.9 of picture"),
        ("UPDATE stream_losses SET last_seq = 21", LOST, "sequences 11 to 21"),
        ("UPDATE stream_losses SET reason = 'damaged'", LOST, "damaged: 10 of sequences"),
        ("UPDATE stream_losses SET first_ts = NULL", LOST, "measured from unknown"),
        ("UPDATE stream_losses SET dropped_at = dropped_at + interval '1 day'", LOST, "declared loss"),
    ],
)
async def test_what_the_cloud_has_otherwise_is_named(records: Records, change: str, named: UUID, words: str) -> None:
    await records.cloud.execute(change)
    (finding,) = await records.findings()
    assert (finding.kind, finding.subject) == ("record_differs", str(named))
    assert words in finding.what


async def test_what_the_cloud_lacks_is_missing_unless_it_can_be_on_its_way(records: Records) -> None:
    await records.cloud.execute("DELETE FROM recorded_weights")
    (finding,) = await records.findings()
    assert (finding.kind, finding.subject, finding.device_id) == ("record_missing", str(WEIGHED), "station-1")
    assert await records.findings([WEIGHED]) == []
    assert await records.findings(recent=[WEIGHED], bus=1) == []
    assert len(await records.findings([SEEN])) == 1
    assert len(await records.findings(recent=[WEIGHED])) == 1
    assert len(await records.findings(recent=[SEEN], bus=1)) == 1
    assert len(await records.findings(bus=1)) == 1


async def test_a_loss_that_only_the_cloud_has_of_a_device_of_the_edge_is_named(records: Records) -> None:
    forged = uuid4()
    await records.cloud.execute(LOSS, forged, STREAM, DAY + timedelta(days=4))
    (finding,) = await records.findings()
    assert (finding.kind, finding.subject, finding.device_id) == ("record_surplus", str(forged), "node-1")
    await records.cloud.execute("UPDATE stream_losses SET device_id = 'elsewhere' WHERE event_id = $1", forged)
    assert await records.findings() == []


async def test_records_of_another_tenant_are_not_compared(records: Records) -> None:
    for table in ("recorded_weights", "inference_results", "stream_losses"):
        await records.cloud.execute(f"UPDATE {table} SET tenant_id = 'other'")  # noqa: S608 - ours
    assert [one.kind for one in await records.findings()] == ["record_missing"] * 3


async def test_a_service_that_is_not_known_here_is_told_and_the_others_are_compared(records: Records) -> None:
    await records.cloud.execute("UPDATE recorded_weights SET weight_kg = 12")
    addresses = {name: records.neighbours.url_of(name) for name in records.neighbours.names}
    del addresses["edge-vision-inference"]
    async with aiohttp.ClientSession() as session:
        records.neighbours = Neighbours(session, addresses, {"edge": TOKEN, "cloud": TOKEN})
        assert [one.kind for one in await records.findings()] == ["record_differs"]
    assert records.notes == ["Each result of a model was not compared: edge-vision-inference does not offer it."]
