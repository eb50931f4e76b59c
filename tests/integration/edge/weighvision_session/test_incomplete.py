"""A session that waits for too long is incomplete and has an alert, and both end when what was missing comes."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
import pytest_asyncio

from farmiq.edge.media_store import losses
from farmiq.edge.media_store import store as pictures
from farmiq.edge.weighvision_session import intake, store
from farmiq.edge.weighvision_session.events import StoredPicture
from farmiq.edge.weighvision_session.handlers import Order, attach, look
from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Pool
from support.session_rows import open_alerts
from support.station import PATIENCE, Edge
from support.weighing import ELSEWHERE, HEARD_AT, NEIGHBOUR, Weighing, presign, register_stations, store_picture


@pytest_asyncio.fixture
async def edge(edge_pool: Pool) -> AsyncIterator[Edge]:
    await register_stations(edge_pool)
    yield Edge(edge_pool)


async def incomplete_since(edge: Edge, weighing: Weighing) -> object:
    return await edge.pool.fetchval("SELECT incomplete_since FROM weight_sessions WHERE id = $1", weighing.id)


async def test_a_session_without_pictures_is_incomplete_after_ten_minutes_and_heals_when_they_arrive(
    edge: Edge,
) -> None:
    weighing = Weighing()
    await edge.hear(weighing.created(), weighing.weight(10, 120.5), weighing.finalized(60, 2))
    await edge.look()
    edge.wait(minutes=9.9)
    assert (await edge.look()).incomplete == 0
    assert await open_alerts(edge.pool) == {}
    edge.wait(minutes=0.1)
    assert (await edge.look()).incomplete == 1
    assert await incomplete_since(edge, weighing) == HEARD_AT + timedelta(minutes=10)
    ((subject, evidence),) = (await open_alerts(edge.pool)).items()
    assert "2 of 2 pictures missing" in subject
    assert (evidence["session_id"], evidence["pictures_stored"]) == (str(weighing.id), 0)
    edge.wait(minutes=60)
    await edge.upload(weighing, 1)
    assert (await edge.look()).healed == 0
    ((subject, evidence),) = (await open_alerts(edge.pool)).items()
    assert "1 of 2 pictures missing" in subject, "the alert says what is missing now"
    await edge.upload(weighing, 2)
    assert (await edge.look()).healed == 1
    assert await open_alerts(edge.pool) == {}
    assert await incomplete_since(edge, weighing) is None
    assert await edge.pool.fetchval("SELECT count(*) FROM ops_alerts") == 1, "one alert for one cause"


async def test_a_session_that_is_never_finalized_is_incomplete_and_heals_when_it_is(edge: Edge) -> None:
    weighing = Weighing()
    await edge.hear(weighing.created(), weighing.weight(10, 120.5))
    await edge.upload(weighing, 1)
    edge.wait(minutes=5)
    await edge.hear(weighing.weight(300, 121.0))
    await edge.look()
    edge.wait(minutes=9)
    assert (await edge.look()).incomplete == 0, "it was heard of nine minutes ago"
    edge.wait(minutes=1)
    assert (await edge.look()).incomplete == 1
    assert "no finalized" in next(iter(await open_alerts(edge.pool)))
    await edge.hear(weighing.finalized(400, 1))
    assert (await edge.look()).healed == 1
    assert await open_alerts(edge.pool) == {}


async def test_a_cancelled_session_is_not_waited_for(edge: Edge) -> None:
    weighing, late = Weighing(), Weighing()
    await edge.hear(weighing.created(), weighing.cancelled(5, "the animal left"), late.created())
    edge.wait(minutes=20)
    assert (await edge.look()).incomplete == 1
    await edge.hear(late.cancelled(5))
    assert (await edge.look()).healed == 1
    assert await open_alerts(edge.pool) == {}


async def test_only_sessions_that_are_due_are_looked_at(edge: Edge) -> None:
    whole = [Weighing() for _ in range(30)]
    for weighing in whole:
        await edge.upload(weighing, 1)
    await edge.hear(*(event for weighing in whole for event in (weighing.created(), weighing.weight(1, 90.0))))
    await edge.hear(*(weighing.finalized(60, 1) for weighing in whole))
    waiting = Weighing()
    await edge.hear(waiting.created())
    edge.wait(minutes=1)
    assert (await edge.look()).sessions == 31
    assert (await edge.look()).sessions == 0
    edge.wait(minutes=10)
    looked = await edge.look()
    assert (looked.sessions, looked.incomplete) == (1, 1)
    assert await edge.pool.fetchval("SELECT count(*) FROM weight_sessions WHERE look_at IS NOT NULL") == 0


async def test_looking_costs_what_is_due_and_not_what_there_is(edge: Edge) -> None:
    await edge.pool.execute(
        "INSERT INTO weight_sessions (id, tenant_id, farm_id, barn_id, device_id, status, look_at)"
        " SELECT gen_random_uuid(), 'demo', 'farm-1', 'barn-1', 'station-1', 'finalized', NULL FROM generate_series(1, 20000)"
    )
    await edge.hear(Weighing().created())
    await edge.pool.execute("ANALYZE weight_sessions")
    plan = "\n".join(row[0] for row in await edge.pool.fetch(f"EXPLAIN {store.DUE}", edge.now, 200))
    assert "Index Scan using weight_sessions_to_look_at" in plan
    assert (await edge.look()).sessions == 1


async def test_sessions_of_several_stations_and_tenants_do_not_touch_each_other(edge: Edge) -> None:
    mine, neighbours, others = Weighing(), Weighing(origin=NEIGHBOUR), Weighing(origin=ELSEWHERE)
    await edge.hear(*(weighing.created() for weighing in (mine, neighbours, others)))
    await edge.upload(others, 1)
    await edge.hear(others.weight(10, 70.0), others.finalized(60, 1))
    edge.wait(minutes=11)
    assert (await edge.look()).incomplete == 2
    assert {one["session_id"] for one in (await open_alerts(edge.pool, "demo")).values()} == {
        str(mine.id),
        str(neighbours.id),
    }
    assert await open_alerts(edge.pool, "other") == {}


async def test_another_station_cannot_add_to_a_session_and_another_tenants_is_another_session(edge: Edge) -> None:
    mine = Weighing()
    await edge.hear(mine.created())
    for origin in (NEIGHBOUR, ELSEWHERE):
        thief = Weighing(mine.id, origin)
        await edge.upload(Weighing(origin=origin), 1)
        refused = await edge.hear(thief.weight(10, 1.0), thief.cancelled(20), thief.finalized(30, 0))
        assert refused == (["session_of_another_device"] * 3 if origin is NEIGHBOUR else [])
        await edge.upload(Weighing(origin=origin), 7)
    stolen = Weighing(mine.id, NEIGHBOUR)
    await edge.upload(stolen, 5)
    assert await edge.pool.fetchval("SELECT count(*) FROM session_pictures WHERE session_id = $1", mine.id) == 0
    assert tuple(
        await edge.pool.fetchrow(
            "SELECT device_id, status, final_weight_kg FROM weight_sessions WHERE id = $1 AND tenant_id = 'demo'",
            mine.id,
        )
        or ()
    ) == ("station-1", "created", None)
    status = "SELECT status FROM weight_sessions WHERE id = $1 AND tenant_id <> 'demo'"
    assert await edge.pool.fetchval(status, mine.id) == "finalized"
    weights = await edge.pool.fetch("SELECT tenant_id FROM session_weights WHERE session_id = $1", mine.id)
    assert [row["tenant_id"] for row in weights] == [ELSEWHERE.tenant_id]


async def test_two_replicas_that_look_at_the_same_time_raise_one_alert(edge: Edge) -> None:
    weighings = [Weighing() for _ in range(20)]
    await edge.hear(*(weighing.created() for weighing in weighings))
    edge.wait(minutes=11)
    looks = await asyncio.gather(*(look(edge.pool, edge.now, PATIENCE) for _ in range(4)))
    assert sum(one.incomplete for one in looks) == 20
    assert await edge.pool.fetchval("SELECT count(*) FROM ops_alerts") == 20


async def test_a_picture_that_is_lost_later_is_missed_and_its_return_heals(edge: Edge) -> None:
    weighing = Weighing()
    await edge.hear(weighing.created(), weighing.weight(10, 120.5), weighing.image(20, 1), weighing.finalized(60, 2))
    await edge.upload(weighing, 1, 2)
    await edge.look()
    edge.wait(minutes=60)
    assert (await edge.look()).incomplete == 0
    async with edge.pool.acquire() as connection, connection.transaction():
        lost = await pictures.lock(connection, weighing.media_id(1))
        assert lost is not None
        await losses.mark_missing(connection, lost.media_id)
        await intake.picture_lost(connection, lost.tenant_id, lost.media_id, edge.now)
    assert (await edge.look()).incomplete == 1
    ((subject, evidence),) = (await open_alerts(edge.pool)).items()
    assert "1 of 2 pictures missing" in subject
    assert evidence["pictures_stored"] == 1
    await edge.hear(weighing.image(21, 1))
    assert (await edge.look()).healed == 0, "a station's word about a picture that is missing does not bring it back"
    await store_picture(edge.pool, weighing.stored(1, edge.now))
    assert (await edge.look()).healed == 1


async def test_a_picture_that_is_missing_does_not_count_when_it_is_attached(edge: Edge) -> None:
    weighing, picture = Weighing(), new_id()
    await edge.hear(weighing.created(), weighing.weight(10, 120.5), weighing.finalized(60, 1))
    await presign(edge.pool, weighing.origin, picture)
    await store_picture(edge.pool, StoredPicture(weighing.origin, picture, None, edge.now, "trace-2"))
    async with edge.pool.acquire() as connection:
        await losses.mark_missing(connection, picture)
    await attach(edge.pool, Order("demo", weighing.id, "by hand", edge.now, "trace-3"), picture)
    edge.wait(minutes=10)
    assert (await edge.look()).incomplete == 1


async def test_a_session_is_full_for_stored_pictures_too(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "PICTURES_MAX", 2)
    weighing = Weighing()
    await edge.hear(weighing.created())
    await edge.upload(weighing, 1, 2, 3)
    await store_picture(edge.pool, weighing.stored(1, edge.now))
    bound = await edge.pool.fetch("SELECT media_id FROM session_pictures WHERE session_id = $1", weighing.id)
    assert {row["media_id"] for row in bound} == {weighing.media_id(1), weighing.media_id(2)}
    assert await edge.hear(weighing.image(5, 3)) == ["session_full"]
