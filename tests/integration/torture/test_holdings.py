"""The judge on a real cloud database: it passes what is as it was sent, and finds whatever somebody changed by hand."""

from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Final
from uuid import UUID, uuid4

import asyncpg
import pytest
import pytest_asyncio

from farmiq.contracts import event_types
from farmiq.contracts.timestamps import from_us
from farmiq.kit.ids import sample_id
from farmiq.kit.postgres import Connection
from farmiq.torture.holdings import judge_said, judge_samples, judge_seen, judge_weighed
from farmiq.torture.judge import Ledger, Tally
from farmiq.torture.ledger import Heard, Line, Offered, Picture, Said, Stored, Weighed
from farmiq.torture.samples import sensor_of, wall_us_of
from support.media_world import objects_of
from support.s3 import S3

NODE: Final = "torture-1"
STREAM, SESSION = uuid4(), uuid4()
SAMPLES: Final = 64
OFFER = Offered(NODE, 1, SAMPLES, 1_700_000_000_000_000)
READING = Said("sensor", uuid4(), event_types.TELEMETRY_READING, 1_700_000_000_000_000, value=4.5)
DOOR = Said("sensor", uuid4(), "door.opened", 1_700_000_000_000_001, value=7.0)
WEIGHT = Said("station", uuid4(), event_types.WEIGHT_RECORDED, 1_700_000_000_000_002, value=84.0, session=SESSION)
MEDIA, JPEG = uuid4(), b"a picture"
IMAGE = Said("station", uuid4(), event_types.IMAGE_CAPTURED, 1_700_000_000_000_003, session=SESSION, media=MEDIA)
SAID: Final = (READING, DOOR, WEIGHT, IMAGE)
LINES: list[Line] = [
    OFFER,
    Stored(NODE, SAMPLES),
    *SAID,
    *(Heard(one.event_id, "stored") for one in SAID),
    Picture(MEDIA, SESSION, sha256(JPEG).hexdigest()),
    Weighed(SESSION, "station", 84.0, [MEDIA, uuid4()]),
]
LEDGER = Ledger.of(LINES)

_RAW = """INSERT INTO telemetry_raw (id, tenant_id, farm_id, barn_id, device_id, occurred_at, metric_type, metric_value,
          stream_id, seq, sensor) VALUES ($1, 'demo', 'f', 'b', $2, $3, 'torture', $4, $5, $6, $7)"""


@pytest_asyncio.fixture
async def cloud(cloud_url: str) -> AsyncIterator[Connection]:
    """A cloud that has everything of the ledger."""
    connection = await asyncpg.connect(cloud_url)
    for number in range(1, SAMPLES + 1):
        await add_sample(connection, number, sample_id("demo", STREAM, number))
    at = {one.event_id: from_us(one.at_us) for one in SAID}
    await connection.execute(_RAW, READING.event_id, "sensor", at[READING.event_id], 4.5, None, None, None)
    await connection.execute(
        """INSERT INTO device_events (tenant_id, event_id, event_type, device_id, occurred_at, payload, received_at)
           VALUES ('demo', $1, 'door.opened', 'sensor', $2, '{"number": 7.0}', now())""",
        DOOR.event_id, at[DOOR.event_id],
    )  # fmt: skip
    await connection.execute(
        """INSERT INTO recorded_weights (tenant_id, event_id, device_id, session_id, weight_kg, occurred_at, received_at)
           VALUES ('demo', $1, 'station', $2, 84.0, $3, now())""",
        WEIGHT.event_id, SESSION, at[WEIGHT.event_id],
    )  # fmt: skip
    await connection.execute(
        """INSERT INTO captured_images (tenant_id, media_id, event_id, device_id, session_id, occurred_at, received_at)
           VALUES ('demo', $1, $2, 'station', $3, $4, now())""",
        IMAGE.media, IMAGE.event_id, SESSION, at[IMAGE.event_id],
    )  # fmt: skip
    await connection.execute(
        """INSERT INTO weight_sessions (tenant_id, id, device_id, status, final_weight_kg, image_count, first_event_at)
           VALUES ('demo', $1, 'station', 'finalized', 84.0, 2, now())""",
        SESSION,
    )
    yield connection
    await connection.close()


async def add_sample(connection: Connection, number: int, row_id: UUID, device: str = NODE) -> None:
    at = from_us(wall_us_of(OFFER, number))
    await connection.execute(_RAW, row_id, device, at, float(number), STREAM, number, sensor_of(number))


async def judged(url: str) -> list[Tally]:
    return [
        await judge_samples(url, LEDGER, [NODE], set()),
        await judge_said(url, LEDGER, ["sensor", "station"]),
        await judge_weighed(url, LEDGER, ["station"]),
    ]


@pytest.mark.usefixtures("cloud")
async def test_what_is_there_as_it_was_sent_is_let_pass(cloud_url: str) -> None:
    tallies = await judged(cloud_url)
    assert [(tally.accepted, tally.stored) for tally in tallies] == [(SAMPLES, SAMPLES), (4, 4), (1, 1)]
    assert all(tally.is_clean for tally in tallies), tallies


_SESSIONS: Final = "INSERT INTO weight_sessions (tenant_id, id, device_id, status, first_event_at)"
_REST: Final = "device_id, status, first_event_at FROM weight_sessions"
CHANGES = {
    "a sample is deleted": ("DELETE FROM telemetry_raw WHERE seq = 17", "lost"),
    "a sample has another value": ("UPDATE telemetry_raw SET metric_value = 17.5 WHERE seq = 17", "altered"),
    "a sample has another sensor": ("UPDATE telemetry_raw SET sensor = 's9' WHERE seq = 17", "altered"),
    "a sample is a microsecond late": (
        "UPDATE telemetry_raw SET occurred_at = occurred_at + interval '1 us' WHERE seq = 17", "altered",
    ),
    "a sample that nobody took": ("UPDATE telemetry_raw SET seq = 65 WHERE seq = 64", "never_sent"),
    "a reading is deleted": ("DELETE FROM telemetry_raw WHERE stream_id IS NULL", "lost"),
    "a reading has another value": ("UPDATE telemetry_raw SET metric_value = 0 WHERE stream_id IS NULL", "altered"),
    "an event is deleted": ("DELETE FROM device_events", "lost"),
    "an event says something else": ("""UPDATE device_events SET payload = '{"number": 8}'""", "altered"),
    "an event of nobody": ("UPDATE device_events SET event_id = gen_random_uuid()", "never_sent"),
    "a weight is another": ("UPDATE recorded_weights SET weight_kg = 83", "altered"),
    "a weight is deleted": ("DELETE FROM recorded_weights", "lost"),
    "a picture is of another session": ("UPDATE captured_images SET session_id = gen_random_uuid()", "altered"),
    "a session is not at its end": ("UPDATE weight_sessions SET status = 'created'", "altered"),
    "a session is deleted": ("DELETE FROM weight_sessions", "lost"),
    "a session is of another station": ("UPDATE weight_sessions SET device_id = 'another'", "altered"),
    "a session that nobody weighed": (f"{_SESSIONS} SELECT tenant_id, gen_random_uuid(), {_REST}", "never_sent"),
    "a session that is there twice": (f"{_SESSIONS} SELECT 'another', id, {_REST}", "duplicated"),
}  # fmt: skip


@pytest.mark.parametrize("case", CHANGES)
async def test_every_change_by_hand_is_found(cloud: Connection, cloud_url: str, case: str) -> None:
    change, blamed = CHANGES[case]
    await cloud.execute(change)
    tallies = await judged(cloud_url)
    assert sum(getattr(tally, blamed) for tally in tallies) >= 1, tallies


async def test_a_sample_that_is_there_twice_is_found_of_every_node(cloud: Connection, cloud_url: str) -> None:
    await add_sample(cloud, 17, uuid4())
    assert (await judge_samples(cloud_url, LEDGER, [NODE], set())).duplicated == 1
    for _ in range(2):
        await add_sample(cloud, 17, uuid4(), device="a-node-of-the-farm")
    assert (await judge_samples(cloud_url, LEDGER, [NODE], set())).duplicated == 2


async def test_a_loss_that_was_declared_is_no_loss_in_silence(cloud: Connection, cloud_url: str) -> None:
    await cloud.execute("DELETE FROM telemetry_raw WHERE seq BETWEEN 20 AND 29")
    for first in (20, 22):  # the second says nothing that is new
        await cloud.execute(
            """INSERT INTO stream_losses (tenant_id, event_id, farm_id, barn_id, device_id, stream_id, first_seq, last_seq,
               count, reason, dropped_at)
               VALUES ('demo', $1, 'f', 'b', $2, $3, $4::bigint, 27, 28 - $4::bigint, 'cap_reached', now())""",
            uuid4(), NODE, STREAM, first,
        )  # fmt: skip
    full = await judge_samples(cloud_url, LEDGER, [NODE], {NODE})
    assert (full.stored, full.declared_lost, full.lost, full.unexplained) == (54, 8, 2, 0)
    never_full = await judge_samples(cloud_url, LEDGER, [NODE], {"torture-2"})
    assert (never_full.declared_lost, never_full.unexplained) == (8, 14)


@pytest_asyncio.fixture
async def pictures(cloud: Connection, s3: S3) -> S3:
    """The bucket and the row of the one picture of the ledger."""
    await add_picture(cloud, s3, MEDIA, JPEG)
    return s3


async def add_picture(connection: Connection, s3: S3, media: UUID, body: bytes) -> None:
    await objects_of(s3).put(s3.bucket, str(media), body, content_type="image/jpeg")
    await connection.execute(
        """INSERT INTO media_objects (tenant_id, id, device_id, session_id, bucket, object_key, mime_type, state,
           captured_at, stored_at, verified_at, size_bytes, sha256)
           VALUES ('demo', $1, 'station', $2, $3, $4, 'image/jpeg', 'stored', now(), now(), now(), $5, $6)""",
        media, SESSION, s3.bucket, str(media), len(body), sha256(body).hexdigest(),
    )  # fmt: skip


async def seen(url: str, s3: S3) -> Tally:
    environment = {
        "CLOUD_S3_ENDPOINT": s3.endpoint,
        "CLOUD_S3_ACCESS_KEY": s3.access_key,
        "CLOUD_S3_SECRET_KEY": s3.secret_key,
    }
    return await judge_seen(url, LEDGER, ["station"], environment)


async def test_pictures_are_read_back_and_others_of_the_station_are_found(
    cloud: Connection, cloud_url: str, pictures: S3
) -> None:
    tally = await seen(cloud_url, pictures)
    assert (tally.accepted, tally.stored, tally.is_clean) == (1, 1, True), tally
    await add_picture(cloud, pictures, uuid4(), JPEG)
    await add_picture(cloud, pictures, uuid4(), b"another picture")
    tally = await seen(cloud_url, pictures)
    assert (tally.stored, tally.duplicated, tally.never_sent) == (1, 1, 1), tally
    await objects_of(pictures).put(pictures.bucket, str(MEDIA), b"other bytes", content_type="image/jpeg")
    assert (await seen(cloud_url, pictures)).altered == 1
    await objects_of(pictures).delete(pictures.bucket, str(MEDIA))
    assert (await seen(cloud_url, pictures)).lost == 1
