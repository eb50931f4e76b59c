"""The edge's services, put together as their `main` does."""

import asyncio
import random
from typing import TYPE_CHECKING, Any

from farmiq.contracts import topics
from farmiq.edge.ingress_gateway.consumer import consume
from farmiq.edge.ingress_gateway.counters import Counters as GatewayCounters
from farmiq.edge.ingress_gateway.publisher import AckPublisher
from farmiq.edge.ingress_gateway.settings import GatewaySettings
from farmiq.edge.sync_forwarder.counters import Counters as ForwarderCounters
from farmiq.edge.sync_forwarder.delivery import Delivery
from farmiq.edge.sync_forwarder.held import HeldSubjects
from farmiq.edge.sync_forwarder.resending import ask_epochs, keep_resending
from farmiq.edge.sync_forwarder.settings import SyncForwarderSettings
from farmiq.edge.sync_forwarder.settlement import Settlement
from farmiq.edge.sync_forwarder.worker import Worker
from farmiq.kit.lifecycle import Lifetime
from farmiq.outbox import Announcer
from farmiq.outbox.floors import Floors
from farmiq.outbox.wakeup import Wakeup
from simulation.broker import Hop, SimulatedClient
from simulation.process import PROCESS
from simulation.uplink import SimulatedCloud

if TYPE_CHECKING:
    from simulation.world import World

LEASE_SECONDS = 15
REQUEST_SECONDS = 8


async def serve_gateway(world: "World", hop: Hop) -> None:
    settings = GatewaySettings(
        database_url="postgresql://edge", mqtt_url="mqtt://simulated:1883", admin_token="a" * 32, host="127.0.0.1"
    )  # fmt: skip
    life = Lifetime("edge-ingress-gateway", world.edge_machine)
    mqtt = SimulatedClient(world.broker, hop, client_id=hop.name, subscriptions=topics.shared(life.service))
    pool: Any = world.edge_database.pool()
    counters = GatewayCounters(life.registry)
    acks = AckPublisher(mqtt, counters, life.clock, settings.ingress_ack_interval_ms / 1000)
    await mqtt.start()
    async with asyncio.TaskGroup() as group:
        group.create_task(life.until_stopped(consume(life, settings, mqtt, pool, acks, Announcer(pool), counters)))
        group.create_task(life.until_stopped(acks.run()))


async def serve_forwarder(world: "World", name: str) -> None:
    settings = SyncForwarderSettings(
        database_url="postgresql://edge", cloud_ingestion_url="https://cloud", cloud_ingestion_token="token",
        edge_cluster_id="edge-1", outbox_lease_seconds=LEASE_SECONDS, sync_request_seconds=REQUEST_SECONDS,
        outbox_batch_size=world.plan.outbox_batch, sync_interval_ms=20_000, sync_epoch_seconds=10, host="127.0.0.1",
    )  # fmt: skip
    life = Lifetime("edge-sync-forwarder", world.edge_machine)
    rng = random.Random(world.chance.getrandbits(32))
    pool: Any = world.edge_database.pool()
    counters, wakeup, floors = ForwarderCounters(life.registry), Wakeup(), Floors()
    cloud = SimulatedCloud(world.uplink, world.edge_machine, REQUEST_SECONDS)
    settlement = Settlement(pool, settings, counters, rng, HeldSubjects(life.clock, rng))
    delivery = Delivery(life, pool, cloud, settings, counters, settlement, floors, instance_id=name)
    process = PROCESS.get()
    assert process is not None
    context = process.context()

    def wake() -> None:
        world.loop.call_later(world.chance.seconds(0.0003, 0.003), wakeup.poke, context=context)

    world.edge_database.notified.append(wake)
    process.at_end.append(lambda: world.edge_database.notified.remove(wake))
    async with asyncio.TaskGroup() as group:
        group.create_task(Worker(life, pool, delivery, floors, wakeup, settings, counters, rng).run())
        group.create_task(keep_resending(life, pool, wakeup, Wakeup(), counters))
        group.create_task(ask_epochs(life, pool, delivery, every_seconds=settings.sync_epoch_seconds))
