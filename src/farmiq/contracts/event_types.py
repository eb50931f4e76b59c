"""The event types that have a meaning here. On the bus they are also the routing keys."""

from typing import Final

# From devices, over MQTT.
TELEMETRY_READING: Final = "telemetry.reading"
TELEMETRY_BATCH: Final = "telemetry.batch"
DEVICE_STATUS: Final = "device.status"

# Both from devices and on the bus.
TELEMETRY_LOSS: Final = "telemetry.loss"
SESSION_CREATED: Final = "weighvision.session.created"
WEIGHT_RECORDED: Final = "weighvision.weight.recorded"
IMAGE_CAPTURED: Final = "weighvision.image.captured"
SESSION_FINALIZED: Final = "weighvision.session.finalized"
SESSION_CANCELLED: Final = "weighvision.session.cancelled"

# On the bus only.
TELEMETRY_INGESTED: Final = "telemetry.ingested"
TELEMETRY_BATCH_INGESTED: Final = "telemetry.batch.ingested"
TELEMETRY_AGGREGATED: Final = "telemetry.aggregated"
MEDIA_STORED: Final = "media.stored"
INFERENCE_COMPLETED: Final = "inference.completed"
SYNC_BATCH_SENT: Final = "sync.batch.sent"
SYNC_BATCH_ACKED: Final = "sync.batch.acked"
DEVICE_REGISTERED: Final = "edge.device.registered"
"""An edge let a device in. A cloud of 0.1.0 keeps it like an event of an integrator; a later one learns whose device it is."""


RESERVED_DOMAINS: Final = frozenset({"telemetry", "weighvision", "media", "inference", "sync"})
"""First words that are ours alone: an event of an integrator's own making must not pass for one of ours in the cloud."""


def is_reserved(event_type: str) -> bool:
    return event_type in {DEVICE_STATUS, DEVICE_REGISTERED} or event_type.partition(".")[0] in RESERVED_DOMAINS
