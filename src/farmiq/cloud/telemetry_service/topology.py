"""What this service needs on the bus: its own queue, where its failed messages wait, its dead letters, and what reaches it."""

import msgspec

from farmiq.cloud import bus_users
from farmiq.cloud.work_queues import work_queue
from farmiq.contracts import bus
from farmiq.kit.amqp_topology import Topology

SERVICE = "cloud-telemetry-service"
WORK_QUEUE = work_queue(SERVICE, bus.TELEMETRY_INGEST_QUEUE)


def topology() -> Topology:
    return WORK_QUEUE.topology()


def publishing() -> Topology:
    """And the exchange for copies of its own events."""
    return msgspec.structs.replace(topology(), exchanges=(*topology().exchanges, bus_users.EXCHANGE))
