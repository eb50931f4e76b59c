"""How large a message may be. The receiver checks these before it parses a byte."""

from typing import Final

MQTT_MESSAGE_BYTES_MAX: Final = 256 * 1024
"""One MQTT message. Holds `SAMPLES_MAX` samples of a few dozen channels with the longest numbers that JSON writes."""

BUS_MESSAGE_BYTES_MAX: Final = 512 * 1024
"""One bus envelope: an MQTT message once more, in a longer envelope."""

EDGE_BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
"""One `POST /api/v1/edge/batch`, after decompression. The sender splits by bytes, the receiver refuses with 413."""

EDGE_BATCH_EVENTS_MAX: Final = 5000

HTTP_BODY_BYTES_MAX: Final = 64 * 1024
"""Every other request body."""

DEPTH_MAX: Final = 32
"""Brackets inside brackets, in one message. Ours need six."""

EDGE_BATCH_DEPTH_MAX: Final = 256
"""Brackets inside brackets in a whole edge batch: more than one event may have, so that an event which is too deep is
refused alone and not with its neighbours."""

SAMPLES_MAX: Final = 5000
CHANNELS_MAX: Final = 1024
SEQ_LIMIT: Final = 2**62
"""Sequence numbers are 1 .. 2^62 - 1: a range end plus one still fits PostgreSQL's int8."""
