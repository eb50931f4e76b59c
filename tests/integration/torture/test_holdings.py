"""The judge on real databases of both tiers: it passes what is as it was sent, and finds whatever somebody changed by hand."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import Final
from uuid import UUID, uuid4

import asyncpg
import pytest
import pytest_asyncio

from farmiq.contracts import event_types
from farmiq.contracts.telemetry import Channel, TelemetryBatch
from farmiq.contracts.timestamps import from_us, to_us
from farmiq.kit.postgres import Connection, prepare
from farmiq.timeseries.admission import admit_batches, admit_readings
from farmiq.timeseries.samples import SingleReading, StreamBatch
from farmiq.timeseries.stream import Origin
from farmiq.torture.holdings import Devices, Tier, Verdicts, judge_databases, judge_tier
from farmiq.torture.judge import Ledger
from farmiq.torture.ledger import Filled, Heard, Line, Offered, Picture, Said, SetBack, Stored, Weighed
from farmiq.torture.samples import CHANNELS, METRIC, TIME_QUALITY, UNIT, sensor_of, wall_us_of
from support.media_world import objects_of
from support.s3 import S3

NODE, SENSOR, STATION = (Origin("demo", "f", "b", name) for name in ("torture-1", "sensor", "station"))
DEVICES: Final = Devices([NODE], SENSOR, STATION)
STREAM, SESSION, MEDIA, RESULT = (uuid4() for _ in range(4))
SAMPLES: Final = 64
AT: Final = 1_700_000_000_000_000
INGESTED: Final = from_us(AT + 1_000_000)
OFFER = Offered(NODE.device_id, 1, SAMPLES, AT)
JPEG = b"a picture"
CREATED = Said("station", uuid4(), event_types.SESSION_CREATED, AT + 1, session=SESSION)
READING = Said("sensor", uuid4(), event_types.TELEMETRY_READING, AT, value=4.5)
DOOR = Said("sensor", uuid4(), "door.opened", AT + 1, value=7.0)
WEIGHT = Said("station", uuid4(), event_types.WEIGHT_RECORDED, AT + 2, value=84.0, session=SESSION)
IMAGE = Said("station", uuid4(), event_types.IMAGE_CAPTURED, AT + 3, session=SESSION, media=MEDIA)
ENDED = Said("station", uuid4(), event_types.SESSION_FINALIZED, AT + 4, value=84.0, session=SESSION)
SAID: Final = (CREATED, READING, DOOR, WEIGHT, IMAGE, ENDED)
LINES: list[Line] = [
    OFFER,
    Stored(NODE.device_id, SAMPLES),
    *SAID,
    *(Heard(one.event_id, "stored") for one in SAID),
    Picture(MEDIA, SESSION, sha256(JPEG).hexdigest(), len(JPEG), AT + 3),
    Weighed(SESSION, "station", 84.0, [MEDIA]),
]
LEDGER = Ledger.of(LINES)


@dataclass(frozen=True)
class World:
    """Both tiers with everything of the ledger."""

    edge: Connection
    cloud: Connection
    s3: S3
    environment: Mapping[str, str]

    def of(self, tier: Tier) -> Connection:
        return self.edge if tier == "edge" else self.cloud

    async def judged(self, tier: Tier, ledger: Ledger = LEDGER) -> Verdicts:
        return await judge_databases(tier, self.edge, self.of(tier), objects_of(self.s3), ledger, DEVICES)


@pytest_asyncio.fixture
async def world(edge_url: str, cloud_url: str, s3: S3) -> AsyncIterator[World]:
    edge, cloud = await asyncpg.connect(edge_url), await asyncpg.connect(cloud_url)
    for connection in (edge, cloud):
        await prepare(connection)
        await store_samples(connection)
    await store_events_at_the_edge(edge)
    await store_events_in_the_cloud(cloud)
    await objects_of(s3).put(s3.bucket, str(MEDIA), JPEG, content_type="image/jpeg")
    for connection, more in ((edge, ""), (cloud, ", event_id")):
        result = _RESULT.format(more=more, value=", gen_random_uuid()" if more else "")
        await connection.execute(result, RESULT, SESSION, MEDIA, from_us(AT + 5))
        await store_picture(connection, s3, MEDIA, JPEG)
    store = {"S3_ENDPOINT": s3.endpoint, "S3_ACCESS_KEY": s3.access_key, "S3_SECRET_KEY": s3.secret_key}
    urls = {"EDGE_DATABASE_URL": edge_url, "CLOUD_DATABASE_URL": cloud_url}
    yield World(edge, cloud, s3, urls | store | {f"CLOUD_{name}": value for name, value in store.items()})
    await edge.close()
    await cloud.close()


async def store_samples(connection: Connection) -> None:
    numbers = range(1, SAMPLES + 1)
    batch = TelemetryBatch(
        stream_id=STREAM, boot_id=uuid4(), lane="live", seq0=1, time_quality=TIME_QUALITY,
        channels=[Channel(metric=METRIC, unit=UNIT, sensor=sensor_of(number + 1)) for number in range(CHANNELS)],
        t=[wall_us_of(OFFER, number) for number in numbers], c=[(number - 1) % CHANNELS for number in numbers],
        v=[float(number) for number in numbers],
    )  # fmt: skip
    reading = SingleReading(SENSOR, READING.event_id, from_us(READING.at_us), METRIC, 4.5, UNIT)
    async with connection.transaction():
        await admit_batches(connection, [StreamBatch(NODE, batch)], INGESTED)
        await admit_readings(connection, [reading], INGESTED)


async def store_events_at_the_edge(connection: Connection) -> None:
    await connection.execute(
        """INSERT INTO sync_outbox (id, tenant_id, farm_id, barn_id, device_id, event_type, occurred_at, payload_json)
           VALUES ($1, 'demo', 'f', 'b', 'sensor', 'door.opened', $2, '{"number": 7.0}')""",
        DOOR.event_id, from_us(DOOR.at_us),
    )  # fmt: skip
    await connection.execute(
        """INSERT INTO weight_sessions (tenant_id, id, farm_id, barn_id, device_id, status, created_event_id, start_at,
             ended_event_id, end_at, given_final_weight_kg, batch_id, initial_weight_kg, final_weight_kg, image_count,
             inference_result_id)
           VALUES ('demo', $1, 'f', 'b', 'station', 'finalized', $2, $3, $4, $5, 84.0, 'torture', 84.0, 84.0, 1, $6)""",
        SESSION, CREATED.event_id, from_us(CREATED.at_us), ENDED.event_id, from_us(ENDED.at_us), RESULT,
    )  # fmt: skip
    await connection.execute(
        """INSERT INTO session_weights (tenant_id, session_id, event_id, occurred_at, weight_kg)
           VALUES ('demo', $1, $2, $3, 84.0)""",
        SESSION, WEIGHT.event_id, from_us(WEIGHT.at_us),
    )  # fmt: skip
    await connection.execute(
        """INSERT INTO session_pictures (tenant_id, session_id, media_id, announced_event_id, announced_at)
           VALUES ('demo', $1, $2, $3, $4)""",
        SESSION, MEDIA, IMAGE.event_id, from_us(IMAGE.at_us),
    )  # fmt: skip
    await connection.execute(
        """INSERT INTO inference_models (model_version, generation, source, sha256, size_bytes, card)
           VALUES ('v1', 1, 'packaged', repeat('0', 64), 1, '{}')"""
    )


async def store_events_in_the_cloud(connection: Connection) -> None:
    await connection.execute(
        """INSERT INTO device_events (tenant_id, farm_id, barn_id, event_id, event_type, device_id, occurred_at, payload,
             received_at)
           VALUES ('demo', 'f', 'b', $1, 'door.opened', 'sensor', $2, '{"number": 7.0}', now())""",
        DOOR.event_id, from_us(DOOR.at_us),
    )  # fmt: skip
    await connection.execute(
        """INSERT INTO weight_sessions (tenant_id, id, farm_id, barn_id, device_id, status, created_event_id, start_at,
             ended_event_id, end_at, batch_id, initial_weight_kg, final_weight_kg, image_count, inference_result_id,
             first_event_at)
           VALUES ('demo', $1, 'f', 'b', 'station', 'finalized', $2, $3, $4, $5, 'torture', 84.0, 84.0, 1, $6, $3)""",
        SESSION, CREATED.event_id, from_us(CREATED.at_us), uuid4(), from_us(ENDED.at_us), RESULT,
    )  # fmt: skip
    await connection.execute(
        """INSERT INTO recorded_weights (tenant_id, farm_id, barn_id, event_id, device_id, session_id, weight_kg,
             occurred_at, received_at)
           VALUES ('demo', 'f', 'b', $1, 'station', $2, 84.0, $3, now())""",
        WEIGHT.event_id, SESSION, from_us(WEIGHT.at_us),
    )  # fmt: skip
    await connection.execute(
        """INSERT INTO captured_images (tenant_id, farm_id, barn_id, media_id, event_id, device_id, session_id,
             occurred_at, received_at)
           VALUES ('demo', 'f', 'b', $1, $2, 'station', $3, $4, now())""",
        MEDIA, IMAGE.event_id, SESSION, from_us(IMAGE.at_us),
    )  # fmt: skip


_RESULT: Final = """
    INSERT INTO inference_results (id, tenant_id, farm_id, barn_id, device_id, session_id, media_id, predicted_weight_kg,
                                   confidence, model_version, occurred_at{more})
    VALUES ($1, 'demo', 'f', 'b', 'station', $2, $3, 83.5, 0.9, 'v1', $4{value})
"""


async def store_picture(connection: Connection, s3: S3, media: UUID, body: bytes) -> None:
    await connection.execute(
        """INSERT INTO media_objects (tenant_id, id, farm_id, barn_id, device_id, session_id, bucket, object_key, mime_type,
             state, captured_at, stored_at, verified_at, size_bytes, sha256)
           VALUES ('demo', $1, 'f', 'b', 'station', $2, $3, $4, 'image/jpeg', 'stored', $5, now(), now(), $6, $7)""",
        media, SESSION, s3.bucket, str(media), from_us(AT + 3), len(body), sha256(body).hexdigest(),
    )  # fmt: skip


TIERS: Final[tuple[Tier, ...]] = ("edge", "cloud")
SUMS: Final = {"samples": 64, "events": 6, "sessions": 1, "pictures": 1, "inference": 1, "losses": 0, "coverage": 1}


@pytest.mark.parametrize("tier", TIERS)
async def test_what_is_there_as_it_was_sent_is_let_pass(world: World, tier: Tier) -> None:
    verdicts = await judge_tier(tier, world.environment, LEDGER, DEVICES)
    for field in fields(verdicts):
        tally = getattr(verdicts, field.name)
        assert tally.is_clean, (field.name, tally)
        assert tally.accepted == tally.stored
    retold = {"events": 5} if tier == "cloud" else {}
    sums = {name: getattr(verdicts, name).stored for name in SUMS}
    assert sums == SUMS | retold
    assert verdicts.aggregates.stored == 3 * (CHANNELS + 1)  # three windows of each sensor, and of the single reading


_SAMPLE: Final = "UPDATE telemetry_raw SET {} WHERE seq = 17"
_READING: Final = "UPDATE telemetry_raw SET {} WHERE stream_id IS NULL"
_SESSION: Final = "UPDATE weight_sessions SET {}"
_PICTURE: Final = "UPDATE media_objects SET {}"
_AGG: Final = """UPDATE telemetry_agg SET {} WHERE "window" = '1h' AND sensor = 's3'"""
# What is changed, in which of the verdicts it is found, and as what.
BOTH: Final = {
    "a sample is deleted": ("DELETE FROM telemetry_raw WHERE seq = 17", "samples", "lost"),
    "a sample has another value": (_SAMPLE.format("metric_value = 17.5"), "samples", "altered"),
    "a sample has another sensor": (_SAMPLE.format("sensor = 's9'"), "samples", "altered"),
    "a sample has another metric": (_SAMPLE.format("metric_type = 'humidity'"), "samples", "altered"),
    "a sample has another unit": (_SAMPLE.format("unit = 'C'"), "samples", "altered"),
    "a sample has another quality": (_SAMPLE.format("time_quality = 0"), "samples", "altered"),
    "a sample is in another barn": (_SAMPLE.format("barn_id = 'x'"), "samples", "altered"),
    "a sample is of another farm": (_SAMPLE.format("farm_id = 'x'"), "samples", "altered"),
    "a sample is of another tenant": (_SAMPLE.format("tenant_id = 'x'"), "samples", "altered"),
    "a sample is of another device": (_SAMPLE.format("device_id = 'x'"), "samples", "lost"),
    "a sample is a microsecond late": (
        _SAMPLE.format("occurred_at = occurred_at + interval '1 us'"), "samples", "altered",
    ),
    "a sample that nobody took": ("UPDATE telemetry_raw SET seq = 65 WHERE seq = 64", "samples", "never_sent"),
    "a sample without its coverage": ("UPDATE streams SET received = '{[1,17),[18,65)}'", "coverage", "never_sent"),
    "coverage without its sample": ("UPDATE streams SET received = '{[1,70)}'", "coverage", "lost"),
    "a stored sample is called lost": ("UPDATE streams SET lost = '{[17,18)}'", "coverage", "contradicted"),
    "a stream is deleted": ("DELETE FROM streams", "coverage", "never_sent"),
    "an aggregate is deleted": ("DELETE FROM telemetry_agg WHERE \"window\" = '1d'", "aggregates", "lost"),
    "an aggregate counts one more": (_AGG.format("count = count + 1"), "aggregates", "altered"),
    "an aggregate has another sum": (_AGG.format("sum_value = sum_value + 0.01"), "aggregates", "altered"),
    "an aggregate has another minimum": (_AGG.format("min_value = min_value - 1"), "aggregates", "altered"),
    "an aggregate has another maximum": (_AGG.format("max_value = max_value + 1"), "aggregates", "altered"),
    "an aggregate is in another barn": (_AGG.format("barn_id = 'x'"), "aggregates", "altered"),
    "an aggregate ends later": (
        _AGG.format("bucket_end_at = bucket_end_at + interval '1 s'"), "aggregates", "altered",
    ),
    "an aggregate of nothing": (_AGG.format("bucket_start_at = bucket_start_at - interval '1 day'"), "aggregates", "never_sent"),
    "a reading is deleted": ("DELETE FROM telemetry_raw WHERE stream_id IS NULL", "events", "lost"),
    "a reading has another value": (_READING.format("metric_value = 0"), "events", "altered"),
    "a reading has another metric": (_READING.format("metric_type = 'x'"), "events", "altered"),
    "a reading has another unit": (_READING.format("unit = NULL"), "events", "altered"),
    "a reading is in another barn": (_READING.format("barn_id = 'x'"), "events", "altered"),
    "a session's beginning is forgotten": (_SESSION.format("created_event_id = NULL"), "events", "lost"),
    "a session is not at its end": (_SESSION.format("status = 'created'"), "sessions", "altered"),
    "a session begins at another time": (_SESSION.format("start_at = now()"), "sessions", "altered"),
    "a session ends at another time": (_SESSION.format("end_at = now()"), "sessions", "altered"),
    "a session is of another batch": (_SESSION.format("batch_id = NULL"), "sessions", "altered"),
    "a session has another first weight": (_SESSION.format("initial_weight_kg = 1"), "sessions", "altered"),
    "a session has another last weight": (_SESSION.format("final_weight_kg = 1"), "sessions", "altered"),
    "a session has more pictures": (_SESSION.format("image_count = 2"), "sessions", "altered"),
    "a session names another result": (_SESSION.format("inference_result_id = gen_random_uuid()"), "sessions", "altered"),
    "a session names no result": (_SESSION.format("inference_result_id = NULL"), "sessions", "altered"),
    "a session is of another station": (_SESSION.format("device_id = 'another'"), "sessions", "altered"),
    "a session is deleted": ("DELETE FROM weight_sessions", "sessions", "lost"),
    "a picture is deleted": ("DELETE FROM media_objects", "pictures", "lost"),
    "a picture is not stored": (_PICTURE.format("state = 'missing'"), "pictures", "lost"),
    "a picture was taken at another time": (_PICTURE.format("captured_at = now()"), "pictures", "altered"),
    "a picture is of another kind": (_PICTURE.format("mime_type = 'image/png'"), "pictures", "altered"),
    "a picture has another size": (_PICTURE.format("size_bytes = 1"), "pictures", "altered"),
    "a picture is of another session": (_PICTURE.format("session_id = gen_random_uuid()"), "pictures", "altered"),
    "a picture is in another barn": (_PICTURE.format("barn_id = 'x'"), "pictures", "altered"),
    "a result is deleted": ("DELETE FROM inference_results", "inference", "lost"),
}  # fmt: skip
EDGE: Final = {
    "an event is deleted": ("ALTER TABLE sync_outbox DISABLE TRIGGER USER; DELETE FROM sync_outbox", "events", "lost"),
    "an event of nobody": (
        """INSERT INTO sync_outbox (id, tenant_id, farm_id, barn_id, device_id, event_type, occurred_at, payload_json)
           VALUES (gen_random_uuid(), 'demo', 'f', 'b', 'sensor', 'door.opened', now(), '{"number": 8}')""",
        "events", "never_sent",
    ),
    "a weight is another": ("UPDATE session_weights SET weight_kg = 83", "events", "altered"),
    "a weight is deleted": ("DELETE FROM session_weights", "events", "lost"),
    "a picture was announced at another time": ("UPDATE session_pictures SET announced_at = now()", "events", "altered"),
    "a session's end is forgotten": ("UPDATE weight_sessions SET ended_event_id = NULL", "events", "lost"),
    "a result is of another session": ("UPDATE inference_results SET session_id = NULL", "inference", "altered"),
}  # fmt: skip
_SESSIONS: Final = "INSERT INTO weight_sessions (tenant_id, id, farm_id, barn_id, device_id, status, first_event_at)"
_REST: Final = "farm_id, barn_id, device_id, status, first_event_at FROM weight_sessions"
CLOUD: Final = {
    "an event is deleted": ("DELETE FROM device_events", "events", "lost"),
    "an event says something else": ("""UPDATE device_events SET payload = '{"number": 8}'""", "events", "altered"),
    "an event is of another type": ("UPDATE device_events SET event_type = 'door.closed'", "events", "altered"),
    "an event of nobody": ("UPDATE device_events SET event_id = gen_random_uuid()", "events", "never_sent"),
    "a weight is another": ("UPDATE recorded_weights SET weight_kg = 83", "events", "altered"),
    "a weight is deleted": ("DELETE FROM recorded_weights", "events", "lost"),
    "a picture is told of for another session": (
        "UPDATE captured_images SET session_id = gen_random_uuid()", "events", "altered",
    ),
    "a session that nobody weighed": (f"{_SESSIONS} SELECT tenant_id, gen_random_uuid(), {_REST}", "sessions", "never_sent"),
    "a session that is there twice": (f"{_SESSIONS} SELECT 'another', id, {_REST}", "sessions", "duplicated"),
    "a result says another weight": ("UPDATE inference_results SET predicted_weight_kg = 1", "inference", "altered"),
    "a result is of nothing": ("UPDATE inference_results SET id = gen_random_uuid()", "inference", "never_sent"),
}  # fmt: skip


@pytest.mark.parametrize("tier", TIERS)
async def test_every_change_by_hand_is_found(world: World, tier: Tier) -> None:
    """promise-cloud 10: metric, unit, place, aggregates, results, the content of sessions and pictures, and the edge."""
    missed = []
    for case, (change, part, blamed) in (BOTH | (EDGE if tier == "edge" else CLOUD)).items():
        transaction = world.of(tier).transaction()
        await transaction.start()
        await world.of(tier).execute(change)
        tally = getattr(await world.judged(tier), part)
        await transaction.rollback()
        if getattr(tally, blamed) < 1:
            missed.append((case, tally))
    assert missed == []


@pytest.mark.parametrize("tier", TIERS)
async def test_a_sample_that_is_there_twice_is_found_of_every_node(world: World, tier: Tier) -> None:
    again = """INSERT INTO telemetry_raw SELECT (jsonb_populate_record(raw, jsonb_build_object(
                 'id', gen_random_uuid(), 'device_id', $1::text))).* FROM telemetry_raw AS raw WHERE seq = 17"""
    await world.of(tier).execute(again, NODE.device_id)
    assert (await world.judged(tier)).samples.duplicated == 1
    await world.of(tier).execute(again, "a-node-of-the-farm")
    assert (await world.judged(tier)).samples.duplicated == 2


_LOSS: Final = """
    INSERT INTO stream_losses (tenant_id, event_id, farm_id, barn_id, device_id, stream_id, first_seq, last_seq, count,
                               reason, dropped_at)
    VALUES ('demo', $1, 'f', 'b', 'torture-1', $2, $3::bigint, 27, 28 - $3::bigint, 'cap_reached', $4)
"""


async def declare(world: World, first: int, at_us: int) -> None:
    event_id = uuid4()
    for tier in TIERS:
        await world.of(tier).execute(_LOSS, event_id, STREAM, first, from_us(at_us))


def filled_at(at_us: int) -> Ledger:
    return Ledger.of([*LINES, Filled(NODE.device_id, at_us - 1, at_us + 1)])


@pytest.mark.parametrize("tier", TIERS)
async def test_a_loss_that_was_declared_is_no_loss_in_silence(world: World, tier: Tier) -> None:
    for each in TIERS:
        await world.of(each).execute("DELETE FROM telemetry_raw WHERE seq BETWEEN 20 AND 29")
    for first in (20, 22):  # the second says nothing that is new
        await declare(world, first, to_us(INGESTED))
    full = (await world.judged(tier, filled_at(to_us(INGESTED)))).samples
    assert (full.stored, full.declared_lost, full.lost, full.unexplained, full.contradicted) == (54, 8, 2, 0, 0)
    at_another_time = (await world.judged(tier, filled_at(AT - 3_600_000_000))).samples
    assert (at_another_time.declared_lost, at_another_time.unexplained) == (8, 14)
    assert (await world.judged(tier)).samples.unexplained == 14


async def test_records_over_samples_that_were_there_all_along_are_found(world: World) -> None:
    """promise-cloud 10, J1: sixteen samples stored and declared lost, on a node whose disk was filled."""
    an_hour_later, an_hour_earlier = AT + 3_600_000_000, AT - 3_600_000_000
    await declare(world, 12, an_hour_earlier)
    edge = (await world.judged("edge", filled_at(an_hour_earlier))).samples
    assert (edge.stored, edge.unexplained, edge.contradicted) == (SAMPLES, 0, 16)
    cloud = (await world.judged("cloud", filled_at(an_hour_earlier))).samples
    assert cloud.is_clean  # it has what the edge stored whenever the line allows
    for tier in TIERS:
        await world.of(tier).execute("UPDATE telemetry_raw SET ingested_at = $1", from_us(AT))
        await world.of(tier).execute("UPDATE stream_losses SET dropped_at = $1", from_us(an_hour_later))
        assert (await world.judged(tier, filled_at(an_hour_later))).samples.contradicted == 16


@pytest.mark.parametrize(
    ("change", "blamed"),
    [
        ("DELETE FROM stream_losses", "lost"),
        ("UPDATE stream_losses SET reason = 'damaged'", "altered"),
        ("UPDATE stream_losses SET event_id = gen_random_uuid()", "never_sent"),
    ],
)
async def test_the_cloud_has_the_loss_records_of_the_edge(world: World, change: str, blamed: str) -> None:
    await declare(world, 12, to_us(INGESTED))
    assert (await world.judged("cloud")).losses.is_clean
    await world.cloud.execute(change)
    assert getattr((await world.judged("cloud")).losses, blamed) == 1


@pytest.mark.parametrize("tier", TIERS)
async def test_pictures_are_read_back_and_others_of_the_station_are_found(world: World, tier: Tier) -> None:
    s3 = world.s3
    for body in (JPEG, b"another picture"):
        media = uuid4()
        await objects_of(s3).put(s3.bucket, str(media), body, content_type="image/jpeg")
        await store_picture(world.of(tier), s3, media, body)
    tally = (await world.judged(tier)).pictures
    assert (tally.stored, tally.duplicated, tally.never_sent) == (1, 1, 1), tally
    await objects_of(s3).put(s3.bucket, str(MEDIA), b"other bytes", content_type="image/jpeg")
    assert (await world.judged(tier)).pictures.altered == 1
    await objects_of(s3).delete(s3.bucket, str(MEDIA))
    assert (await world.judged(tier)).pictures.lost == 1


@pytest.mark.parametrize("tier", TIERS)
async def test_a_node_whose_disk_was_set_back_goes_on_under_sequences_that_are_no_longer_its_samples_numbers(
    world: World, tier: Tier
) -> None:
    """What the edge never had may be gone with the disk, and the same stream goes on behind it."""
    await world.of(tier).execute("DELETE FROM telemetry_raw WHERE seq BETWEEN 20 AND 29")
    await world.of(tier).execute("UPDATE telemetry_raw SET seq = seq - 10 WHERE seq >= 30")
    ledger = Ledger.of([*LINES, SetBack(NODE.device_id, 20, 29)])
    tally = (await world.judged(tier, ledger)).samples
    assert (tally.stored, tally.gone, tally.is_clean) == (54, 10, True), tally
    await world.of(tier).execute("DELETE FROM telemetry_raw WHERE seq IN (5, 40)")
    assert (await world.judged(tier, ledger)).samples.lost == 2
