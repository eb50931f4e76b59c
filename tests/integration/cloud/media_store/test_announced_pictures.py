"""`media.stored` from the bus: before the upload, after it, twice, and in the form of the document."""

import random
from typing import Any
from uuid import UUID

import msgspec

from farmiq.cloud.media_store.announcements import announced
from farmiq.cloud.media_store.handlers import announce
from farmiq.contracts import bus
from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Pool
from support.bus_queue import take_all
from support.cloud_media import MediaCloud, media_cloud, publish, shot
from support.s3 import S3
from support.waiting import eventually

EXAMPLE: dict[str, Any] = {
    "event_id": "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0600",
    "event_type": "media.stored",
    "tenant_id": "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0002",
    "farm_id": "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0003",
    "barn_id": "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0004",
    "device_id": "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0005",
    "session_id": "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0300",
    "occurred_at": "2025-01-01T10:05:30Z",
    "trace_id": "trace-id-131415",
    "payload": {
        "media_id": "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0601",
        "path": "/data/media/tenant/farm/barn/session/frame-001.jpg",
        "mime_type": "image/jpeg",
        "size_bytes": 204800,
    },
}
NOT_COMPARED = {"created_at", "stored_at", "verified_at"}


async def rows(pool: Pool) -> list[dict[str, Any]]:
    found = await pool.fetch("SELECT * FROM media_objects ORDER BY tenant_id, id")
    return [{name: value for name, value in row.items() if name not in NOT_COMPARED} for row in found]


async def test_the_documents_example_is_accepted_as_it_stands(cloud: MediaCloud, amqp_url: str, pool: Pool) -> None:
    await publish(amqp_url, EXAMPLE)

    async def arrived() -> int:
        return int(await pool.fetchval("SELECT count(*) FROM media_objects"))

    assert await eventually(arrived) == 1
    (row,) = await rows(pool)
    assert row["id"] == UUID(EXAMPLE["payload"]["media_id"])
    assert (row["state"], row["path"]) == ("announced", EXAMPLE["payload"]["path"])
    assert (row["object_key"], row["source_object_key"], row["size_bytes"]) == (None, None, 204800)
    assert row["captured_at"].isoformat() == "2025-01-01T10:05:30+00:00"


async def test_the_event_before_the_upload_and_the_upload_before_the_event_give_the_same_row(
    cloud: MediaCloud, pool: Pool
) -> None:
    one = shot(session_id=new_id())
    event = announced(msgspec.json.encode(one.event()))

    await announce(pool, [event])
    await cloud.send(one)
    event_first = await rows(pool)
    await pool.execute("DELETE FROM media_objects")
    await cloud.store.delete(cloud.bucket, event_first[0]["object_key"])

    await cloud.send(one)
    await announce(pool, [event])
    upload_first = await rows(pool)
    await pool.execute("DELETE FROM media_objects")
    await cloud.store.delete(cloud.bucket, event_first[0]["object_key"])

    await cloud.upload(one)
    await announce(pool, [event])
    await cloud.complete(one)
    between = await rows(pool)

    assert event_first == upload_first == between
    assert event_first[0]["state"] == "stored"
    assert event_first[0]["source_bucket"] == "farmiq-media"


async def test_events_in_any_order_and_twice_give_the_same_rows(pool: Pool) -> None:
    shots = [shot(session_id=new_id() if n % 2 else None) for n in range(5)]
    events = [one.event() for one in shots]
    # An edge that was restored announces a picture again, under another id.
    events += [shots[0].event(occurred_at="2026-01-02T00:00:00Z", trace_id="trace-2")]
    expected = None
    for seed in range(6):
        await pool.execute("DELETE FROM media_objects")
        shuffled = random.Random(seed).sample(events * 2, len(events) * 2)
        for first in range(0, len(shuffled), 4):
            await announce(pool, [announced(msgspec.json.encode(event)) for event in shuffled[first : first + 4]])
        found = await rows(pool)
        expected = expected or found
        assert found == expected
    assert expected is not None
    assert len(expected) == 5
    assert "trace-2" in {row["trace_id"] for row in expected}


async def test_poison_goes_to_the_dead_letters_and_its_neighbours_are_stored(
    cloud: MediaCloud, amqp_url: str, pool: Pool
) -> None:
    good = shot()
    lacking = shot().event()
    del lacking["payload"]["media_id"]
    unknown = {**shot().event(), "event_type": "media.deleted"}

    await publish(amqp_url, lacking, good.event(), unknown)

    async def arrived() -> int:
        return int(await pool.fetchval("SELECT count(*) FROM media_objects"))

    assert await eventually(arrived) == 1
    dead: list[str] = []

    async def both() -> bool:
        dead.extend(str(one.event_id) for one in await take_all(amqp_url, bus.dlq_for("cloud-media-store")))
        return len(dead) == 2

    await eventually(both, what="two dead letters")
    assert sorted(dead) == sorted((lacking["event_id"], unknown["event_id"]))


async def test_another_checksum_than_was_sent_is_reported_and_does_not_replace_it(
    cloud: MediaCloud, pool: Pool
) -> None:
    one = shot()
    await cloud.send(one)
    event = one.event()
    event["payload"]["sha256"] = "0" * 64
    read = announced(msgspec.json.encode(event))

    assert await announce(pool, [read]) == 1

    assert (await cloud.row(one))["sha256"] == one.asked.sha256


async def test_pictures_that_wait_are_counted_with_their_age(pool: Pool, variables: dict[str, str], bucket: S3) -> None:
    await announce(pool, [announced(msgspec.json.encode(shot().event())) for _ in range(2)])
    await pool.execute("UPDATE media_objects SET created_at = now() - interval '1 hour'")
    async with media_cloud(pool, variables, bucket) as cloud:

        async def seen() -> bool:
            async with cloud.session.get(f"{cloud.url}/metrics") as answer:
                lines = (await answer.text()).splitlines()
            values = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line[:1] != "#"}
            return (
                values.get('farmiq_cloud_media_waiting_pictures{state="announced"}') == 2
                and values['farmiq_cloud_media_waiting_oldest_seconds{state="announced"}'] >= 3600
                and values['farmiq_cloud_media_waiting_pictures{state="missing"}'] == 0
            )

        await eventually(seen, what="the gauges to show it")
        status, page = await cloud.read("", state="announced")
    assert status == 200
    assert len(page["media"]) == 2
