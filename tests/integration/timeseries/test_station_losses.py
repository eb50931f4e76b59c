"""What weigh stations gave up: at both tiers the same, each once, in the order of the ledger of streams."""

from datetime import UTC, datetime, timedelta

import msgspec

from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Pool
from farmiq.timeseries import station_losses
from farmiq.timeseries.station_losses import COUNT_MAX, REASON_CHARS_MAX, UNREADABLE, Place, read
from farmiq.timeseries.summary import summarize
from support.query_api import query_api

AT = datetime(2026, 10, 31, 23, 30, tzinfo=UTC)
NORTH = Place("demo", "farm-1", "barn-1", "station-1")
SOUTH = Place("demo", "farm-1", "barn-2", "station-2")
ELSEWHERE = Place("other", None, None, "station-9")


async def fill(pool: Pool) -> None:
    said = msgspec.json.encode({"reason": "too_old", "count": 3, "pictures": 2})
    async with pool.acquire() as connection:
        for hours, place in enumerate((NORTH, NORTH, SOUTH, ELSEWHERE)):
            event_id, at = new_id(), AT + timedelta(hours=hours)
            for _ in range(2):
                await station_losses.record(connection, place, event_id, at, said, AT)
        await station_losses.record(connection, SOUTH, new_id(), AT, b"[]", AT + timedelta(days=9))


async def test_each_is_in_the_ledger_once_and_in_its_sums(any_pool: Pool) -> None:
    await fill(any_pool)
    async with any_pool.acquire() as connection:
        told = await station_losses.summary(connection, "demo")
        day = await summarize(connection, tenant_id="demo", since=AT, until=AT + timedelta(hours=24), limit=10)
        nothing = await station_losses.summary(connection, "nobody")
    assert (told.records, told.lost, told.pictures, told.last_at) == (4, 9, 6, AT + timedelta(hours=2))
    assert [(one.month_at.month, one.records, one.lost) for one in told.sums] == [(10, 2, 3), (11, 2, 6)]
    assert (nothing.records, nothing.sums) == (0, [])
    assert day.stations_lost is not None
    assert (day.stations_lost.losses, day.stations_lost.lost, day.stations_lost.stations) == (3, 9, 2)
    assert day.stations_lost.device_id is None


async def test_pages_come_in_the_order_of_the_ledger(edge_url: str, edge_pool: Pool) -> None:
    await fill(edge_pool)
    async with query_api(edge_url) as api:
        whole = await api.get("/api/v1/losses/stations", tenant_id="demo")
        pages = await api.pages("/api/v1/losses/stations", tenant_id="demo", limit=1)
        some = await api.get("/api/v1/losses/stations", tenant_id="demo", device_id="station-2", reason=UNREADABLE)
        told = await api.get("/api/v1/losses/summary", tenant_id="demo")
    rows = [row for page in pages for row in page["losses"]]
    assert rows == whole["losses"]
    assert [row["device_id"] for row in rows[:2]] == ["station-2", "station-1"]
    assert [row["is_count_exact"] for row in some["losses"]] == [False]
    assert told["stations"]["records"] == 4


async def test_a_word_or_a_number_out_of_this_world_is_kept_within_bounds(edge_pool: Pool) -> None:
    said = msgspec.json.encode({"reason": "a\0" * 500, "count": 10**30, "pictures": 10**30})
    async with edge_pool.acquire() as connection:
        await station_losses.record(connection, NORTH, new_id(), AT, said, AT)
        await station_losses.record(connection, NORTH, new_id(), AT, said, AT)
        told = await station_losses.summary(connection, "demo")
        reason = await connection.fetchval("SELECT reason FROM station_losses LIMIT 1")
    assert (told.lost, len(reason)) == (2 * COUNT_MAX, REASON_CHARS_MAX)


def test_what_can_not_be_read_is_a_loss_all_the_same() -> None:
    for payload in (b"", b"[]", b'{"reason": 5}', b'{"reason": "x", "count": -1}', b"\xff"):
        assert (read(payload).reason, read(payload).is_count_exact) == (UNREADABLE, False)
    assert read(b'{"reason": "moths", "count": 2}').count == 2
