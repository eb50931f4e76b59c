from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import msgspec
import pytest

from farmiq.contracts.telemetry import TelemetryIngested
from farmiq.kit.errors import EventIdReused
from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Pool
from farmiq.outbox import Event, append
from farmiq.outbox.append import COPY_FROM

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FEW, MANY = 3, COPY_FROM + 10


def event(event_id: UUID | None = None, tenant_id: str = "demo", payload: bytes = b'{"value":26.4}') -> Event:
    return Event(
        id=event_id or new_id(),
        tenant_id=tenant_id,
        farm_id="farm-1",
        event_type="test.event",
        occurred_at=NOON,
        payload=msgspec.Raw(payload),
    )


@pytest.mark.parametrize("count", [0, 1, FEW, COPY_FROM, MANY])
async def test_every_event_is_a_pending_row(pool: Pool, count: int) -> None:
    events = [event() for _ in range(count)]
    async with pool.acquire() as connection:
        await append(connection, events)
        rows = await connection.fetch("SELECT * FROM sync_outbox")
    assert {row["id"] for row in rows} == {item.id for item in events}
    assert all(
        (row["status"], row["attempt_count"], row["parked"], row["occurred_at"], row["payload_size_bytes"])
        == ("pending", 0, False, NOON, 14)
        for row in rows
    )


async def test_all_columns_of_an_event_are_written(pool: Pool) -> None:
    whole = Event(
        id=new_id(),
        tenant_id="demo",
        farm_id="farm-1",
        barn_id="barn-1",
        device_id="node-1",
        session_id=new_id(),
        event_type="telemetry.ingested",
        occurred_at=NOON,
        trace_id="abc",
        priority=5,
        payload=TelemetryIngested(metric_type="temperature", metric_value=26.4, unit="C"),
    )
    async with pool.acquire() as connection:
        await append(connection, [whole])
        row = await connection.fetchrow("SELECT * FROM sync_outbox")
    assert row is not None
    names = (
        "id",
        "tenant_id",
        "farm_id",
        "barn_id",
        "device_id",
        "session_id",
        "event_type",
        "occurred_at",
        "trace_id",
    )
    assert [row[name] for name in names] == [getattr(whole, name) for name in names]
    assert row["priority"] == 5
    payload = msgspec.json.decode(row["payload_json"], type=TelemetryIngested)
    assert payload == whole.payload


@pytest.mark.parametrize("count", [FEW, MANY])
async def test_what_is_rolled_back_with_its_cause_is_not_sent(pool: Pool, count: int) -> None:
    async with pool.acquire() as connection:
        work = connection.transaction()
        await work.start()
        await append(connection, [event() for _ in range(count)])
        await work.rollback()
        assert await connection.fetchval("SELECT count(*) FROM sync_outbox") == 0


@pytest.mark.parametrize("count", [FEW, MANY])
async def test_an_event_that_is_there_already_is_not_added_twice_and_takes_none_of_its_neighbours(
    pool: Pool, count: int
) -> None:
    again = event()
    others = [event() for _ in range(count)]
    async with pool.acquire() as connection, connection.transaction():
        await append(connection, [again])
        await append(connection, [*others, again])
        ids = {row["id"] for row in await connection.fetch("SELECT id FROM sync_outbox")}
    assert ids == {item.id for item in [again, *others]}


async def test_an_event_twice_in_one_call_is_one_row(pool: Pool) -> None:
    twice = event()
    async with pool.acquire() as connection:
        await append(connection, [twice, twice])
        assert await connection.fetchval("SELECT count(*) FROM sync_outbox") == 1


@pytest.mark.parametrize("count", [FEW, MANY])
async def test_an_id_of_another_tenant_is_another_event(pool: Pool, count: int) -> None:
    theirs = event(tenant_id="other")
    async with pool.acquire() as connection:
        await append(connection, [theirs])
        await append(connection, [*(event() for _ in range(count)), event(theirs.id, payload=b'{"value":1}')])
        tenants = await connection.fetch("SELECT tenant_id FROM sync_outbox WHERE id = $1", theirs.id)
        assert await connection.fetchval("SELECT count(*) FROM sync_outbox") == count + 2
    assert {row["tenant_id"] for row in tenants} == {"other", "demo"}


@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize(
    "change", [{"payload": msgspec.Raw(b'{"value":26.5}')}, {"device_id": "b"}, {"event_type": "x"}]
)
async def test_an_id_with_other_content_is_refused_and_not_skipped_in_silence(
    pool: Pool, count: int, change: dict[str, object]
) -> None:
    known = event()
    async with pool.acquire() as connection:
        await append(connection, [known])
        with pytest.raises(EventIdReused, match=str(known.id)):
            async with connection.transaction():
                await append(connection, [*(event() for _ in range(count)), msgspec.structs.replace(known, **change)])
        assert await connection.fetchval("SELECT count(*) FROM sync_outbox") == 1


async def test_what_describes_one_delivery_is_no_other_content(pool: Pool) -> None:
    known = event(payload=b'{"value":1e22,"lane":"live","unit":null}')
    again = msgspec.structs.replace(
        known,
        payload=msgspec.Raw(b'{"lane":"replay","value":10000000000000000000000}'),
        trace_id="another",
        priority=3,
        occurred_at=NOON.astimezone(timezone(timedelta(hours=7))),
    )
    async with pool.acquire() as connection:
        await append(connection, [known])
        await append(connection, [again])
        assert await connection.fetchval("SELECT count(*) FROM sync_outbox") == 1
