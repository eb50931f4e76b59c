"""Which stores there are, how they are called in the table, and which environment they run in."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import cast

from stores import Store


@dataclass(frozen=True, slots=True)
class Entry:
    name: str  # also the end of the result's name
    title: str
    maker: str  # MODULE:CALLABLE, given the folder
    is_peer: bool = False  # needs the packages of .venv-peers

    def load(self) -> Callable[[Path], Store]:
        """What opens it. Apart from opening, because importing a peer takes longer than most of them need to open."""
        module, _, maker = self.maker.partition(":")
        return cast("Callable[[Path], Store]", getattr(import_module(module), maker))


BARE = Entry("bare", "bare loop", "stores.bare_loop:BareLoop")
SPOOL = Entry("spool", "spool", "stores.farmiq_spool:FarmiqSpool")
SQLITE = (
    Entry("sqlite_full", "SQLite WAL, FULL", "stores.sqlite_wal:full"),
    Entry("sqlite_normal", "SQLite WAL, NORMAL + fdatasync", "stores.sqlite_wal:normal"),
    Entry("sqlite_long", "SQLite WAL, one transaction a sync", "stores.sqlite_wal:one_transaction"),
)
PEERS = (
    Entry("pq_file", "persist-queue file, sample an item", "stores.persist_queue:file", is_peer=True),
    Entry("pq_file_packed", "persist-queue file, group an item", "stores.persist_queue:file_packed", is_peer=True),
    Entry("pq_sqlite", "persist-queue SQLite ack, sample an item", "stores.persist_queue:sqlite", is_peer=True),
    Entry(
        "pq_sqlite_packed",
        "persist-queue SQLite ack, group an item",
        "stores.persist_queue:sqlite_packed",
        is_peer=True,
    ),
    Entry("tb_file", "ThingsBoard file, sample a record", "stores.thingsboard:file", is_peer=True),
    Entry("tb_file_packed", "ThingsBoard file, 8 kB a record", "stores.thingsboard:file_packed", is_peer=True),
    Entry("tb_sqlite", "ThingsBoard SQLite, sample a record", "stores.thingsboard:sqlite", is_peer=True),
    Entry("tb_sqlite_packed", "ThingsBoard SQLite, 8 kB a record", "stores.thingsboard:sqlite_packed", is_peer=True),
)

ENTRIES = {entry.name: entry for entry in (BARE, SPOOL, *SQLITE, *PEERS)}
