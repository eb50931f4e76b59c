"""Messages as cloud-telemetry-service takes them from its queue, without the queue."""

from typing import Any

from prometheus_client import CollectorRegistry

from farmiq.cloud.telemetry_service.consumer import Counters, StoreMessages
from farmiq.cloud.telemetry_service.unsent import Plan
from farmiq.contracts import bus
from farmiq.contracts.decoding import decode
from farmiq.contracts.envelope import BusEnvelope
from farmiq.contracts.limits import BUS_MESSAGE_BYTES_MAX
from farmiq.kit.amqp import Delivery
from farmiq.kit.bus_worker import Failure, work_through
from farmiq.kit.clock import Clock
from farmiq.kit.micro_batch import until_stored
from farmiq.kit.postgres import Pool
from support.telemetry import NOW

OF_EDGE = {bus.EDGE_HEADER: "edge-1"}


class StandingClock(Clock):
    def now(self) -> Any:
        return NOW


def delivery(body: bytes, headers: dict[str, str] | None = None) -> Delivery:
    """As cloud-ingestion publishes it: under its own type. What is no envelope comes under another."""
    try:
        routing_key = decode(BusEnvelope, body, max_bytes=BUS_MESSAGE_BYTES_MAX).event_type
    except Exception:  # noqa: BLE001 - a message may be broken in any way
        routing_key = "unreadable"
    return Delivery(
        body,
        bus.exchange_for(routing_key),
        routing_key,
        None,
        dict(OF_EDGE if headers is None else headers),
        is_redelivered=False,
        tag=1,
        connection=1,
    )


def work(pool: Pool, plan: Plan | None = None) -> StoreMessages:
    return StoreMessages(pool, StandingClock(), Counters(CollectorRegistry()), plan or Plan())


async def store(pool: Pool, *deliveries: Delivery, plan: Plan | None = None) -> list[Failure]:
    """Together, as a micro-batch. Answers what was not stored."""
    outcome = await until_stored(lambda: work_through(work(pool, plan), deliveries))
    assert len(outcome.done) + len(outcome.failures) == len(deliveries)
    return outcome.failures


async def store_all(pool: Pool, *deliveries: Delivery, plan: Plan | None = None) -> None:
    failures = await store(pool, *deliveries, plan=plan)
    assert not failures, [(one.code, one.detail) for one in failures]
