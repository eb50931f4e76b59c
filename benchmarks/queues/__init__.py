"""The queues that are measured beside each other: the outbox, and the queues in PostgreSQL that Python has.

Each stands behind the same few moves, on a database of its own in the same cluster, in a process of its own:

    install      its tables, as it makes them itself
    fill         so many events of the same size that wait
    drain        takes them in batches and marks each as done, every mark durable, until nothing is left or time is up

`catalogue.py` lists them. `run.py` makes the moves of one queue and counts what they cost the database.
"""

from abc import ABC, abstractmethod

PAYLOAD = (
    b'{"unit": "C", "sensor": "t1", "quality": 2, "metric_type": "temperature", "metric_value": 26.4,'
    b' "received_at": "2026-01-01T12:00:00.000000Z"}'
)


class QueueFailed(Exception):
    """A queue did not do what it was asked to, so its figures mean nothing."""


class Queue(ABC):
    """`url` is of its own empty database, as its owner."""

    def __init__(self, url: str) -> None:
        self.url = url

    @abstractmethod
    async def install(self) -> None: ...

    @abstractmethod
    async def fill(self, events: int) -> None: ...

    @abstractmethod
    async def drain(self, limit_seconds: float) -> int:
        """Answers how many events are done, and durably so, when it returns."""
