"""Faults in our own code, put in on purpose: each is one that somebody could make, and the simulation must find it.

A mutation changes one place for as long as its context lasts. What it says is what a reader would say in a review.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch
from uuid import UUID

from farmiq.cloud.ingestion import epochs
from farmiq.cloud.ingestion import handlers as entrance
from farmiq.cloud.ingestion import store as dedupe
from farmiq.device.node_forwarder.acks import AckReader, Meaning
from farmiq.device.node_forwarder.publisher import Publisher
from farmiq.edge.ingress_gateway import put_off
from farmiq.edge.ingress_gateway.screening import Refusal
from farmiq.kit import bus_worker
from farmiq.spool.keeper import Keeper
from farmiq.timeseries.content import Block, BlockContent, contents_of
from farmiq.timeseries.coverage import Span
from farmiq.timeseries.samples import StreamBatch
from simulation import cloud_tables, outbox_tables
from simulation.database import Database, Transaction
from simulation.outbox_tables import OutboxRow

Patch = AbstractContextManager[Any]


def node_trusts_puback() -> Patch:
    """The node takes the broker's confirmation for the edge's."""
    send_next = Publisher._send_next

    async def trusting(self: Publisher, *args: Any) -> tuple[int, int | None]:
        sent_bytes, last_seq = await send_next(self, *args)
        if sent_bytes and last_seq is not None:
            await self._recorder.run(lambda: self._recorder.spool.acknowledge(last_seq))
        return sent_bytes, last_seq

    return patch.object(Publisher, "_send_next", trusting)


def node_forgets_the_epoch() -> Patch:
    """The node takes a restored database for the one that it knew."""
    read = AckReader.read

    def forgetful(self: AckReader, *said: Any) -> Meaning:
        meaning = read(self, *said)
        return Meaning.PROGRESS if meaning is Meaning.WENT_BACK and self._left - {""} else meaning

    return patch.object(AckReader, "read", forgetful)


@contextmanager
def refusals_are_final() -> Iterator[None]:
    """The edge rejects what its register does not know, and the node takes that for an acknowledgement of its losses."""

    def forgetful(self: Publisher, loss_ids: Iterable[UUID]) -> None:
        self._recorder.spool.losses.acknowledge(list(loss_ids))

    with (
        patch.object(Refusal, "is_put_off", property(lambda _self: False)),
        patch.object(put_off, "limits", lambda _refusals: []),
        patch.object(Publisher, "losses_refused", forgetful),
    ):
        yield


def spool_drops_without_a_word() -> Patch:
    """The spool gives samples up and writes no loss record."""
    return patch.object(Keeper, "_declare_dropped", lambda _self, _segment, _cause: None)


def spool_never_syncs() -> Patch:
    """The spool says "stored" when the kernel has it."""
    return patch("farmiq.spool.disk.sync_data", lambda _fd: None)


def gateway_tells_before_the_commit() -> Patch:
    """The gateway tells a device what it is about to store."""
    leave = Transaction.__aexit__

    async def hasty(self: Transaction, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None or not self.process.name.startswith("gateway"):
            await leave(self, kind, error, trace)
            return
        self.close()
        self.database.loop.call_later(0.3, self.commit)

    return patch.object(Transaction, "__aexit__", hasty)


def edge_database_commits_without_a_sync() -> Patch:
    """`synchronous_commit = off` where the gateway commits."""

    def unsynced(self: Database, *, is_synced: bool) -> None:
        if is_synced and self.name != "edge":
            self.sync()

    return patch.object(Database, "committed", unsynced)


def outbox_has_no_fence() -> Patch:
    """A settlement asks only for the row's id, and not whose it is by now."""

    def held(database: Database, ids: Sequence[UUID], *_fences: Sequence[Any]) -> list[OutboxRow]:
        known = database.tables["outbox"]
        return [known[event_id] for event_id in ids if event_id in known]

    return patch.object(outbox_tables, "_held", held)


def entrance_commits_before_the_bus_confirms() -> Patch:
    """The entrance remembers an event first, and publishes it second."""

    async def early(
        pool: Any, publisher: Any, owners: Any, candidates: Any, asked: Any, _expansion: Any
    ) -> entrance.Published:
        async with pool.acquire() as connection, connection.transaction():
            count = await epochs.count_of(connection, asked.subject[0], asked.subject[1], asked.heard)
            held = await owners.judge(connection, candidates.values()) if candidates else {}
            wanted = {key: candidates[key] for key in candidates if key not in held}
            added = await dedupe.add(connection, wanted, count.answered)
            there = await dedupe.known(connection, candidates.keys() - added)
            repeated = frozenset(key for key, one in there.items() if one.may_be_lost)
            await dedupe.passed_on(connection, repeated)
            epoch = await epochs.number_answer(connection, asked.subject[0], asked.subject[1], count, asked.heard)
        fresh = [key for key in candidates if key in added or key in repeated]
        failures = dict(
            zip(fresh, await publisher.publish_many([candidates[key].message for key in fresh]), strict=True)
        )
        known = {key: one.content_hash for key, one in there.items()}
        known |= {key: candidates[key].content_hash for key in fresh}
        return entrance.Published(failures, known, held, repeated, epoch)

    return patch.object(entrance, "_publish_new", early)


def store_acknowledges_before_the_commit() -> Patch:
    """The cloud's store tells the bus first, and the database second."""

    async def early(life: Any, worker: Any, work: Any, metrics: Any) -> None:
        while deliveries := await worker.consumer.next_batch(worker.batch_messages, worker.batch_wait_seconds):
            await worker.consumer.acknowledge(deliveries)
            attempt = partial(bus_worker.work_through, work, deliveries)
            await bus_worker._until_durable(life, worker.queue.name, metrics, attempt)

    return patch.object(bus_worker, "_consume", early)


def cloud_does_not_compare_what_was_heard() -> Patch:
    """The cloud takes an edge's word for an answer that it has never given."""
    return patch.object(epochs, "is_known", lambda *_: True)


def cloud_remembers_what_it_may_have_lost() -> Patch:
    """What was accepted before a restore is a duplicate, also if its message was on the bus that was lost."""
    return patch.object(cloud_tables, "_may_be_lost", lambda *_: False)


def stores_whatever_comes() -> Patch:
    """Coverage is not asked: what is delivered twice is stored twice."""
    return patch("farmiq.timeseries.admission.missing", lambda _covered, wanted: [wanted])


def digest_counts_what_was_delivered() -> Patch:
    """The digest has a part of what was here before: of a whole batch of which only a run is new."""

    def of_whole_batches(parts: Iterable[tuple[StreamBatch, Span]]) -> dict[Block, BlockContent]:
        return contents_of((item, item.span) for item, _ in parts)

    return patch("farmiq.timeseries.admission.contents_of", of_whole_batches)


MUTATIONS = {
    mutation.__name__: mutation
    for mutation in (
        node_trusts_puback,
        node_forgets_the_epoch,
        refusals_are_final,
        spool_drops_without_a_word,
        spool_never_syncs,
        gateway_tells_before_the_commit,
        edge_database_commits_without_a_sync,
        outbox_has_no_fence,
        entrance_commits_before_the_bus_confirms,
        store_acknowledges_before_the_commit,
        cloud_does_not_compare_what_was_heard,
        cloud_remembers_what_it_may_have_lost,
        stores_whatever_comes,
        digest_counts_what_was_delivered,
    )
}
