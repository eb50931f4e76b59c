"""How fast pictures may use the uplink: a bucket of bytes that fills at a steady rate."""

BURST_SECONDS = 1.0
"""What an idle lane may send at once, as time at the full rate."""


class Bandwidth:
    """Whoever wants to send takes its bytes at once, then waits until the bucket has paid for them: first come, first served."""

    def __init__(self, bytes_per_second: int, now: float) -> None:
        self._rate = bytes_per_second
        self._bytes = bytes_per_second * BURST_SECONDS
        self._filled_at = now

    def wait_seconds(self, size_bytes: int, now: float) -> float:
        """How long to wait before these bytes are sent. They count as sent from now on. A rate of 0 is no limit."""
        if not self._rate:
            return 0.0
        self._bytes = min(self._rate * BURST_SECONDS, self._bytes + (now - self._filled_at) * self._rate)
        self._filled_at = now
        self._bytes -= size_bytes
        return max(0.0, -self._bytes / self._rate)
