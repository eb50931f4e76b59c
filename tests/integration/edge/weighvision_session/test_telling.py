"""What the cloud is told of a session: every word of the station once, and the end once it is settled."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import msgspec
import pytest_asyncio

from farmiq.contracts import event_types
from farmiq.edge import new_life
from farmiq.edge.media_store.intake import pictures_of
from farmiq.edge.weighvision_session import store
from farmiq.edge.weighvision_session.handlers import Order, attach, finalize
from farmiq.edge.weighvision_session.views import view_of
from farmiq.kit.postgres import Pool
from support.session_rows import open_alerts, told_of
from support.station import Edge
from support.stored_months import settle_outbox
from support.weighing import ELSEWHERE, STATION, Weighing, presign, register_stations, store_picture

ENDS = (event_types.SESSION_FINALIZED, event_types.SESSION_CANCELLED)


@pytest_asyncio.fixture
async def edge(edge_pool: Pool) -> AsyncIterator[Edge]:
    await register_stations(edge_pool)
    yield Edge(edge_pool)


async def ends(edge: Edge, weighing: Weighing) -> list[tuple[UUID, dict[str, Any]]]:
    told = await told_of(edge.pool, weighing.id)
    return sorted(
        ((event_id, payload) for kind, event_id, payload in told if kind in ENDS),
        key=lambda one: one[1].get("revision", 1),
    )


async def test_the_documented_events_reach_the_outbox_under_the_stations_own_ids(edge: Edge) -> None:
    weighing = Weighing()
    result = weighing.result(1, 0.94)
    words = [
        weighing.created(0, batch_id="018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0400", initial_weight_kg=120.5),
        weighing.weight(10, 121.0),
        weighing.image(12, 1),
        weighing.finalized(120, 1),
    ]
    await edge.upload(weighing, 1)
    await edge.hear(*words)
    await edge.infer(result)
    await edge.look()
    rows = await edge.pool.fetch(
        "SELECT event_type, id, tenant_id, farm_id, barn_id, device_id, session_id, occurred_at, trace_id FROM sync_outbox"
        " WHERE event_type LIKE 'weighvision.%' ORDER BY occurred_at"
    )
    assert [(row["id"], row["occurred_at"]) for row in rows] == [(word.event_id, word.at) for word in words]
    place = ("demo", "farm-1", "barn-1", "station-1", weighing.id)
    assert {tuple(row)[2:7] for row in rows} == {place}
    assert [payload for _, _, payload in await told_of(edge.pool, weighing.id) if "status" in payload] == [
        {"status": "created", "batch_id": "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0400", "initial_weight_kg": 120.5},
        {
            "status": "finalized", "final_weight_kg": 121.0, "image_count": 1, "inference_result_id": str(result.id),
            "initial_weight_kg": 120.5,
        },
    ]  # fmt: skip


async def test_the_end_is_told_once_with_final_weight_and_inference(edge: Edge) -> None:
    weighing = Weighing()
    await edge.hear(
        weighing.created(), weighing.weight(10, 120.5), weighing.weight(50, 121.0), weighing.finalized(60, 2)
    )
    await edge.look()
    await edge.upload(weighing, 1, 2)
    await edge.infer(weighing.result(1, 0.9))
    await edge.look()
    assert await ends(edge, weighing) == [], "one picture has not been looked at"
    best = weighing.result(2, 0.97)
    await edge.infer(best)
    for _ in range(3):
        await edge.look()
        edge.wait(minutes=30)
    ((event_id, payload),) = await ends(edge, weighing)
    assert event_id == weighing.finalized(60, 2).event_id
    assert (payload["final_weight_kg"], payload["inference_result_id"]) == (121.0, str(best.id))
    assert "revision" not in payload


async def test_late_inference_and_late_weights_are_told_as_the_next_revision(edge: Edge) -> None:
    weighing = Weighing()
    await edge.hear(weighing.created(), weighing.weight(10, 120.5), weighing.finalized(60, 1))
    edge.wait(minutes=1)
    await edge.look()
    edge.wait(minutes=60)
    await edge.upload(weighing, 1)
    await edge.infer(weighing.result(1, 0.9))
    await edge.look()
    await edge.hear(weighing.weight(55, 122.0))
    await edge.look()
    told = await ends(edge, weighing)
    assert [(payload.get("revision", 1), payload["final_weight_kg"]) for _, payload in told] == [
        (1, 120.5), (2, 120.5), (3, 122.0),
    ]  # fmt: skip
    assert [payload.get("inference_result_id") for _, payload in told] == [None, *[str(weighing.result(1, 0.9).id)] * 2]
    assert len({event_id for event_id, _ in told}) == 3
    assert told[0][0] == weighing.finalized(60, 1).event_id


async def test_a_restored_edge_tells_the_end_above_all_that_was_told_before(edge: Edge) -> None:
    """promise-cloud 9: the backup is older than the first telling, which went out; this time more is known."""
    weighing = Weighing()
    words = (weighing.created(), weighing.weight(10, 120.5), weighing.finalized(60, 1))
    await edge.hear(*words)
    edge.wait(minutes=1)
    await edge.look()
    [(first_id, first)] = await ends(edge, weighing)
    await settle_outbox(edge.pool, "claimed", "acked")
    await edge.pool.execute("DELETE FROM sync_outbox")
    await edge.pool.execute("DELETE FROM weight_sessions")
    await edge.pool.execute("DELETE FROM ingress_dedupe")
    await edge.pool.execute(
        "INSERT INTO sync_state (tenant_id, cloud_epoch, cloud_answer, cloud_heard_at)"
        " VALUES ('demo', gen_random_uuid(), 3, now())"
    )
    async with edge.pool.acquire() as connection, connection.transaction():
        await new_life.begin(connection)
    await edge.hear(*words, weighing.weight(55, 122.0))
    edge.wait(minutes=1)
    await edge.look()
    assert await ends(edge, weighing) == [], "the cloud has given more answers than this database knows"
    await edge.pool.execute("UPDATE sync_state SET cloud_answer = 40, cloud_heard_at = now()")
    edge.wait(minutes=1)
    await edge.look()
    await edge.hear(weighing.weight(57, 123.0))
    await edge.look()
    told = await ends(edge, weighing)
    assert [(payload["revision"], payload["final_weight_kg"]) for _, payload in told] == [(41, 122.0), (42, 123.0)]
    assert len({first_id, *(event_id for event_id, _ in told)}) == 3
    assert first["final_weight_kg"] == 120.5


async def test_an_end_is_told_only_when_the_cloud_knows_it_as_it_is_now(edge: Edge) -> None:
    """An audit may not take the time between a late word and the next revision for a difference."""
    weighing = Weighing()

    async def is_told() -> bool:
        async with edge.pool.acquire() as connection:
            (kept,) = await store.read(connection, [("demo", weighing.id)])
            tallies = await pictures_of(connection, "demo", [weighing.id])
        return view_of(kept, tallies[weighing.id]).is_told

    await edge.hear(weighing.created(), weighing.weight(10, 120.5), weighing.finalized(60, 1))
    assert not await is_told()
    edge.wait(minutes=1)
    await edge.look()
    assert await is_told()
    await edge.hear(weighing.weight(55, 122.0))
    assert not await is_told()
    edge.wait(minutes=1)
    await edge.look()
    assert await is_told()


async def test_a_newer_models_word_replaces_the_older_models(edge: Edge) -> None:
    weighing = Weighing()
    await edge.upload(weighing, 1)
    await edge.hear(weighing.created(), weighing.weight(10, 120.5), weighing.finalized(60, 1))
    await edge.infer(weighing.result(1, 0.97))
    await edge.look()
    newer = weighing.result(1, 0.8, generation=1)
    await edge.infer(newer)
    await edge.infer(newer)
    await edge.look()
    assert [payload["inference_result_id"] for _, payload in await ends(edge, weighing)][-1] == str(newer.id)
    assert len(await ends(edge, weighing)) == 2


async def test_results_of_a_picture_that_is_bound_later_come_with_it(edge: Edge) -> None:
    weighing = Weighing()
    await presign(edge.pool, STATION, weighing.media_id(1))
    await edge.hear(weighing.created(), weighing.weight(10, 120.5), weighing.finalized(60, 1))
    result = weighing.result(1, 0.9)
    await edge.infer(msgspec.structs.replace(result, session_id=None))
    assert await edge.hear(weighing.image(12, 1)) == []
    await edge.look()
    assert await edge.pool.fetchval("SELECT inference_result_id FROM weight_sessions") == result.id


async def test_every_word_about_the_end_reaches_the_cloud_and_the_last_one_counts(edge: Edge) -> None:
    weighing = Weighing()
    first, second, third = weighing.finalized(60, 1), weighing.cancelled(70, "twice"), weighing.finalized(80, 2, 119.0)
    await edge.upload(weighing, 1, 2)
    await edge.hear(weighing.created(), weighing.weight(10, 120.5), third)
    await edge.hear(first)
    await edge.hear(second)
    edge.wait(minutes=1)
    await edge.look()
    told = await ends(edge, weighing)
    assert [payload.get("revision", 1) for _, payload in told] == [0, 0, 1]
    assert {event_id for event_id, _ in told} == {first.event_id, second.event_id, third.event_id}
    assert (told[-1][0], told[-1][1]["final_weight_kg"], told[-1][1]["image_count"]) == (third.event_id, 119.0, 2)
    fourth = weighing.cancelled(90)
    await edge.hear(fourth)
    await edge.look()
    assert (await ends(edge, weighing))[-1] == (fourth.event_id, {"status": "cancelled", "revision": 2})
    assert await edge.pool.fetchval("SELECT status FROM weight_sessions") == "cancelled"


async def test_an_id_that_another_tenant_used_before_is_no_obstacle(edge: Edge) -> None:
    mine, theirs = Weighing(), Weighing(origin=ELSEWHERE)
    taken = mine.finalized(60, 1).event_id
    for weighing in (theirs, mine):
        end = msgspec.structs.replace(weighing.finalized(60, 1), event_id=taken)
        assert await edge.hear(weighing.created(), end) == []
        edge.wait(minutes=1)
        assert (await edge.look()).told == 1
    assert [event_id for event_id, _ in await ends(edge, theirs)] == [taken]
    assert [event_id for event_id, _ in await ends(edge, mine)] == [taken]


async def test_an_id_that_the_tenant_used_before_stops_neither_the_session_nor_the_service(edge: Edge) -> None:
    """A reading came under the id after the station was told that its word is stored."""
    mine = Weighing()
    taken = mine.finalized(60, 1).event_id
    await edge.pool.execute(
        "INSERT INTO sync_outbox (id, tenant_id, device_id, event_type, occurred_at, payload_json)"
        " VALUES ($1, 'demo', 'node-9', 'telemetry.ingested', now(), '{}')",
        taken,
    )
    assert await edge.hear(mine.created(), mine.finalized(60, 1)) == []
    edge.wait(minutes=1)
    assert (await edge.look()).told == 1
    ((event_id, payload),) = await ends(edge, mine)
    assert (event_id.version, payload["image_count"]) == (7, 1)
    kinds = await edge.pool.fetch("SELECT kind FROM ops_alerts WHERE subject LIKE '%used by node-9 before'")
    assert [row["kind"] for row in kinds] == ["event_id_occupied"]
    await edge.hear(mine.finalized(50, 2))
    await edge.hear(mine.finalized(90, 3))
    await edge.look()
    assert [payload.get("revision", 1) for _, payload in await ends(edge, mine)] == [0, 1, 2]


async def test_an_operator_finalizes_with_what_is_there_and_the_station_may_still_be_heard(edge: Edge) -> None:
    weighing = Weighing()
    await edge.hear(weighing.created(), weighing.weight(10, 120.5))
    await edge.upload(weighing, 1)
    edge.wait(minutes=11)
    await edge.look()
    for _ in range(2):
        await finalize(edge.pool, Order("demo", weighing.id, "the station was carried away", edge.now), None)
        await edge.look()
    edge.wait(minutes=1)
    await edge.look()
    assert await open_alerts(edge.pool) == {}
    ((_, payload),) = await ends(edge, weighing)
    assert (payload["final_weight_kg"], payload["image_count"]) == (120.5, 1)
    operations = await edge.pool.fetch("SELECT action, reason FROM session_operations")
    assert [tuple(row) for row in operations] == [("finalize", "the station was carried away")]
    own = weighing.finalized(60, 3, 119.5)
    await edge.hear(own)
    await edge.look()
    event_id, payload = (await ends(edge, weighing))[-1]
    assert (event_id, payload["revision"], payload["final_weight_kg"], payload["image_count"]) == (
        own.event_id, 2, 119.5, 3,
    )  # fmt: skip
    assert await open_alerts(edge.pool) == {}, "nobody waits for a session that an operator has finalized"


async def test_an_attached_picture_heals_the_session_and_the_cloud_hears_of_it(edge: Edge) -> None:
    weighing, lone = Weighing(), Weighing()
    await edge.hear(weighing.created(), weighing.weight(10, 120.5), weighing.finalized(60, 1))
    await presign(edge.pool, STATION, lone.media_id(1))
    edge.wait(minutes=11)
    await edge.look()
    for _ in range(2):
        await attach(edge.pool, Order("demo", weighing.id, "taken by hand", edge.now), lone.media_id(1))
    await edge.look()
    assert len(await open_alerts(edge.pool)) == 1, "its bytes are not there yet"
    await store_picture(edge.pool, lone.stored(1, edge.now))
    assert (await edge.look()).healed == 1
    captured = [
        payload for kind, _, payload in await told_of(edge.pool, weighing.id) if kind == event_types.IMAGE_CAPTURED
    ]
    assert captured == [{"media_id": str(lone.media_id(1))}]
    assert await edge.pool.fetchval("SELECT count(*) FROM session_operations") == 1
