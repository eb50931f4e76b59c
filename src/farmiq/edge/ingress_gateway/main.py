import asyncio
from collections.abc import Callable, Mapping

from farmiq.contracts import topics
from farmiq.contracts.telemetry import TIME_QUALITY_SYNCED
from farmiq.edge.ingress_gateway import canary
from farmiq.edge.ingress_gateway.api import routes
from farmiq.edge.ingress_gateway.consumer import consume, require_broker
from farmiq.edge.ingress_gateway.counters import Counters
from farmiq.edge.ingress_gateway.device_routes import device_routes
from farmiq.edge.ingress_gateway.identity import follow_server, watch_server
from farmiq.edge.ingress_gateway.jobs import jobs
from farmiq.edge.ingress_gateway.publisher import AckPublisher
from farmiq.edge.ingress_gateway.refusals import show_recent
from farmiq.edge.ingress_gateway.settings import GatewaySettings
from farmiq.kit.http_server import serve_http
from farmiq.kit.jobs import keep_jobs, scheduled
from farmiq.kit.lifecycle import Lifetime, instance_id
from farmiq.kit.mqtt import MqttClient
from farmiq.kit.postgres import open_pool, ping, require_schema
from farmiq.kit.settings import load
from farmiq.kit.time_quality import TimeQuality
from farmiq.outbox import Announcer


async def serve(environ: Mapping[str, str], life: Lifetime) -> None:
    settings = load(GatewaySettings, environ)
    housekeeping = scheduled(jobs(environ), environ)
    mqtt = MqttClient(
        settings.mqtt_url,
        # A replica that starts again must come back under its own name, or its session's messages would wait for ever.
        client_id=environ.get("INSTANCE_ID") or life.service,
        subscriptions=topics.shared(life.service),
    )
    async with await open_pool(settings.database_url, service=life.service) as pool:
        await require_schema(pool)
        await follow_server(pool)
        life.ready_when("database", lambda: ping(pool))
        life.ready_when("broker", lambda: require_broker(mqtt))
        counters, test_counters = Counters(life.registry), canary.Counters(life.registry)
        life.remark_on("limits", lambda: _remark(counters, life))
        announcer = Announcer(pool)
        acks = AckPublisher(
            mqtt, counters, life.clock, settings.ingress_ack_interval_ms / 1000, _clock_quality(settings, life)
        )
        await mqtt.start()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(life.until_stopped(consume(life, settings, mqtt, pool, acks, announcer, counters)))
                group.create_task(life.until_stopped(acks.run()))
                group.create_task(life.until_stopped(watch_server(life, pool)))
                group.create_task(life.until_stopped(show_recent(pool, life.clock, life.registry)))
                if settings.mqtt_canary_url is not None:
                    group.create_task(
                        life.until_stopped(_canary(settings, settings.mqtt_canary_url, test_counters, life, environ))
                    )
                group.create_task(
                    life.until_stopped(keep_jobs(life, pool, housekeeping, instance_id(life.service, environ)))
                )
                served = [
                    *routes(pool, counters, settings.admin_token, settings.sync_plan, life.clock),
                    *device_routes(pool, settings),
                ]
                group.create_task(serve_http(life, settings, served))
            await acks.tell_the_rest()
        finally:
            await mqtt.stop()
            await announcer.close()


def _clock_quality(settings: GatewaySettings, life: Lifetime) -> Callable[[], int]:
    return (lambda: TIME_QUALITY_SYNCED) if settings.edge_clock_is_trusted else TimeQuality(life.clock)


async def _remark(counters: Counters, life: Lifetime) -> str | None:
    return counters.remark(life.clock.now())


async def _canary(
    settings: GatewaySettings, url: str, counters: canary.Counters, life: Lifetime, environ: Mapping[str, str]
) -> None:
    life.remark_on("canary", counters.remark)
    # Replicas share the login and tell themselves apart by their client ids.
    client_id = f"{canary.LOGIN}-{instance_id(life.service, environ)}"
    await canary.Canary(url, client_id, counters, settings.canary_interval_seconds).run(life)
