"""Two edges, each with a forwarder and a database of its own, at one real cloud-ingestion: a node is carried to the other one."""

from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from farmiq.cloud.ingestion import edges
from farmiq.contracts import bus, event_types
from farmiq.edge.alerts import list_alerts
from farmiq.edge.ingress_gateway import devices
from farmiq.edge.sync_forwarder import held, sampler
from farmiq.edge.sync_forwarder.main import serve
from farmiq.kit import sampling
from farmiq.kit.postgres import Pool
from farmiq.outbox.held import held_subjects
from support.bus_queue import take_all
from support.outbox_rows import count_by_status, fill_outbox, outbox_row
from support.service_process import running
from support.two_edges import Cloud, amqp_url, cloud, second_edge_pool, second_edge_url
from support.waiting import eventually

__all__ = ["amqp_url", "cloud", "second_edge_pool", "second_edge_url"]  # fixtures

HOUR_AGO = datetime.now(UTC) - timedelta(hours=1)
HALF = 300


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same steps in a shorter time."""
    monkeypatch.setattr(held, "PROBE_SECONDS", 0.3)
    monkeypatch.setattr(sampling, "SAMPLE_SECONDS", 0.2)
    monkeypatch.setattr(sampling, "REST_FACTOR", 1)


async def register(pool: Pool, device_id: str) -> None:
    async with pool.acquire() as connection:
        await devices.register(
            connection, tenant_id="demo", farm_id="farm-1", barn_id="barn-1", device_id=device_id, kind="node"
        )


async def acked(pool: Pool, count: int) -> bool:
    return (await count_by_status(pool)) == {"acked": count}


async def held_rows(pool: Pool) -> list[Any]:
    return await pool.fetch(
        "SELECT id, status, attempt_count FROM sync_outbox WHERE last_error_code = 'device_of_another_edge'"
        " AND status <> 'acked'"
    )


async def is_held(pool: Pool, count: int) -> bool:
    return len(await held_rows(pool)) == count


async def open_alerts(pool: Pool) -> list[str]:
    async with pool.acquire() as connection:
        found = await list_alerts(connection, tenant_id="demo", status="open", after=None, limit=10)
    return [one.subject for one in found if one.kind == held.ALERT]


async def has_alerts(pool: Pool, count: int) -> bool:
    return len(await open_alerts(pool)) == count


async def test_of_a_node_that_was_carried_to_another_edge_nothing_is_lost_and_nothing_comes_twice(
    edge_url: str,
    edge_pool: Pool,
    second_edge_url: str,
    second_edge_pool: Pool,
    cloud: Cloud,
    amqp_url: str,
) -> None:
    await register(edge_pool, "node-1")
    async with running(serve, "edge-sync-forwarder", cloud.environ("edge-1", edge_url)):
        await eventually(partial(acked, edge_pool, 1), what="the registration to be in the cloud")
    # Edge 1 is away with its half of the backlog; the node goes on at edge 2, where a person adds it.
    first_half = await fill_outbox(edge_pool, HALF, occurred_at=HOUR_AGO)
    await register(second_edge_pool, "node-1")
    second_half = await fill_outbox(second_edge_pool, HALF, occurred_at=HOUR_AGO)
    async with AsyncExitStack() as forwarders:
        second = forwarders.enter_async_context(
            running(serve, "edge-sync-forwarder", cloud.environ("edge-2", second_edge_url))
        )
        await second
        await eventually(partial(is_held, second_edge_pool, HALF + 1), what="the second half to be held")
        # Neighbours on the same edge are not delayed by it.
        (other,) = await fill_outbox(second_edge_pool, 1, device_id="node-2")
        await eventually(partial(_is_acked, second_edge_pool, other), what="the neighbour's event to be in the cloud")
        assert {(row["status"], row["attempt_count"]) for row in await held_rows(second_edge_pool)} <= {
            ("pending", 0),
            ("claimed", 0),
        }
        await eventually(partial(has_alerts, second_edge_pool, 1), what="the alert")
        (alert,) = await open_alerts(second_edge_pool)
        assert all(word in alert for word in ("node-1", "edge-1", "farmiq device move node-1 --to edge-2"))

        await cloud.move("node-1", "edge-2")
        await eventually(partial(acked, second_edge_pool, HALF + 2), 60.0, "the second half to be in the cloud")
        await eventually(partial(has_alerts, second_edge_pool, 0), what="the alert to be closed")
        await forwarders.enter_async_context(running(serve, "edge-sync-forwarder", cloud.environ("edge-1", edge_url)))
        await eventually(partial(acked, edge_pool, HALF + 1), 60.0, "the first half to be in the cloud")
    on_the_bus = [one.event_id for one in await take_all(amqp_url, bus.TELEMETRY_INGEST_QUEUE) if _is_sample(one)]
    assert sorted(on_the_bus) == sorted([*first_half, *second_half, other])


async def test_a_restart_of_the_forwarder_forgets_nothing_that_is_held(
    edge_url: str, edge_pool: Pool, cloud: Cloud, cloud_pool: Pool
) -> None:
    await cloud_pool.execute(
        "INSERT INTO device_owners (tenant_id, device_id, edge_cluster_id, came_by)"
        " VALUES ('demo', 'node-1', 'edge-2', 'registration')"
    )
    await fill_outbox(edge_pool, 200)
    environ = cloud.environ("edge-1", edge_url)
    async with running(serve, "edge-sync-forwarder", environ):
        await eventually(partial(is_held, edge_pool, 200), what="all of it to be held")
    async with running(serve, "edge-sync-forwarder", environ):
        await eventually(partial(has_alerts, edge_pool, 1), what="the alert")
        await cloud.move("node-1", "edge-1")
        await eventually(partial(acked, edge_pool, 200), 60.0, "all of it to be in the cloud")


async def test_while_a_device_is_held_one_event_asks_and_the_others_stay_off_the_uplink(
    edge_url: str, edge_pool: Pool, cloud: Cloud, cloud_pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cloud.move("node-1", "edge-2")
    await fill_outbox(edge_pool, 500)
    sent: list[int] = []
    original = held_subjects

    async def counted(connection: Any) -> Any:
        rows = await original(connection)
        sent.append(sum(row.events for row in rows))
        return rows

    monkeypatch.setattr(sampler, "held_subjects", counted)
    async with running(serve, "edge-sync-forwarder", cloud.environ("edge-1", edge_url)) as url:
        await eventually(partial(is_held, edge_pool, 500), what="all of it to be held")
        before = await _held_by_the_cloud(cloud)
        looks = len(sent)
        await eventually(lambda: _is_true(len(sent) > looks + 15), 30.0, "three seconds of samples")
        assert await _held_by_the_cloud(cloud) - before <= len(sent) - looks, url
    assert max(sent) == 500


async def test_a_tenant_that_the_edge_may_not_deliver_for_is_an_alert_with_the_command_that_mends_it(
    edge_url: str, edge_pool: Pool, cloud: Cloud, cloud_pool: Pool
) -> None:
    await fill_outbox(edge_pool, 3, tenant_id="second")

    async def alerts() -> list[str]:
        rows = await edge_pool.fetch(
            "SELECT subject FROM ops_alerts WHERE kind = 'tenant_not_granted' AND status = 'open' AND tenant_id = 'second'"
        )
        return [row["subject"] for row in rows]

    async def has(count: int) -> bool:
        return len(await alerts()) == count

    environ = cloud.environ("edge-1", edge_url) | {"OUTBOX_BACKOFF_CAP_SECONDS": "1"}
    async with running(serve, "edge-sync-forwarder", environ):
        await eventually(partial(has, 1), what="the alert")
        assert (await alerts())[0].endswith(": farmiq edge grant edge-1 --tenant second")
        async with cloud_pool.acquire() as connection:
            assert await edges.grant(connection, "edge-1", "second", by="the test")
        await eventually(partial(acked, edge_pool, 3), 60.0, "the tenant's events to be in the cloud")
        await eventually(partial(has, 0), what="the alert to be closed")
    rows = await edge_pool.fetch("SELECT DISTINCT attempt_count FROM sync_outbox")
    assert [row["attempt_count"] for row in rows] == [0]


async def _held_by_the_cloud(cloud: Cloud) -> int:
    import aiohttp

    async with aiohttp.ClientSession() as session, session.get(f"{cloud.url}/metrics") as answer:
        lines = (await answer.text()).splitlines()
    return sum(
        int(float(line.split()[-1])) for line in lines if line.startswith('farmiq_ingestion_events_total{status="held"')
    )


async def _is_true(value: bool) -> bool:
    return value


async def _is_acked(pool: Pool, event_id: UUID) -> bool:
    return bool((await outbox_row(pool, event_id))["status"] == "acked")


def _is_sample(envelope: Any) -> bool:
    return bool(envelope.event_type != event_types.DEVICE_REGISTERED)
