"""What has to exist on the bus before an event can be accepted: every exchange, and the queues of the services that consume.

Each consumer declares its own queue too. Declared from here as well, an event finds it on the first day and on a broker that
came back empty, also while its consumer is not up yet.
"""

from farmiq.cloud.telemetry_service.topology import topology as telemetry_service
from farmiq.contracts import bus
from farmiq.kit.amqp_topology import Exchange, Topology


def topology() -> Topology:
    consumers = [telemetry_service()]
    return Topology(
        exchanges=tuple(Exchange(name) for name in bus.EXCHANGES),
        queues=tuple(queue for consumer in consumers for queue in consumer.queues),
        bindings=tuple(binding for consumer in consumers for binding in consumer.bindings),
    )
