"""Every order of a session's events, with repetitions, through the gateway's transaction into a real database."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from itertools import permutations
from typing import Any
from uuid import UUID

import pytest_asyncio

from farmiq.contracts import event_types
from farmiq.edge.ingress_gateway.handlers import Outcome, ingest
from farmiq.edge.weighvision_session.events import SessionEvent, StoredPicture
from farmiq.edge.weighvision_session.handlers import look
from farmiq.edge.weighvision_session.watch import Patience
from farmiq.kit.postgres import Pool
from support.session_rows import everything_of, everything_of_each, told_of, told_of_each
from support.weighing import HEARD_AT, STATION, Weighing, message_of, presign_each, register_stations, store_picture

PATIENCE = Patience(incomplete=timedelta(minutes=10), settle=timedelta(seconds=15), unbound=timedelta(hours=72))
LATER = HEARD_AT + timedelta(minutes=1)

Fact = SessionEvent | StoredPicture


@pytest_asyncio.fixture
async def pool(edge_pool: Pool) -> AsyncIterator[Pool]:
    await register_stations(edge_pool)
    yield edge_pool


def facts_of(weighing: Weighing) -> list[Fact]:
    """The document's session: two weights, one picture of two announced before its bytes are there, one never announced."""
    return [
        weighing.created(0),
        weighing.weight(10, 120.5),
        weighing.weight(40, 121.0),
        weighing.image(12, 1),
        weighing.stored(1),
        weighing.finalized(120, 2),
    ]


async def happen(pool: Pool, facts: Sequence[Fact]) -> list[Outcome]:
    messages = [message_of(fact) for fact in facts if isinstance(fact, SessionEvent)]
    outcomes = await ingest(pool, messages, HEARD_AT) if messages else []
    if stored := [fact for fact in facts if isinstance(fact, StoredPicture)]:
        await store_picture(pool, *stored)
    return outcomes


async def presign_all(pool: Pool, weighings: Sequence[Weighing], *, with_session: bool = True) -> None:
    wanted = [(weighing.media_id(1), weighing.id if with_session else None) for weighing in weighings]
    await presign_each(pool, STATION, wanted)


def payloads(told: list[tuple[str, UUID, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
    """Without ids, and without the picture's, which are each session's own."""
    return sorted(
        ((kind, {name: value for name, value in payload.items() if name != "media_id"}) for kind, _, payload in told),
        key=repr,
    )


async def test_every_order_of_a_sessions_events_ends_in_the_same_session_and_tells_the_cloud_the_same(
    pool: Pool,
) -> None:
    orders = list(permutations(range(6)))
    weighings = [Weighing() for _ in orders]
    await presign_all(pool, weighings)
    facts = [facts_of(weighing) for weighing in weighings]
    # All sessions at once, each in its own order: the first event of each, then the second of each, and so on.
    for step in range(6):
        now = [own[order[step]] for own, order in zip(facts, orders, strict=True)]
        for first in range(0, len(now), 240):
            outcomes = await happen(pool, now[first : first + 240])
            assert [refusal for outcome in outcomes for refusal in outcome.refusals] == []
    while (await look(pool, LATER, PATIENCE)).sessions:
        pass
    ids = [weighing.id for weighing in weighings]
    everything, everything_told = await everything_of_each(pool, ids), await told_of_each(pool, ids)
    expected = everything[ids[0]]
    assert expected["session"][0][6:] == (
        "finalized", weighings[0].created().at, weighings[0].finalized(120, 2).at, 120.5, 121.0, 2, None,
    )  # fmt: skip
    told = payloads(everything_told[ids[0]])
    assert [kind for kind, _ in told] == [
        event_types.IMAGE_CAPTURED, event_types.SESSION_CREATED, event_types.SESSION_FINALIZED,
        event_types.WEIGHT_RECORDED, event_types.WEIGHT_RECORDED,
    ]  # fmt: skip
    for session_id, order in zip(ids, orders, strict=True):
        assert everything[session_id] == expected, order
        found = payloads(everything_told[session_id])
        # Whether the first weight was known when the session was created depends on the order; how it ended does not.
        assert [one for one in found if one[0] != event_types.SESSION_CREATED] == [
            one for one in told if one[0] != event_types.SESSION_CREATED
        ], order


async def test_repeated_after_the_gateway_has_forgotten_the_events_nothing_changes(pool: Pool) -> None:
    rng = random.Random(11)
    weighing, plain = Weighing(), Weighing()
    await presign_all(pool, [weighing, plain])
    await happen(pool, facts_of(plain))
    for _ in range(12):
        facts = facts_of(weighing) * 2
        rng.shuffle(facts)
        for fact in facts:
            outcomes = await happen(pool, [fact])
            assert [refusal.code for outcome in outcomes for refusal in outcome.refusals] == []
        await pool.execute("DELETE FROM ingress_dedupe")
        await look(pool, LATER, PATIENCE)
    assert await everything_of(pool, weighing.id) == await everything_of(pool, plain.id)
    told = await told_of(pool, weighing.id)
    assert len(told) == len({event_id for _, event_id, _ in told}) == 5
    assert await pool.fetchval("SELECT told_revision FROM weight_sessions WHERE id = $1", weighing.id) == 1


async def test_all_at_once_from_many_connections_ends_the_same(pool: Pool) -> None:
    """Each event and each picture in a transaction of its own, all of them side by side."""
    weighings = [Weighing() for _ in range(12)]
    plain = Weighing()
    await presign_all(pool, [*weighings, plain])
    await happen(pool, facts_of(plain))
    facts = [fact for weighing in weighings for fact in facts_of(weighing)]
    random.Random(3).shuffle(facts)
    await asyncio.gather(*(happen(pool, [fact]) for fact in facts))
    for weighing in weighings:
        assert await everything_of(pool, weighing.id) == await everything_of(pool, plain.id)


async def test_a_picture_that_was_signed_without_its_session_is_bound_by_the_topic_in_either_order(pool: Pool) -> None:
    first, last = Weighing(), Weighing()
    await presign_all(pool, [first, last], with_session=False)
    await happen(pool, [first.created(), first.image(12, 1), first.stored(1)])
    await happen(pool, [last.created(), last.stored(1)])
    assert await pool.fetchval("SELECT count(*) FROM session_pictures WHERE session_id = $1", last.id) == 0, "unbound"
    await happen(pool, [last.image(12, 1)])
    assert await everything_of(pool, first.id) == await everything_of(pool, last.id)
    assert (await everything_of(pool, last.id))["pictures"] == [(last.image(12, 1).at, True)]


async def test_a_picture_whose_session_nobody_has_spoken_of_waits_for_it(pool: Pool) -> None:
    weighing = Weighing()
    await presign_all(pool, [weighing])
    await happen(pool, [weighing.stored(1)])
    session = (await everything_of(pool, weighing.id))["session"][0]
    assert session[6:10] == ("created", None, None, None), "nothing is known of it but its picture"
    await happen(pool, [weighing.created(), weighing.weight(10, 99.0), weighing.finalized(60, 1)])
    await look(pool, LATER, PATIENCE)
    assert (await everything_of(pool, weighing.id))["session"][0][6:11] == (
        "finalized", weighing.created().at, weighing.finalized(60, 1).at, 99.0, 99.0,
    )  # fmt: skip
