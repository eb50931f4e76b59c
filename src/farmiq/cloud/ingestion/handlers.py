"""What happens to a batch, in order. The transaction ends after the bus has confirmed, and the answer goes out after that."""

from collections.abc import Sequence

from msgspec import Struct

from farmiq.cloud import bus_users, drain
from farmiq.cloud.ingestion import store
from farmiq.cloud.ingestion.epochs import count_of, number_answer
from farmiq.cloud.ingestion.expansion import Expansion
from farmiq.cloud.ingestion.ownership import Hold, Owners
from farmiq.cloud.ingestion.screening import Candidate, Key, rejected
from farmiq.contracts.sync import CloudEpoch, EventResult, EventStatus, HeardAnswer
from farmiq.kit.amqp import Publisher, Unroutable
from farmiq.kit.errors import Transient, reason_of
from farmiq.kit.postgres import RETRY, DatabaseAway, Pool

POOL_WAIT_SECONDS = 10.0
EVENT_ID_REUSED = "event_id_reused"


class PartlyPublished(Transient):
    """RabbitMQ did not take all of the batch. What it took is remembered; the edge sends the batch again."""


class Asked(Struct, frozen=True, kw_only=True):
    """What the sender says beside the events. `subject`: the tenant and the edge whose answers are counted; None for somebody who
    names no tenant."""

    subject: tuple[str, str] | None = None
    heard: HeardAnswer | None = None
    understands_held: bool = False


class Published(Struct, frozen=True):
    """`failures`: each event that was new, with None when it is on the bus now, else why not. `known`: the content that each id
    stands for. `held`: what belongs to another edge. `repeated`: not new, and put on the bus once more: it may have been lost."""

    failures: dict[Key, Transient | None]
    known: dict[Key, bytes | None]
    held: dict[Key, Hold]
    repeated: frozenset[Key] = frozenset()
    epoch: CloudEpoch | None = None


async def ingest(
    pool: Pool,
    publisher: Publisher,
    owners: Owners,
    items: Sequence[Candidate | EventResult],
    asked: Asked,
    expansion: Expansion | None = None,
) -> tuple[list[EventResult], CloudEpoch | None]:
    """One result for each item, in order, and the epoch with the number of this answer, where answers are counted.

    Raises something `Transient` when the batch must come again."""
    # The same event twice in one batch is one event: the first stands, and the second is compared with it.
    first: dict[Key, Candidate] = {}
    for item in items:
        if isinstance(item, Candidate):
            first.setdefault(item.key, item)
    done = Published({}, {}, {})
    if first or asked.subject is not None:
        done = await _publish_new(pool, publisher, owners, first, asked, expansion)
    waiting = [why for why in done.failures.values() if why is not None and not isinstance(why, Unroutable)]
    if waiting:
        raise PartlyPublished(
            f"{len(waiting)} of {len(items)} events could not be published: {waiting[0]}", code=waiting[0].code
        )
    return [_result(item, done, first, understands_held=asked.understands_held) for item in items], done.epoch


async def _publish_new(
    pool: Pool,
    publisher: Publisher,
    owners: Owners,
    candidates: dict[Key, Candidate],
    asked: Asked,
    expansion: Expansion | None,
) -> Published:
    """Committed when this returns."""
    try:
        async with pool.acquire(timeout=POOL_WAIT_SECONDS) as connection, connection.transaction():
            await drain.enter(connection)
            await store.limit_waiting(connection)
            count = None if asked.subject is None else await count_of(connection, *asked.subject, asked.heard)
            held = await owners.judge(connection, candidates.values()) if candidates else {}
            wanted = {key: candidates[key] for key in candidates if key not in held}
            added = await store.add(connection, wanted, count.answered if count else None)
            there = await store.known(connection, candidates.keys() - added)
            repeated = frozenset(
                key for key, one in there.items() if one.may_be_lost and _is_same(candidates[key], one)
            )
            fresh = [key for key in candidates if key in added or key in repeated]
            answers = await publisher.publish_many([candidates[key].message for key in fresh])
            failures = dict(zip(fresh, answers, strict=True))
            await _copy(publisher, await bus_users.tenants(connection), candidates, failures)
            if expansion is not None:
                await _expand(expansion, candidates, failures)
            unpublished = [key for key, why in failures.items() if why is not None]
            if unpublished:
                await store.forget(connection, unpublished)
            await store.passed_on(connection, repeated)
            epoch = None
            if asked.subject is not None and count is not None:
                epoch = await number_answer(connection, *asked.subject, count, asked.heard)
    except RETRY as error:
        raise DatabaseAway(f"PostgreSQL: {reason_of(error)}") from error
    known = {key: one.content_hash for key, one in there.items()} | {key: candidates[key].content_hash for key in added}
    return Published(failures, known, held, repeated, epoch)


async def _copy(
    publisher: Publisher,
    tenants: frozenset[str],
    candidates: dict[Key, Candidate],
    failures: dict[Key, Transient | None],
) -> None:
    """For those who read along, once the event itself is on the bus. Killed in between, the batch comes again with both."""
    copied = [key for key, why in failures.items() if why is None and key[0] in tenants]
    copies = [bus_users.copy_for(key[0], candidates[key].message) for key in copied]
    if copies:
        failures |= dict(zip(copied, await bus_users.publish_copies(publisher, copies), strict=True))


async def _expand(
    expansion: Expansion, candidates: dict[Key, Candidate], failures: dict[Key, Transient | None]
) -> None:
    """A pack of which a sample is not on the bus counts as not published, and comes again with all of them."""
    for key, why in failures.items():
        pack = candidates[key].pack
        if why is None and pack is not None:
            failures[key] = await expansion.publish(candidates[key].envelope, pack)


def _result(
    item: Candidate | EventResult, done: Published, first: dict[Key, Candidate], *, understands_held: bool
) -> EventResult:
    if isinstance(item, EventResult):
        return item
    event_id = item.key[1]
    # As in `_is_same`.
    if done.known.get(item.key) not in {None, item.content_hash}:
        return rejected(event_id, EVENT_ID_REUSED, "another event of this tenant has this event_id already")
    # What is here already is a duplicate for every edge: it may have come before the device was moved.
    if (hold := done.held.get(item.key)) is not None and item.key not in done.known:
        status: EventStatus = "held" if understands_held else "rejected"
        return EventResult(event_id=event_id, status=status, code=hold.code, message=hold.message)
    if (why := done.failures.get(item.key)) is not None:
        return rejected(event_id, why.code, str(why))
    is_new = item.key in done.failures and item.key not in done.repeated and first[item.key] is item
    return EventResult(event_id=event_id, status="accepted" if is_new else "duplicate")


def _is_same(candidate: Candidate, known: store.Known) -> bool:
    """A row of an earlier release has no hash: nobody can say that the id stood for something else."""
    return known.content_hash in {None, candidate.content_hash}
