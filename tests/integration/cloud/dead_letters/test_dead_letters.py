"""Dead letters on a real RabbitMQ, with the record of what was done with them in a real PostgreSQL."""

import asyncio
import time
import tracemalloc
from collections.abc import AsyncIterator
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
import pytest

from farmiq.cloud.dead_letters import audit, handlers, saved
from farmiq.cloud.dead_letters.audit import Asked, QueueBusy
from farmiq.cloud.dead_letters.collection import WINDOW, NoSuchQueue
from farmiq.cloud.dead_letters.course import Result
from farmiq.cloud.dead_letters.filters import Filter
from farmiq.cloud.dead_letters.handlers import NoSuchService
from farmiq.cloud.dead_letters.pace import Pace
from farmiq.cloud.topology import WORK_QUEUES
from farmiq.contracts.telemetry import pack_of
from farmiq.kit import bus_headers, bus_worker
from farmiq.kit.amqp import Delivery, Outgoing, Publisher, TopologyGone
from farmiq.kit.amqp_inspection import connected
from farmiq.kit.clock import Clock
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.postgres import Connection, Pool
from farmiq.timeseries.admission import admit_batches
from farmiq.timeseries.samples import StreamBatch
from farmiq.timeseries.stream import Origin
from support.bus_queue import take_messages
from support.bus_work import TABLE, Numbers, working
from support.dead_letters import (
    ALL,
    AT,
    DEAD_LETTERS,
    QUEUE,
    SERVICE,
    asked,
    filled,
    filled_queue,
    ids_in,
    letter,
    numbered,
    waiting_ids,
)
from support.entrance import event
from support.rabbitmq import NewVirtualHost
from support.telemetry import NOW, batch_of, loss_of
from support.waiting import eventually


@pytest.fixture
def url(new_vhost: NewVirtualHost) -> str:
    return new_vhost()


@pytest.fixture
async def database(cloud_pool: Pool) -> AsyncIterator[Connection]:
    async with cloud_pool.acquire() as connection:
        yield connection


async def replay(
    database: Connection, url: str, publisher: Publisher, what: Asked, per_second: float | None = None
) -> Result:
    return await handlers.replay(database, url, publisher, what, seen_max=ALL, pace=Pace(per_second, Clock()))


async def test_looking_counts_by_reason_and_moves_every_letter_once_in_its_order(
    url: str, database: Connection, cloud_pool: Pool
) -> None:
    count = 207  # several windows, the last one not full
    letters = [letter(number, reason="schema" if number % 3 else "refused") for number in range(count)]
    async with filled(url, *letters) as publisher:
        first = await handlers.summarize(database, url, SERVICE, 10)
        assert await publisher.depths([DEAD_LETTERS]) == {DEAD_LETTERS: count - 10}
        summary = await handlers.summarize(database, url, SERVICE, ALL)
        again = await handlers.summarize(database, url, SERVICE, ALL)
        some = await handlers.summarize(database, url, SERVICE, 10)
        assert await publisher.depths([DEAD_LETTERS]) == {DEAD_LETTERS: 0}

    assert (summary.messages, summary.seen, summary.queue) == (count, count, DEAD_LETTERS)
    assert {group.reason: group.count for group in summary.groups} == {"refused": 69, "schema": 138}
    assert summary.groups[1].first_failed_at == AT
    assert again == summary
    assert (first.messages, first.seen) == (some.messages, some.seen) == (count, 10)
    assert await waiting_ids(cloud_pool, url) == numbered(range(count))


async def test_fifty_looks_under_a_delivery_limit_of_three_lose_no_letter(
    url: str, database: Connection, cloud_pool: Pool
) -> None:
    async with filled_queue(url, *map(letter, range(WINDOW + 5)), delivery_limit=3) as publisher:
        for look in range(50):
            summary = await handlers.summarize(database, url, SERVICE, ALL)
            assert summary.messages == WINDOW + 5 + look
            assert await publisher.publish_many([letter(WINDOW + 5 + look)]) == [None]

    assert await waiting_ids(cloud_pool, url) == numbered(range(WINDOW + 55))


async def test_a_letter_that_comes_again_is_the_same_letter_also_after_it_was_settled(
    url: str, database: Connection, cloud_pool: Pool
) -> None:
    """As when the process died after the commit, and RabbitMQ noticed only after somebody had replayed the letter."""
    async with filled(url, letter(0), letter(1)) as publisher:
        await handlers.summarize(database, url, SERVICE, ALL)
        assert await publisher.publish_many([letter(0), letter(1)]) == [None, None]
        assert (await handlers.summarize(database, url, SERVICE, ALL)).messages == 2
        assert (await replay(database, url, publisher, asked("replay", Filter(ids=("m-0",))))).counts.done == 1
        assert await publisher.publish_many([letter(0), letter(1)]) == [None, None]
        assert (await handlers.summarize(database, url, SERVICE, ALL)).messages == 1

    assert await ids_in(url, QUEUE) == ["m-0"]
    assert await waiting_ids(cloud_pool, url) == ["m-1"]
    assert await cloud_pool.fetchval("SELECT body FROM dead_letters WHERE settled_at IS NOT NULL") == b""


async def test_a_letter_keeps_its_headers_and_properties_value_for_value(database: Connection) -> None:
    """Also those that our client can read and not write."""
    headers: dict[str, Any] = {
        "bytes": b"\xff\x00",
        "array": bytearray(b"\xff"),
        "decimal": Decimal("1.50"),
        "double": 0.1,
        "at": AT,
        "nested": {"list": [1, -(2**40), None, True, {"text": "a\0b"}]},
    }
    delivery = Delivery(
        b"\0\xff", "an.exchange", "a.key", None, headers, False, 7, 1, {"content_type": "text/plain", "timestamp": AT}
    )

    await saved.save(database, DEAD_LETTERS, [delivery])

    [[shown]] = [page async for page in saved.pages(database, DEAD_LETTERS, ALL)]
    assert shown.delivery.headers == headers
    assert {name: type(value) for name, value in shown.delivery.headers.items()} == {
        name: type(value) for name, value in headers.items()
    }
    assert msgspec.structs.replace(shown.delivery, is_redelivered=False, tag=7, connection=1) == delivery


async def test_letters_that_were_looked_at_count_with_their_queue_in_the_metric(
    url: str, database: Connection, cloud_pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus_worker, "WATCH_INTERVAL_SECONDS", 0.1)
    queue = msgspec.structs.replace(WORK_QUEUES[SERVICE], rest_seconds=0.0)
    life = Lifetime(SERVICE)

    async def is_shown(letters: int) -> bool:
        return life.registry.get_sample_value("farmiq_bus_queue_messages", {"queue": DEAD_LETTERS}) == letters

    async with filled(url, letter(0), letter(1)) as publisher:
        worker = bus_worker.BusWorker(url, queue, name="test")
        work, count = Numbers(cloud_pool), partial(saved.count, cloud_pool)
        running = asyncio.create_task(bus_worker.run_bus_worker(life, worker, work, count_saved=count))
        await eventually(lambda: is_shown(2), what="two letters in the queue")
        await handlers.summarize(database, url, SERVICE, ALL)
        assert await publisher.publish_many([letter(2)]) == [None]
        await eventually(lambda: is_shown(3), what="two letters in the database and one in the queue")
        life.stopping.set()
        await running


async def test_a_database_that_takes_no_rows_costs_a_letter_no_delivery(
    url: str, cloud_url: str, cloud_pool: Pool
) -> None:
    async with filled_queue(url, letter(0), delivery_limit=3) as publisher:
        closed = await asyncpg.connect(cloud_url, server_settings={"default_transaction_read_only": "on"})
        try:
            for _ in range(10):
                with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
                    await handlers.summarize(closed, url, SERVICE, ALL)
        finally:
            await closed.close()
        assert await publisher.depths([DEAD_LETTERS]) == {DEAD_LETTERS: 1}
    [message] = await take_messages(url, DEAD_LETTERS)
    assert (message.header.properties.headers or {}).get("x-delivery-count", 0) == 0


async def test_the_first_that_match_are_found_and_found_again(url: str, database: Connection) -> None:
    async with filled(url, *(letter(number, tenant_id="other" if number == 3 else "demo") for number in range(20))):
        wanted = Filter(tenant_id="demo", since=AT.replace(minute=2))
        for _ in range(2):
            found = await handlers.find(database, url, SERVICE, wanted, limit=3, messages_max=ALL)
            assert [one.letter.message_id for one in found] == ["m-2", "m-4", "m-5"]
        assert found[0].delivery.headers[bus_headers.REASON] == "schema"


async def test_only_what_is_meant_is_replayed_as_it_was_first_published_and_the_action_is_on_record(
    url: str, database: Connection, cloud_pool: Pool
) -> None:
    letters = [letter(number, reason="refused" if number % 2 else "schema") for number in range(10)]
    async with filled(url, *letters) as publisher:
        result = await replay(database, url, publisher, asked("replay", Filter(reason="refused")))

    assert (result.messages, msgspec.to_builtins(result.counts)) == (
        10,
        {"seen": 10, "matched": 5, "done": 5, "failed": 0},
    )
    back = await take_messages(url, QUEUE)
    assert [message.header.properties.message_id for message in back] == numbered(range(1, 10, 2))
    assert [message.body for message in back] == [one.body for one in letters[1::2]]
    headers = {
        name: value for name, value in (back[0].header.properties.headers or {}).items() if name != "x-delivery-count"
    }
    assert headers == {
        "x-trace-id": "t-1",
        bus_headers.EXCHANGE: "farmiq.telemetry.exchange",
        bus_headers.ROUTING_KEY: "telemetry.ingested",
        bus_headers.REPLAYS: 1,
    }
    assert await waiting_ids(cloud_pool, url) == numbered(range(0, 10, 2))
    [action] = await audit.actions(database, 10)
    assert (action.action_id, action.kind, action.service, action.queue) == (
        result.action_id,
        "replay",
        SERVICE,
        DEAD_LETTERS,
    )
    assert (action.asked_by, action.asked_over, action.filter) == ("ann@barn", "cli", {"reason": "refused"})
    assert (action.matched, action.done, action.failed, action.error) == (5, 5, 0, None)
    assert action.finished_at is not None


async def test_a_dry_run_counts_changes_nothing_and_is_on_record_too(
    url: str, database: Connection, cloud_pool: Pool
) -> None:
    async with filled(url, *map(letter, range(5))) as publisher:
        for kind in ("replay", "discard"):
            what = asked(kind, is_dry_run=True)
            result = (
                await replay(database, url, publisher, what)
                if kind == "replay"
                else await handlers.discard(database, url, what, seen_max=ALL)
            )
            assert (result.counts.matched, result.counts.done) == (5, 0)

    assert await waiting_ids(cloud_pool, url) == numbered(range(5))
    assert await ids_in(url, QUEUE) == []
    assert [(action.kind, action.is_dry_run) for action in await audit.actions(database, 10)] == [
        ("discard", True),
        ("replay", True),
    ]


async def test_no_more_than_the_limit_and_no_faster_than_the_rate(
    url: str, database: Connection, cloud_pool: Pool
) -> None:
    async with filled(url, *map(letter, range(20))) as publisher:
        started = time.monotonic()
        result = await replay(database, url, publisher, asked("replay", messages_max=8), per_second=20)

        # Two go at once, and the last two not before three tenths of a second have passed.
        assert time.monotonic() - started >= 6 / 20
    assert result.counts.done == 8
    assert await waiting_ids(cloud_pool, url) == numbered(range(8, 20))
    assert len(await ids_in(url, QUEUE)) == 8


async def test_what_fails_again_comes_back_once_and_the_replay_ends(
    url: str, database: Connection, cloud_pool: Pool
) -> None:
    await cloud_pool.execute(TABLE)
    queue = msgspec.structs.replace(WORK_QUEUES[SERVICE], rest_seconds=0.0)
    bodies = [b"rubbish", b"7"] * 30
    letters = [letter(number, body=body) for number, body in enumerate(bodies)]
    async with filled(url, *letters) as publisher, working(url, Numbers(cloud_pool), queue=queue):
        result = await replay(database, url, publisher, asked("replay"))

        async def are_back() -> bool:
            return await publisher.depths([QUEUE, DEAD_LETTERS]) == {QUEUE: 0, DEAD_LETTERS: 30}

        await eventually(are_back)
        found = await handlers.find(database, url, SERVICE, Filter(), limit=100, messages_max=ALL)
    assert result.counts.done == 60
    assert {(one.letter.reason, one.letter.replays) for one in found} == {("not_a_number", 1)}
    assert await cloud_pool.fetchval("SELECT tries FROM numbers WHERE number = 7") == 30


async def test_a_queue_that_takes_nothing_ends_the_replay_and_nothing_is_lost(
    url: str, database: Connection, cloud_pool: Pool
) -> None:
    async with filled(url, *map(letter, range(5))) as publisher:
        async with connected(url, "test") as connection:
            await (await connection.channel()).queue_delete(QUEUE)
        with pytest.raises(TopologyGone, match=QUEUE):
            await replay(database, url, publisher, asked("replay"))

    assert await waiting_ids(cloud_pool, url) == numbered(range(5))
    [action] = await audit.actions(database, 10)
    assert (action.matched, action.done, action.failed) == (5, 0, 5)
    assert QUEUE in str(action.error)


async def test_what_is_discarded_is_kept_whole_and_the_action_is_on_record(
    url: str, database: Connection, cloud_pool: Pool
) -> None:
    letters = [letter(0), letter(1, body=b"\x00\xff rubbish", odd="a\0b"), letter(2, tenant_id="other")]
    async with filled(url, *letters):
        wanted = asked("discard", Filter(until=AT.replace(minute=2)))
        result = await handlers.discard(database, url, wanted, seen_max=ALL)

    assert await waiting_ids(cloud_pool, url) == ["m-2"]
    rows = await cloud_pool.fetch("SELECT * FROM discarded_letters ORDER BY discard_id")
    assert [(row["message_id"], row["body"], row["reason"]) for row in rows] == [
        ("m-0", letters[0].body, "schema"),
        ("m-1", letters[1].body, "schema"),
    ]
    assert {row["action_id"] for row in rows} == {result.action_id}
    kept: dict[str, Any] = msgspec.json.decode(rows[1]["headers"])
    assert (kept["odd"], kept[bus_headers.REASON]) == ("a\0b", "schema")
    [action] = await audit.actions(database, 10)
    assert (action.kind, action.done, action.filter) == ("discard", 2, {"until": "2026-01-01T10:02:00Z"})


async def test_the_record_is_there_before_the_first_letter_is_touched(
    url: str, cloud_pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "LOCK_SECONDS_MAX", 0.2)
    async with filled(url, *map(letter, range(3))) as publisher, cloud_pool.acquire() as busy:
        async with audit.alone_with(busy, DEAD_LETTERS), cloud_pool.acquire() as other:
            with pytest.raises(QueueBusy, match="Somebody else is going through"):
                await replay(other, url, publisher, asked("replay"))
            [action] = await audit.actions(other, 10)
        assert (action.done, action.error) == (0, f"Somebody else is going through {DEAD_LETTERS}")
        assert (await replay(busy, url, publisher, asked("replay"))).counts.done == 3


async def test_a_long_queue_is_never_in_memory_as_a_whole(url: str, database: Connection) -> None:
    size, count = 20_000, WINDOW * 20
    async with filled(url, *(letter(number, body=b"x" * size) for number in range(count))) as publisher:
        tracemalloc.start()
        try:
            summary = await handlers.summarize(database, url, SERVICE, ALL)
            result = await replay(database, url, publisher, asked("replay"))
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert (summary.seen, result.counts.done) == (count, count)
    assert peak_bytes < size * count / 2, peak_bytes


async def test_a_queue_that_does_not_exist_and_a_service_that_has_none_are_told_apart(
    url: str, database: Connection
) -> None:
    with pytest.raises(NoSuchQueue, match=DEAD_LETTERS):
        await handlers.summarize(database, url, SERVICE, ALL)
    with pytest.raises(NoSuchService, match="cloud-telemetry-service"):
        await handlers.summarize(database, url, "cloud-ingestion", ALL)


STREAM = UUID(int=77)


def bus_letter(number: int, reason: str = "not_storable", **changes: Any) -> Outgoing:
    return letter(number, reason, body=msgspec.json.encode(event(UUID(int=1000 + number), **changes)))


def pack_letter(number: int, first: int, last: int, **changes: Any) -> Outgoing:
    pack = msgspec.to_builtins(pack_of(batch_of(STREAM, first, last), first, last))
    return bus_letter(number, event_type="telemetry.batch.ingested", payload=pack, **changes)


async def ledger(pool: Pool, table: str, *columns: str) -> list[tuple[Any, ...]]:
    rows = await pool.fetch(f"SELECT {', '.join(columns)} FROM {table} ORDER BY {columns[0]}, declared_by")  # noqa: S608 - our own
    return [tuple(row) for row in rows]


async def test_discarded_samples_are_in_the_loss_ledger_with_who_and_why(
    url: str, database: Connection, cloud_pool: Pool
) -> None:
    """promise-cloud 13: they were neither stored nor declared lost."""
    async with cloud_pool.acquire() as connection, connection.transaction():
        item = StreamBatch(Origin("demo", "farm-1", "barn-1", "node-1"), batch_of(STREAM, 1, 10))
        await admit_batches(connection, [item], NOW)
    async with filled(url, pack_letter(0, 11, 20), pack_letter(1, 21, 30), pack_letter(2, 8, 12)):
        wanted = msgspec.structs.replace(asked("discard"), note="the sensor was upside down")
        await handlers.discard(database, url, wanted, seen_max=ALL)

    columns = ("first_seq", "last_seq", "count", "reason", "device_id", "declared_by")
    assert await ledger(cloud_pool, "stream_losses", *columns) == [
        (8, 12, 5, "discarded", "node-1", "ann@barn"),
        (11, 20, 10, "discarded", "node-1", "ann@barn"),
        (21, 30, 10, "discarded", "node-1", "ann@barn"),
    ]
    notes = await ledger(cloud_pool, "stream_losses", "note")
    assert all("the sensor was upside down" in note for (note,) in notes)
    # Nothing of the stream is missing any more, and what is stored is not lost.
    covered = await cloud_pool.fetchrow("SELECT received::text, lost::text FROM streams")
    assert covered is not None
    assert tuple(covered) == ("{[1,11)}", "{[11,31)}")
    (action,) = await audit.actions(database, 10)
    assert action.note == "the sensor was upside down"


async def test_discarded_events_are_in_the_ledger_of_stations_and_a_discarded_loss_is_the_loss_that_it_says(
    url: str, database: Connection, cloud_pool: Pool
) -> None:
    lost = {"reason": "no_space", "dropped_at": "2026-01-01T10:00:00Z", "count": 3, "pictures": 2}
    letters = [
        bus_letter(0),
        bus_letter(1, event_type="station.loss", device_id="scale-1", payload=lost),
        bus_letter(2, event_type="telemetry.loss", payload=msgspec.to_builtins(loss_of(STREAM, 1, 4))),
        letter(3, "not_json", body=b"\xff rubbish"),
        bus_letter(4, event_type="weighvision.weight.recorded", payload={"weight_kg": "heavy"}),
    ]
    async with filled(url, *letters):
        result = await handlers.discard(database, url, asked("discard"), seen_max=ALL)
    assert result.counts.done == 5
    columns = ("device_id", "reason", "count", "pictures", "declared_by")
    assert await ledger(cloud_pool, "station_losses", *columns) == [
        ("node-1", "discarded", 1, 0, "ann@barn"),
        ("node-1", "discarded", 1, 0, "ann@barn"),
        ("scale-1", "no_space", 3, 2, "ann@barn"),
    ]
    assert await ledger(cloud_pool, "stream_losses", "first_seq", "last_seq", "reason") == [(1, 4, "spool_cap")]
    assert await cloud_pool.fetchval("SELECT event_id FROM station_losses WHERE reason = 'no_space'") == UUID(int=1001)


async def test_a_letter_of_another_devices_stream_fills_nothing_of_it(
    url: str, database: Connection, cloud_pool: Pool
) -> None:
    async with cloud_pool.acquire() as connection, connection.transaction():
        item = StreamBatch(Origin("demo", "farm-1", "barn-1", "node-1"), batch_of(STREAM, 1, 10))
        await admit_batches(connection, [item], NOW)
    async with filled(url, pack_letter(0, 11, 20, device_id="node-2")):
        await handlers.discard(database, url, asked("discard"), seen_max=ALL)
    assert await ledger(cloud_pool, "station_losses", "device_id", "reason", "count") == [("node-2", "discarded", 1)]
    assert await cloud_pool.fetchval("SELECT isempty(lost) FROM streams")


async def test_what_analytics_discards_is_no_loss(url: str, database: Connection, cloud_pool: Pool) -> None:
    """The service that stores it has it."""
    service = "cloud-analytics-service"
    queue = WORK_QUEUES[service].dead_letter_queue
    async with filled(url) as publisher:
        one = msgspec.structs.replace(bus_letter(0), routing_key=queue)
        assert await publisher.publish_many([one]) == [None]
        wanted = msgspec.structs.replace(asked("discard"), service=service, queue=queue)
        assert (await handlers.discard(database, url, wanted, seen_max=ALL)).counts.done == 1
    assert await ledger(cloud_pool, "station_losses", "device_id") == []
