"""The cloud's services, put together as their `main` does; of the entrance's HTTP route only the order of its steps."""

from typing import TYPE_CHECKING, Any

from farmiq.cloud.ingestion.edges import Edge
from farmiq.cloud.ingestion.handlers import Asked, ingest
from farmiq.cloud.ingestion.ownership import Owners
from farmiq.cloud.ingestion.screening import refuse_strangers, screen
from farmiq.cloud.telemetry_service.consumer import Counters, StoreMessages
from farmiq.cloud.telemetry_service.topology import WORK_QUEUE
from farmiq.cloud.telemetry_service.unsent import Plan
from farmiq.contracts.decoding import encode
from farmiq.contracts.sync import answer_of, decode_edge_batch
from farmiq.kit.bus_worker import BusWorker, run_bus_worker
from farmiq.kit.errors import Transient
from farmiq.kit.http_client import Answer
from farmiq.kit.ids import new_trace_id
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.postgres import RETRY
from simulation.bus import SimulatedConsumer, SimulatedPublisher
from simulation.process import PROCESS

if TYPE_CHECKING:
    from simulation.world import World

EDGE = Edge("edge-1", frozenset({"t"}))
DEFERS: tuple[type[BaseException], ...] = (*RETRY, Transient)


async def serve_ingestion(world: "World") -> None:
    pool: Any = world.dedupe_database.pool()
    publisher: Any = SimulatedPublisher(world.bus)
    owners = Owners()

    async def edge_batch(body: bytes) -> Answer:
        batch = decode_edge_batch(body)
        refuse_strangers(EDGE, batch)
        try:
            asked = Asked(
                subject=("t", EDGE.edge_cluster_id),
                heard=batch.heard,
                understands_held=True,
            )
            results, epoch = await ingest(pool, publisher, owners, screen(EDGE, batch.events, new_trace_id), asked)
        except DEFERS as error:
            world.trace.note("batch_deferred_by_cloud", code=getattr(error, "code", "database_away"))
            return Answer(503, {"retry-after": "5"}, b"")
        except Exception as error:  # noqa: BLE001 - the server would answer it too; nobody has foreseen it
            world.failures.append(f"the entrance failed: [{error!r}]")
            return Answer(500, {}, b"")
        return Answer(200, {}, encode(answer_of(batch.batch_id, results, epoch)))

    process = PROCESS.get()
    assert process is not None
    world.uplink.opened(process, edge_batch)


async def serve_telemetry(world: "World") -> None:
    life = Lifetime("cloud-telemetry-service", world.cloud_machine)
    counters = Counters(life.registry)
    pool: Any = world.cloud_database.pool()
    worker = BusWorker("amqp://simulated", WORK_QUEUE, name=life.service, batch_messages=50)
    simulated: Any = worker
    simulated.consumer = SimulatedConsumer(world.bus, prefetch=100)
    simulated.publisher = SimulatedPublisher(world.bus)
    await run_bus_worker(life, worker, StoreMessages(pool, world.cloud_machine, counters, Plan()), metrics=counters)
