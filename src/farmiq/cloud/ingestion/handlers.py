"""What happens to a batch, in order. The transaction ends after the bus has confirmed, and the answer goes out after that."""

from collections.abc import Sequence

from farmiq.cloud import bus_users, drain
from farmiq.cloud.ingestion import store
from farmiq.cloud.ingestion.expansion import Expansion
from farmiq.cloud.ingestion.screening import Candidate, Key, rejected
from farmiq.contracts.sync import EventResult
from farmiq.kit.amqp import Publisher, Unroutable
from farmiq.kit.errors import Transient, reason_of
from farmiq.kit.postgres import RETRY, DatabaseAway, Pool

POOL_WAIT_SECONDS = 10.0


class PartlyPublished(Transient):
    """RabbitMQ did not take all of the batch. What it took is remembered; the edge sends the batch again."""


async def ingest(
    pool: Pool, publisher: Publisher, items: Sequence[Candidate | EventResult], expansion: Expansion | None = None
) -> list[EventResult]:
    """One result for each item, in order. Raises something `Transient` when the batch must come again."""
    # The same event twice in one batch is one event: the first stands, the second is answered as a duplicate.
    first: dict[Key, Candidate] = {}
    for item in items:
        if isinstance(item, Candidate):
            first.setdefault(item.key, item)
    failures = await _publish_new(pool, publisher, first, expansion) if first else {}
    waiting = [why for why in failures.values() if why is not None and not isinstance(why, Unroutable)]
    if waiting:
        raise PartlyPublished(
            f"{len(waiting)} of {len(items)} events could not be published: {waiting[0]}", code=waiting[0].code
        )
    return [_result(item, first, failures) for item in items]


async def _publish_new(
    pool: Pool, publisher: Publisher, candidates: dict[Key, Candidate], expansion: Expansion | None
) -> dict[Key, Transient | None]:
    """Each event that was new, with None when it is on the bus now, else why not. Committed when this returns."""
    try:
        async with pool.acquire(timeout=POOL_WAIT_SECONDS) as connection, connection.transaction():
            await drain.enter(connection)
            added = await store.add(connection, candidates)
            fresh = [key for key in candidates if key in added]
            answers = await publisher.publish_many([candidates[key].message for key in fresh])
            failures = dict(zip(fresh, answers, strict=True))
            await _copy(publisher, await bus_users.tenants(connection), candidates, failures)
            if expansion is not None:
                await _expand(expansion, candidates, failures)
            unpublished = [key for key, why in failures.items() if why is not None]
            if unpublished:
                await store.forget(connection, unpublished)
    except RETRY as error:
        raise DatabaseAway(f"PostgreSQL: {reason_of(error)}") from error
    return failures


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
    item: Candidate | EventResult, first: dict[Key, Candidate], failures: dict[Key, Transient | None]
) -> EventResult:
    if isinstance(item, EventResult):
        return item
    event_id = item.key[1]
    if item.key not in failures or first[item.key] is not item:
        return EventResult(event_id=event_id, status="duplicate")
    why = failures[item.key]
    if why is not None:
        return rejected(event_id, why.code, str(why))
    return EventResult(event_id=event_id, status="accepted")
