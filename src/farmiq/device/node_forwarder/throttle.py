"""How long the replay has to wait, so that it stays below its rates."""


class Throttle:
    """Two budgets that refill with time: messages and bytes. One second's worth may be spent at once."""

    def __init__(self, messages_per_second: float, bytes_per_second: float, now: float) -> None:
        self._rates = (messages_per_second, bytes_per_second)
        self._left = [messages_per_second, bytes_per_second]
        self._at = now

    def spend(self, message_bytes: int, now: float) -> float:
        """Account for one message; answers for how many seconds the next one has to wait."""
        elapsed = max(0.0, now - self._at)
        self._at = now
        for budget, (rate, cost) in enumerate(zip(self._rates, (1.0, float(message_bytes)), strict=True)):
            self._left[budget] = min(rate, self._left[budget] + elapsed * rate) - cost
        return max(0.0, *(-left / rate for left, rate in zip(self._left, self._rates, strict=True)))
