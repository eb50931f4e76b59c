"""What the metrics say of the fleet, from the devices' own messages through the gateway's transaction to `GET /metrics`."""

from datetime import UTC, datetime, timedelta

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from farmiq.contracts.status import DeviceStatus
from farmiq.edge.alerts import raise_alert
from farmiq.edge.ingress_gateway import devices
from farmiq.edge.ingress_gateway.handlers import ingest
from farmiq.kit.mqtt import Message
from farmiq.kit.postgres import Pool
from farmiq.timeseries.stream import Origin
from support.query_api import query_api
from support.speaking_node import SetClock, SpeakingNode
from support.telemetry import HERE, loss_message
from support.waiting import eventually

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
PEN = Origin("demo", "farm-1", "barn-1", "node-2")
OLD = Origin("demo", "farm-1", "barn-1", "node-3")
NEW = Origin("demo", "farm-1", "barn-1", "node-4")


def status(runway_seconds: float) -> DeviceStatus:
    return DeviceStatus(
        state="online", spool_bytes=100, unacked_count=7, oldest_sample_age_seconds=5.0, runway_seconds=runway_seconds
    )


async def hear(pool: Pool, at: datetime, *messages: Message) -> None:
    for outcome in await ingest(pool, messages, at):
        assert outcome.refusals == []


async def prepare(pool: Pool) -> None:
    """One that delivers, one that is gone for an hour, one that was revoked, one that was never heard, and a loss."""
    async with pool.acquire() as connection:
        for origin in (HERE, PEN, OLD, NEW):
            await devices.register(
                connection,
                tenant_id=origin.tenant_id,
                farm_id=origin.farm_id,
                barn_id=origin.barn_id,
                device_id=origin.device_id,
                kind="node",
            )
    here = SpeakingNode(HERE)
    await hear(pool, NOW - HOUR, SpeakingNode(PEN).status(NOW - HOUR, status(7200.0)))
    await hear(pool, NOW - HOUR, SpeakingNode(OLD).status(NOW - HOUR, status(60.0)))
    await hear(pool, NOW, here.status(NOW, status(600.0)), here.sample(NOW), loss_message(here.stream, 5, 9))
    async with pool.acquire() as connection:
        await devices.revoke(connection, OLD.device_id)
        await raise_alert(connection, "picture_missing", "two pictures", "k", {}, "demo")


async def metrics(url: str) -> dict[str, float]:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as answer:
        families = text_string_to_metric_families(await answer.text())
    return {
        sample.name + "".join(f" {value}" for value in sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


async def test_the_fleet_the_losses_and_what_waits_for_a_person_are_shown(edge_url: str, edge_pool: Pool) -> None:
    await prepare(edge_pool)
    async with query_api(edge_url, {"ONLINE_TIMEOUT": "60"}, SetClock(NOW)) as api:

        async def sampled() -> dict[str, float]:
            shown = await metrics(api._url)
            return shown if shown["farmiq_figures_sampled_timestamp_seconds"] else {}

        shown = await eventually(sampled, what="the first sample")
    assert shown["farmiq_figures_sampled_timestamp_seconds"] == NOW.timestamp()
    counts = [shown[f"farmiq_devices {state}"] for state in ("online", "quiet", "never_heard")]
    assert counts == [1, 1, 1], "one that was revoked is none of them"
    assert (shown["farmiq_spool_bytes"], shown["farmiq_spool_unacked_samples"]) == (200, 14)
    assert shown["farmiq_spool_oldest_sample_age_seconds"] == 3605
    assert shown["farmiq_spool_runway_seconds"] == 3600, "of the one that is gone, and not of the one that delivers"
    assert shown["farmiq_samples_lost_total other"] == 5, "no node of ours names this cause"
    assert shown["farmiq_samples_lost_total damaged"] == 0
    assert shown["farmiq_ops_alerts_open picture_missing"] == 1
