"""A weigh station that gives something up is an alert, in the commit that takes its word."""

from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID

import msgspec
import pytest
import pytest_asyncio

from farmiq.edge.alerts import OpsAlert, acknowledge_alert, list_alerts
from farmiq.edge.ingress_gateway.handlers import ingest
from farmiq.kit.ids import new_id
from farmiq.kit.mqtt import Message
from farmiq.kit.postgres import Pool
from farmiq.timeseries import station_losses
from farmiq.timeseries.loss_totals import loss_totals
from support.gateway import register
from support.telemetry import NOW, raw_message

LOSS = {
    "reason": "queue_full", "dropped_at": "2026-11-16T08:00:00Z", "count": 3, "pictures": 2,
    "events": {"weighvision.weight.recorded": 1},
}  # fmt: skip


@pytest_asyncio.fixture
async def pool(edge_pool: Pool) -> AsyncIterator[Pool]:
    await register(edge_pool)
    yield edge_pool


def said(payload: object, event_id: UUID | None = None) -> Message:
    envelope = {
        "event_id": str(event_id or new_id()), "trace_id": "t", "tenant_id": "demo", "device_id": "node-1",
        "event_type": "station.loss", "ts": "2026-11-16T08:00:00Z", "payload": payload,
    }  # fmt: skip
    return raw_message("iot/event/demo/farm-1/barn-1/node-1/station.loss", msgspec.json.encode(envelope))


async def alerts(pool: Pool) -> list[OpsAlert]:
    async with pool.acquire() as connection:
        return await list_alerts(connection, tenant_id="demo", status=None, after=None, limit=10)


async def test_a_loss_is_an_alert_and_goes_to_the_cloud(pool: Pool) -> None:
    await ingest(pool, [said(LOSS)], NOW)
    (alert,) = await alerts(pool)
    assert (alert.kind, alert.status) == ("station_loss", "open")
    assert alert.subject == "node-1 has given up 3 events and pictures: queue_full"
    assert (alert.evidence["pictures"], alert.evidence["events"]) == (2, {"weighvision.weight.recorded": 1})
    assert await pool.fetchval("SELECT count(*) FROM sync_outbox WHERE event_type = 'station.loss'") == 1
    async with pool.acquire() as connection:
        told = await station_losses.summary(connection, "demo")
        day = await station_losses.recorded(connection, "demo", NOW - timedelta(hours=1), NOW + timedelta(hours=1))
        totals = await loss_totals(connection)
    assert (told.records, told.lost, told.pictures, len(told.sums)) == (1, 3, 2, 1)
    assert (day.losses, day.lost, day.pictures, day.device_id) == (1, 3, 2, "node-1")
    assert totals.of_stations == {"queue_full": 3}


async def test_a_station_has_one_alert_a_day_however_often_it_loses_and_repeats(pool: Pool) -> None:
    event_id = new_id()
    for _ in range(2):
        await ingest(pool, [said(LOSS, event_id), said(LOSS)], NOW)
    assert len(await alerts(pool)) == 1
    async with pool.acquire() as connection:
        assert (await station_losses.summary(connection, "demo")).records == 3, "each once in the ledger"
    async with pool.acquire() as connection:
        await acknowledge_alert(connection, (await alerts(pool))[0].id, by="ann", note="its disk is small")
    await ingest(pool, [said(LOSS)], NOW + timedelta(days=1))
    assert sorted(alert.status for alert in await alerts(pool)) == ["acknowledged", "open"]


@pytest.mark.parametrize("payload", [{}, {"reason": "moths"}, LOSS | {"count": -1}, LOSS | {"count": 10**400}])
async def test_a_loss_that_can_not_be_read_is_a_loss_all_the_same(pool: Pool, payload: object) -> None:
    (outcome,) = await ingest(pool, [said(payload)], NOW)
    assert outcome.refusals == []
    (alert,) = await alerts(pool)
    assert alert.subject.startswith("node-1 has given ")
    assert len(alert.subject) <= 300
    async with pool.acquire() as connection:
        told = await station_losses.summary(connection, "demo")
        totals = await loss_totals(connection)
    assert told.records == 1
    assert sum(totals.of_stations.values()) >= 1, "whatever it was, it was something"
