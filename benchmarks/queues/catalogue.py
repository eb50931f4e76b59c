"""Which queues there are, how they are called in the table, and which environment they run in."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from queues import Queue


@dataclass(frozen=True, slots=True)
class Entry:
    name: str  # also the end of the result's name
    title: str
    maker: str  # MODULE:CALLABLE, given the URL
    is_peer: bool = True  # needs the packages of .venv-peers

    def load(self) -> Callable[[str], Queue]:
        module, _, maker = self.maker.partition(":")
        return cast("Callable[[str], Queue]", getattr(import_module(module), maker))


OUTBOX = Entry("outbox", "outbox", "queues.farmiq_outbox:Outbox", is_peer=False)
PGQUEUER = (
    Entry("pgqueuer_batches", "pgqueuer, dequeue and log_jobs by hand", "queues.pgqueuer_queue:Batches"),
    Entry("pgqueuer_managers", "pgqueuer, QueueManager", "queues.pgqueuer_queue:Managers"),
)
PROCRASTINATE = Entry("procrastinate", "procrastinate", "queues.procrastinate_queue:Worker")

ENTRIES = {entry.name: entry for entry in (OUTBOX, *PGQUEUER, PROCRASTINATE)}
