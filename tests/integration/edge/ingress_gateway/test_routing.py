"""Events of integrators, pictures outside sessions and sessions: each with its owner, in the gateway's one transaction."""

from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import msgspec
import pytest_asyncio

from farmiq.contracts import event_types
from farmiq.contracts.ack import EVENT_ID_REUSED
from farmiq.edge.ingress_gateway.handlers import Outcome, ingest
from farmiq.kit.ids import new_id
from farmiq.kit.mqtt import Message
from farmiq.kit.postgres import Pool
from support.gateway import register
from support.telemetry import NOW, batch_message, raw_message, reading_message
from support.weighing import ELSEWHERE, NEIGHBOUR, STATION, Weighing, message_of, presign, register_stations

PLACE = "demo/farm-1/barn-1/node-1"


@pytest_asyncio.fixture
async def pool(edge_pool: Pool) -> AsyncIterator[Pool]:
    await register(edge_pool)
    await register_stations(edge_pool)
    yield edge_pool


async def ingest_one(pool: Pool, *messages: Message) -> Outcome:
    outcomes = await ingest(pool, messages, NOW)
    assert len(outcomes) == 1
    return outcomes[0]


def event(event_type: str, payload: object, event_id: UUID | None = None) -> Message:
    envelope = {
        "event_id": str(event_id or new_id()), "trace_id": "trace-1", "tenant_id": "demo", "device_id": "node-1",
        "event_type": event_type, "ts": "2026-11-16T08:00:00Z", "payload": payload,
    }  # fmt: skip
    return raw_message(f"iot/event/{PLACE}/{event_type}", msgspec.json.encode(envelope))


def lone_capture(origin_path: str, media_id: UUID, event_id: UUID | None = None) -> Message:
    tenant, _, _, device = origin_path.split("/")
    envelope = {
        "event_id": str(event_id or new_id()), "trace_id": "trace-1", "tenant_id": tenant, "device_id": device,
        "event_type": event_types.IMAGE_CAPTURED, "ts": "2026-11-16T08:00:00Z", "payload": {"media_id": str(media_id)},
    }  # fmt: skip
    return raw_message(f"iot/event/{origin_path}/{event_types.IMAGE_CAPTURED}", msgspec.json.encode(envelope))


async def test_an_integrators_event_goes_to_the_cloud_as_it_is(pool: Pool) -> None:
    payload = {"door": 3, "by": {"name": "\u00fc \U0001f414", "list": [1, 2.5, None, True]}, "unit": ""}
    event_id = new_id()
    outcome = await ingest_one(pool, event("door.opened", payload, event_id), batch_message(uuid4(), 1, 3))
    assert [(verdict.event_id, verdict.result) for verdict in outcome.verdicts] == [(event_id, "stored")]
    row = await pool.fetchrow(
        "SELECT event_type, tenant_id, farm_id, barn_id, device_id, session_id, trace_id, payload_json FROM sync_outbox"
        " WHERE id = $1",
        event_id,
    )
    assert row is not None
    assert tuple(row)[:-1] == ("door.opened", "demo", "farm-1", "barn-1", "node-1", None, "trace-1")
    assert msgspec.json.decode(row["payload_json"]) == payload


async def test_an_integrators_event_twice_is_sent_once_and_another_under_its_id_is_refused(pool: Pool) -> None:
    event_id = new_id()
    first = event("door.opened", {"door": 3}, event_id)
    await ingest_one(pool, first)
    outcome = await ingest_one(
        pool, first, event("door.opened", {"door": 4}, event_id), event("door.shut", {"door": 3}, event_id)
    )
    assert sorted(verdict.result for verdict in outcome.verdicts) == ["duplicate", "rejected", "rejected"]
    assert {refusal.code for refusal in outcome.refusals} == {EVENT_ID_REUSED}
    assert await pool.fetchval("SELECT count(*) FROM sync_outbox") == 1


async def test_a_number_that_the_database_cannot_hold_costs_only_its_own_event(pool: Pool) -> None:
    """JSON that every parser takes: PostgreSQL alone can say that the exponent is beyond its own limits."""
    bad = event("door.opened", {"n": 0})
    bad = raw_message(bad.topic, bad.payload.replace(b'{"n":0}', b'{"n":[0e99999,1e-99999]}'))
    outcomes = await ingest(pool, [bad, reading_message(1.0)], NOW)
    assert [refusal.code for outcome in outcomes for refusal in outcome.refusals] in (["not_storable"], ["too_large"])
    assert await pool.fetchval("SELECT count(*) FROM telemetry_raw") == 1


async def test_a_picture_outside_any_session_is_announced_and_goes_to_the_cloud(pool: Pool) -> None:
    media_id, event_id = new_id(), new_id()
    await presign(pool, STATION, media_id)
    place = "demo/farm-1/barn-1/station-1"
    message = lone_capture(place, media_id, event_id)
    outcome = await ingest_one(pool, message, message)
    assert sorted(verdict.result for verdict in outcome.verdicts) == ["duplicate", "stored"]
    assert await pool.fetchval("SELECT announced_at IS NOT NULL FROM media_objects WHERE id = $1", media_id)
    row = await pool.fetchrow("SELECT id, event_type, session_id, payload_json FROM sync_outbox")
    assert row is not None
    assert tuple(row)[:-1] == (event_id, event_types.IMAGE_CAPTURED, None)
    assert msgspec.json.decode(row["payload_json"]) == {"media_id": str(media_id)}
    assert await pool.fetchval("SELECT count(*) FROM weight_sessions") == 0
    unknown = await ingest_one(
        pool, lone_capture(place, new_id()), lone_capture("other/farm-9/barn-9/station-9", media_id)
    )
    assert [refusal.code for refusal in unknown.refusals] == ["unknown_media"] * 2
    assert await pool.fetchval("SELECT count(*) FROM sync_outbox") == 1


async def test_a_stations_words_are_stored_with_their_outbox_rows_and_acknowledged_by_id(pool: Pool) -> None:
    weighing = Weighing()
    await presign(pool, STATION, weighing.media_id(1))
    words = [weighing.created(), weighing.weight(10, 120.5), weighing.image(11, 1), weighing.finalized(60, 1)]
    outcome = await ingest_one(pool, *map(message_of, words))
    assert {(verdict.device_id, verdict.event_id, verdict.result) for verdict in outcome.verdicts} == {
        ("station-1", word.event_id, "stored") for word in words
    }
    again = await ingest_one(pool, *map(message_of, words))
    assert {verdict.result for verdict in again.verdicts} == {"duplicate"}
    assert await pool.fetchval("SELECT count(*) FROM session_weights") == 1
    row = await pool.fetchrow("SELECT announced_at IS NOT NULL, session_id FROM media_objects")
    assert row is not None
    assert tuple(row) == (True, weighing.id)
    assert await pool.fetchval("SELECT count(*) FROM sync_outbox") == 3, "the end is told when it is settled"
    assert await pool.fetchval("SELECT last_rx_at FROM device_liveness WHERE device_id = 'station-1'") == NOW


async def test_an_event_id_with_another_session_or_weight_in_it_is_refused(pool: Pool) -> None:
    weighing = Weighing()
    event = weighing.weight(10, 120.5)
    await ingest_one(pool, message_of(event))
    for other in (
        msgspec.structs.replace(weighing.weight(10, 120.6), event_id=event.event_id),
        msgspec.structs.replace(event, session_id=new_id()),
        msgspec.structs.replace(event, origin=NEIGHBOUR),
    ):
        outcome = await ingest_one(pool, message_of(other))
        assert [refusal.code for refusal in outcome.refusals] == [EVENT_ID_REUSED]
    assert await pool.fetchval("SELECT count(*) FROM session_weights") == 1
    assert await pool.fetchval("SELECT count(*) FROM weight_sessions") == 1


async def test_a_refused_picture_costs_neither_its_session_nor_its_neighbours(pool: Pool) -> None:
    weighing, theirs = Weighing(), Weighing(origin=ELSEWHERE)
    await presign(pool, STATION, weighing.media_id(1), theirs.id)
    stolen = Weighing(weighing.id, NEIGHBOUR)
    await presign(pool, NEIGHBOUR, stolen.media_id(2))
    await ingest_one(pool, message_of(weighing.created()))
    outcome = await ingest_one(
        pool, message_of(weighing.weight(10, 1.0)), message_of(weighing.image(11, 1)), message_of(stolen.image(12, 2))
    )
    assert sorted(refusal.code for refusal in outcome.refusals) == ["other_session", "session_of_another_device"]
    assert await pool.fetchval("SELECT count(*) FROM session_weights") == 1
    assert await pool.fetchval("SELECT count(*) FROM session_pictures") == 0
    assert await pool.fetchval("SELECT session_id FROM media_objects WHERE id = $1", stolen.media_id(2)) is None
    again = await ingest_one(pool, message_of(stolen.image(12, 2)))
    assert [refusal.code for refusal in again.refusals] == ["session_of_another_device"], "refused each time it comes"
