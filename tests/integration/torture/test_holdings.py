"""The judge on a real cloud database: it passes what is as it was sent, and finds whatever somebody changed by hand."""

from collections.abc import AsyncIterator
from typing import Final
from uuid import UUID, uuid4

import asyncpg
import pytest
import pytest_asyncio

from farmiq.contracts import event_types
from farmiq.contracts.timestamps import from_us
from farmiq.kit.ids import sample_id
from farmiq.kit.postgres import Connection
from farmiq.torture.holdings import judge_said, judge_samples, judge_weighed
from farmiq.torture.judge import Ledger, Tally
from farmiq.torture.ledger import Heard, Line, Offered, Said, Stored, Weighed
from farmiq.torture.samples import sensor_of, wall_us_of

NODE: Final = "torture-1"
STREAM, SESSION = uuid4(), uuid4()
SAMPLES: Final = 64
OFFER = Offered(NODE, 1, SAMPLES, 1_700_000_000_000_000)
READING = Said("sensor", uuid4(), event_types.TELEMETRY_READING, 1_700_000_000_000_000, value=4.5)
DOOR = Said("sensor", uuid4(), "door.opened", 1_700_000_000_000_001, value=7.0)
WEIGHT = Said("station", uuid4(), event_types.WEIGHT_RECORDED, 1_700_000_000_000_002, value=84.0, session=SESSION)
IMAGE = Said("station", uuid4(), event_types.IMAGE_CAPTURED, 1_700_000_000_000_003, session=SESSION, media=uuid4())
SAID: Final = (READING, DOOR, WEIGHT, IMAGE)
LINES: list[Line] = [
    OFFER,
    Stored(NODE, SAMPLES),
    *SAID,
    *(Heard(one.event_id, "stored") for one in SAID),
    Weighed(SESSION, "station", 84.0, [uuid4(), uuid4()]),
]
LEDGER = Ledger.of(LINES)

_RAW = """INSERT INTO telemetry_raw (id, tenant_id, farm_id, barn_id, device_id, occurred_at, metric_type, metric_value,
          stream_id, seq, sensor) VALUES ($1, 'demo', 'f', 'b', $2, $3, 'torture', $4, $5, $6, $7)"""


@pytest_asyncio.fixture
async def cloud(cloud_url: str) -> AsyncIterator[Connection]:
    """A cloud that has everything of the ledger."""
    connection = await asyncpg.connect(cloud_url)
    for number in range(1, SAMPLES + 1):
        await add_sample(connection, number, sample_id(STREAM, number))
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
        """INSERT INTO weight_sessions (tenant_id, id, status, final_weight_kg, image_count, first_event_at)
           VALUES ('demo', $1, 'finalized', 84.0, 2, now())""",
        SESSION,
    )
    yield connection
    await connection.close()


async def add_sample(connection: Connection, number: int, row_id: UUID, device: str = NODE) -> None:
    at = from_us(wall_us_of(OFFER, number))
    await connection.execute(_RAW, row_id, device, at, float(number), STREAM, number, sensor_of(number))


async def judged(url: str) -> list[Tally]:
    return [
        await judge_samples(url, LEDGER, [NODE]),
        await judge_said(url, LEDGER, ["sensor", "station"]),
        await judge_weighed(url, LEDGER),
    ]


@pytest.mark.usefixtures("cloud")
async def test_what_is_there_as_it_was_sent_is_let_pass(cloud_url: str) -> None:
    tallies = await judged(cloud_url)
    assert [(tally.accepted, tally.stored) for tally in tallies] == [(SAMPLES, SAMPLES), (4, 4), (1, 1)]
    assert all(tally.is_clean for tally in tallies), tallies


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
}  # fmt: skip


@pytest.mark.parametrize("case", CHANGES)
async def test_every_change_by_hand_is_found(cloud: Connection, cloud_url: str, case: str) -> None:
    change, blamed = CHANGES[case]
    await cloud.execute(change)
    tallies = await judged(cloud_url)
    assert sum(getattr(tally, blamed) for tally in tallies) >= 1, tallies


async def test_a_sample_that_is_there_twice_is_found_of_every_node(cloud: Connection, cloud_url: str) -> None:
    await add_sample(cloud, 17, uuid4())
    assert (await judge_samples(cloud_url, LEDGER, [NODE])).duplicated == 1
    for _ in range(2):
        await add_sample(cloud, 17, uuid4(), device="a-node-of-the-farm")
    assert (await judge_samples(cloud_url, LEDGER, [NODE])).duplicated == 2


async def test_a_loss_that_was_declared_is_no_loss_in_silence(cloud: Connection, cloud_url: str) -> None:
    await cloud.execute("DELETE FROM telemetry_raw WHERE seq BETWEEN 20 AND 29")
    await cloud.execute(
        """INSERT INTO stream_losses (tenant_id, event_id, farm_id, barn_id, device_id, stream_id, first_seq, last_seq, count,
           reason, dropped_at) VALUES ('demo', $1, 'f', 'b', $2, $3, 20, 27, 8, 'capacity', now())""",
        uuid4(), NODE, STREAM,
    )  # fmt: skip
    tally = await judge_samples(cloud_url, LEDGER, [NODE])
    assert (tally.stored, tally.declared_lost, tally.lost) == (54, 8, 2)
