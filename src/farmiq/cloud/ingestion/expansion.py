"""A pack as single samples, for consumers that know no packs (`EXPAND_TELEMETRY_BATCHES`).

Sample ids follow from tenant, stream and sequence, so a pack that is published twice gives the same events twice, and its
consumers recognise them. They are not in the dedupe table: their pack is, and it is remembered once all of them are on the bus.
"""

from typing import Final

from farmiq.contracts import event_types
from farmiq.contracts.bus import EXPANDED_HEADER, TELEMETRY_EXCHANGE
from farmiq.contracts.decoding import encode
from farmiq.contracts.envelope import BusEnvelope, bus_envelope
from farmiq.contracts.telemetry import TelemetryBatchIngested, TelemetryIngested
from farmiq.contracts.timestamps import from_us
from farmiq.kit.amqp import Outgoing, Publisher
from farmiq.kit.errors import Transient
from farmiq.kit.ids import sample_id

MESSAGES_AT_ONCE: Final = 500
SAMPLES_MAX: Final = 50_000
"""In one request: RabbitMQ takes some thousands a second, and the edge waits for the answer."""


class TooManySamples(Transient):
    """The batch holds more samples than are expanded in one request. Those that fitted are done; the edge sends it again."""

    code = "too_many_samples"


class Expansion:
    """Publishes the samples of one request's packs, up to a limit. The first pack always fits."""

    def __init__(self, publisher: Publisher, samples_max: int = SAMPLES_MAX) -> None:
        self._publisher = publisher
        self._samples_max = samples_max
        self._samples = 0

    async def publish(self, envelope: BusEnvelope, pack: TelemetryBatchIngested) -> Transient | None:
        """None when all of them are on the bus, else why not."""
        if self._samples and self._samples + pack.count > self._samples_max:
            return TooManySamples(f"more than {self._samples_max} samples in one request")
        self._samples += pack.count
        return await publish_samples(self._publisher, envelope, pack)


async def publish_samples(
    publisher: Publisher, envelope: BusEnvelope, pack: TelemetryBatchIngested
) -> Transient | None:
    """None when all of them are on the bus. Only a few hundred messages exist at a time."""
    for first in range(0, pack.count, MESSAGES_AT_ONCE):
        places = range(first, min(first + MESSAGES_AT_ONCE, pack.count))
        answers = await publisher.publish_many([message_of(envelope, pack, place) for place in places])
        why = next((answer for answer in answers if answer is not None), None)
        if why is not None:
            return why
    return None


def message_of(envelope: BusEnvelope, pack: TelemetryBatchIngested, place: int) -> Outgoing:
    channel = pack.channels[pack.c[place]]
    event_id = sample_id(envelope.tenant_id, pack.stream_id, pack.seq0 + place)
    single = bus_envelope(
        TelemetryIngested(metric_type=channel.metric, metric_value=pack.v[place], unit=channel.unit),
        event_id=event_id,
        event_type=event_types.TELEMETRY_INGESTED,
        tenant_id=envelope.tenant_id,
        farm_id=envelope.farm_id,
        barn_id=envelope.barn_id,
        device_id=envelope.device_id,
        occurred_at=from_us(pack.occurred_us[place]),
        trace_id=envelope.trace_id,
    )
    headers = {"x-trace-id": envelope.trace_id, EXPANDED_HEADER: str(envelope.event_id)}
    return Outgoing(TELEMETRY_EXCHANGE, event_types.TELEMETRY_INGESTED, encode(single), str(event_id), headers)
