from uuid import UUID

import pytest

from farmiq.contracts.telemetry import T_MAX_US, T_MIN_US, Channel, TelemetryBatch
from farmiq.contracts.timestamps import from_us
from farmiq.kit.ids import sample_id
from farmiq.kit.postgres import Pool
from farmiq.timeseries import store
from farmiq.timeseries.packed_rows import rows_of
from farmiq.timeseries.samples import COLUMNS, StreamBatch
from support.telemetry import HERE, NOW

CHANNELS = [
    Channel(metric="temperature", unit="°C", sensor="t1"),
    Channel(metric="humidity"),
    Channel(metric="co2", unit="ppm"),
]
TIMES = [T_MIN_US, -1, 0, 946_684_799_999_999, 946_684_800_000_000, 1_790_000_000_000_001, T_MAX_US]
VALUES = [0.0, -0.0, 1.5, -1e308, 5e-324, 21.25, 3.141592653589793]


@pytest.mark.parametrize(
    "stream_id", [UUID(int=0), UUID(int=(1 << 128) - 1), UUID("0193c0de-0000-7000-8000-00000000abcd")]
)
async def test_packed_rows_are_read_back_as_the_samples_that_they_were(any_pool: Pool, stream_id: UUID) -> None:
    numbers = range(len(TIMES))
    batch = TelemetryBatch(
        stream_id=stream_id, boot_id=UUID(int=7), lane="live", seq0=41, time_quality=255, channels=CHANNELS,
        t=TIMES, c=[number % 3 for number in numbers], v=VALUES,
    )  # fmt: skip
    item = StreamBatch(HERE, batch)
    async with any_pool.acquire() as connection, connection.transaction():
        await store.copy_rows(connection, [rows_of(item, (41, 43), NOW), rows_of(item, (43, 48), NOW)])
        rows = await connection.fetch(f"SELECT {', '.join(COLUMNS)} FROM telemetry_raw ORDER BY seq")  # noqa: S608 - our own names
    expected = [
        (
            sample_id("demo", stream_id, 41 + number), "demo", "farm-1", "barn-1", "node-1", from_us(TIMES[number]),
            CHANNELS[number % 3].metric, VALUES[number], CHANNELS[number % 3].unit or None, NOW, stream_id, 41 + number,
            CHANNELS[number % 3].sensor, 255, None,
        )
        for number in numbers
    ]  # fmt: skip
    assert [tuple(row) for row in rows] == expected
