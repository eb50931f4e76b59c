"""What the cloud holds is in flight, named with its reason and its command: a real forwarder, outbox and cloud-ingestion."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar

import aiohttp
import pytest
import pytest_asyncio

from farmiq.audit.asking import EDGE
from farmiq.audit.balance import balance
from farmiq.audit.outbox import SYNC
from farmiq.cli.audit_report import tell
from farmiq.console.neighbours import Neighbours
from farmiq.edge.sync_forwarder.main import serve
from farmiq.kit.postgres import Pool
from support.audited_farm import AuditedFarm, account, registered
from support.outbox_rows import fill_outbox
from support.query_api import TOKEN, query_api
from support.service_process import running
from support.stored_months import store_samples
from support.two_edges import Cloud, amqp_url, cloud
from support.waiting import eventually

__all__ = ["amqp_url", "cloud"]  # fixtures

T = TypeVar("T")
REAL = {
    SYNC: ("/api/v1/sync/waiting", "/api/v1/sync/held"),
    EDGE: ("/api/v1/accounts",),
}


class HeldFarm(AuditedFarm):
    """The outbox and what the edge has stored are real; nothing has come to the cloud."""

    def __init__(self, neighbours: Neighbours) -> None:
        super().__init__()
        self._neighbours = neighbours
        self.answers["/api/v1/devices"] = lambda asked: {
            "devices": [registered("node-1")] if asked["tenant_id"] == "demo" else []
        }

    async def get(self, service: str, path: str, kind: type[T], **parameters: object) -> T:
        if path in REAL.get(service, ()):
            return await self._neighbours.get(service, path, kind, **parameters)
        return await super().get(service, path, kind, **parameters)


@pytest_asyncio.fixture
async def farm(edge_url: str, edge_pool: Pool, cloud: Cloud) -> AsyncIterator[HeldFarm]:
    await cloud.move("node-1", "edge-2")
    await store_samples(edge_pool, [datetime.now(UTC) - timedelta(seconds=second) for second in range(5)])
    await fill_outbox(edge_pool, 3, tenant_id="second", device_id="node-9")
    environ = cloud.environ("edge-1", edge_url) | {"INTERNAL_ADMIN_ENABLED": "true", "ADMIN_TOKEN": TOKEN}
    async with (
        query_api(edge_url) as edge,
        running(serve, "edge-sync-forwarder", environ) as url,
        aiohttp.ClientSession() as session,
    ):
        yield HeldFarm(Neighbours(session, {SYNC: url, EDGE: edge._url}, {"edge": TOKEN}))


async def is_settled(pool: Pool) -> bool:
    held = await pool.fetchval("SELECT count(*) FROM sync_outbox WHERE last_error_code = 'device_of_another_edge'")
    refused = await pool.fetchval("SELECT count(*) FROM sync_state WHERE last_error_code = 'HTTP_403'")
    return (held, refused) == (1, 1)


async def test_what_is_held_is_in_flight_and_named_with_its_command(
    farm: HeldFarm, edge_pool: Pool, capsys: pytest.CaptureFixture[str]
) -> None:
    await eventually(partial(is_settled, edge_pool), what="the cloud to hold one device and refuse one tenant")
    verdict = balance(await farm.read(asked_at=datetime.now(UTC), own_tenants=["demo", "second"]))
    assert (verdict.balanced, verdict.captured, verdict.stored, verdict.unexplained) == (True, 5, 0, 0)
    assert verdict.in_flight_at == {"edge_outbox": 5}
    device, tenant = verdict.held
    assert (device.device_id, device.reason, device.events) == ("node-1", "device_of_another_edge", 1)
    assert device.message == "device node-1 belongs to edge edge-2, and edge edge-1 sends of it"
    assert device.command == "farmiq device move node-1 --to edge-1"
    assert (tenant.tenant_id, tenant.device_id, tenant.events) == ("second", None, 3)
    assert tenant.command == "farmiq edge grant edge-1 --tenant second"
    tell(verdict, as_json=False)
    told = capsys.readouterr().out
    assert "⏸ node-1: 1 event since " in told
    assert "  do this: farmiq device move node-1 --to edge-1\n" in told
    assert "⏸ second: 3 events, in flight until a person decides\n" in told
    assert "  do this: farmiq edge grant edge-1 --tenant second\n" in told
    tell(verdict, as_json=True)
    as_json = json.loads(capsys.readouterr().out)["held"]
    assert [(one["reason"], one["events"]) for one in as_json] == [
        ("device_of_another_edge", 1),
        ("tenant_not_granted", 3),
    ]
    other = balance(await farm.read(asked_at=datetime.now(UTC), device_id="node-2"))
    assert other.held == []


async def test_what_was_held_is_no_longer_named_once_the_cloud_has_it(
    farm: HeldFarm, edge_pool: Pool, cloud: Cloud
) -> None:
    await eventually(partial(is_settled, edge_pool), what="the cloud to hold one device and refuse one tenant")
    await cloud.move("node-1", "edge-1")

    async def is_taken() -> bool:
        return bool(
            await edge_pool.fetchval(
                "SELECT count(*) = 0 FROM sync_outbox WHERE tenant_id = 'demo' AND status <> 'acked'"
            )
        )

    await eventually(is_taken, 60.0, "the pack to be in the cloud")
    farm.answers["cloud-telemetry-service /api/v1/accounts"] = {"devices": [account("node-1")], "retired_samples": 0}
    reading = await farm.read(asked_at=datetime.now(UTC), tenant_id="demo")
    assert reading.tenants[0].held == []
