"""How long the edge's disk lasts while nothing can be sent to the cloud, at the present rate. Pure."""

from typing import Final

from farmiq.sizing import measured

LONGEST_SECONDS: Final = 3650 * 86_400.0
"""Ten years. Whatever lasts longer is shown as this."""


def edge_runway_seconds(
    disk_free_bytes: int | None,
    *,
    samples_per_second: float | None,
    messages_per_second: float | None,
    picture_bytes_per_second: float | None,
) -> float | None:
    """None when the room or the rate is not known."""
    if disk_free_bytes is None or samples_per_second is None or messages_per_second is None:
        return None
    growth = edge_bytes_per_second(samples_per_second, messages_per_second, picture_bytes_per_second or 0.0)
    return min(LONGEST_SECONDS, disk_free_bytes / growth) if growth > 0 else LONGEST_SECONDS


def edge_bytes_per_second(
    samples_per_second: float, messages_per_second: float, picture_bytes_per_second: float
) -> float:
    """Samples stay in their table and, as long as the cloud does not have them, in the outbox; a message is one event."""
    if messages_per_second <= 0 or samples_per_second <= 0:
        return picture_bytes_per_second
    samples_of_message = max(1.0, samples_per_second / messages_per_second)
    outbox = measured.OUTBOX_BYTES.of(samples_of_message) + measured.DEDUPE_BYTES.of(samples_of_message)
    return samples_per_second * measured.RAW_BYTES_PER_SAMPLE + messages_per_second * outbox + picture_bytes_per_second
