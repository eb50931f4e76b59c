"""Which stores lose power, and when each of them tells its user that a sample is safe.

Every store gets one sample a record, as a connector with one value a message makes them, with the settings that it comes with.
"""

from dataclasses import dataclass

from stores.catalogue import Entry


@dataclass(frozen=True, slots=True)
class Contender:
    entry: Entry
    promise: str  # what returned when the sample was acknowledged
    is_told_by_sync: bool = False  # otherwise by `append`


SPOOL = Contender(
    Entry("spool", "spool", "stores.farmiq_spool:short_segments"),
    "`append_many` and `sync`, after which node-forwarder answers its agent",
    is_told_by_sync=True,
)
SQLITE = (
    Contender(Entry("sqlite_full", "SQLite WAL, FULL", "stores.sqlite_wal:full"), "`COMMIT`"),
    Contender(Entry("sqlite_normal", "SQLite WAL, NORMAL", "stores.sqlite_wal:normal"), "`COMMIT`"),
)
GATEWAY = (
    Contender(Entry("tb_file", "ThingsBoard Gateway file", "stores.thingsboard:file", is_peer=True), "`put`"),
    Contender(Entry("tb_sqlite", "ThingsBoard Gateway SQLite", "stores.thingsboard:sqlite", is_peer=True), "`put`"),
)
PERSIST_QUEUE = (
    Contender(Entry("pq_file", "persist-queue file", "stores.persist_queue:file", is_peer=True), "`put`"),
    Contender(Entry("pq_sqlite", "persist-queue SQLite ack", "stores.persist_queue:sqlite", is_peer=True), "`put`"),
)

CONTENDERS = {contender.entry.name: contender for contender in (SPOOL, *SQLITE, *GATEWAY, *PERSIST_QUEUE)}
