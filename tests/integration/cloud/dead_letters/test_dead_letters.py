"""Dead letters on a real RabbitMQ, with the record of what was done with them in a real PostgreSQL."""

import asyncio
import time
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from farmiq.cloud.dead_letters import audit, handlers
from farmiq.cloud.dead_letters.audit import Asked, QueueBusy
from farmiq.cloud.dead_letters.course import Result
from farmiq.cloud.dead_letters.filters import Filter
from farmiq.cloud.dead_letters.handlers import NoSuchService
from farmiq.cloud.dead_letters.pace import Pace
from farmiq.cloud.dead_letters.walk import WINDOW, NoSuchQueue, walking
from farmiq.cloud.topology import WORK_QUEUES
from farmiq.kit import bus_headers
from farmiq.kit.amqp import Publisher, TopologyGone
from farmiq.kit.amqp_inspection import connected
from farmiq.kit.clock import Clock
from farmiq.kit.postgres import Connection, Pool
from support.bus_queue import take_messages
from support.bus_work import TABLE, Numbers, working
from support.dead_letters import AT, DEAD_LETTERS, QUEUE, SERVICE, asked, filled, ids_in, letter, numbered
from support.rabbitmq import NewVirtualHost
from support.waiting import eventually

ALL = 1_000_000


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
    clock = Clock()
    return await handlers.replay(
        database, url, publisher, what, seen_max=ALL, pace=Pace(per_second, clock), clock=clock
    )


async def test_looking_counts_by_reason_and_leaves_the_queue_as_it_was(url: str, database: Connection) -> None:
    count = 207  # several windows, the last one not full
    letters = [letter(number, reason="schema" if number % 3 else "refused") for number in range(count)]
    async with filled(url, *letters):
        summary = await handlers.summarize(database, url, SERVICE, ALL)
        again = await handlers.summarize(database, url, SERVICE, ALL)
        some = await handlers.summarize(database, url, SERVICE, 10)

    assert (summary.messages, summary.seen, summary.queue) == (count, count, DEAD_LETTERS)
    assert {group.reason: group.count for group in summary.groups} == {"refused": 69, "schema": 138}
    assert summary.groups[1].first_failed_at == AT
    assert again == summary
    assert (some.messages, some.seen) == (count, 10)
    left = await ids_in(url, DEAD_LETTERS)
    assert left == [*numbered(range(10, count)), *numbered(range(10))]


async def test_the_first_that_match_are_found_and_found_again(url: str, database: Connection) -> None:
    async with filled(url, *(letter(number, tenant_id="other" if number == 3 else "demo") for number in range(20))):
        wanted = Filter(tenant_id="demo", since=AT.replace(minute=2))
        for _ in range(2):
            found = await handlers.find(database, url, SERVICE, wanted, limit=3, messages_max=ALL)
            assert [one.letter.message_id for one in found] == ["m-2", "m-4", "m-5"]
        assert found[0].delivery.headers[bus_headers.REASON] == "schema"


async def test_only_what_is_meant_is_replayed_as_it_was_first_published_and_the_action_is_on_record(
    url: str, database: Connection
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
    assert await ids_in(url, DEAD_LETTERS) == numbered(range(0, 10, 2))
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


async def test_a_dry_run_counts_changes_nothing_and_is_on_record_too(url: str, database: Connection) -> None:
    async with filled(url, *map(letter, range(5))) as publisher:
        for kind in ("replay", "discard"):
            what = asked(kind, is_dry_run=True)
            result = (
                await replay(database, url, publisher, what)
                if kind == "replay"
                else await handlers.discard(database, url, what, seen_max=ALL, clock=Clock())
            )
            assert (result.counts.matched, result.counts.done) == (5, 0)

    assert await ids_in(url, DEAD_LETTERS) == numbered(range(5))
    assert await ids_in(url, QUEUE) == []
    assert [(action.kind, action.is_dry_run) for action in await audit.actions(database, 10)] == [
        ("discard", True),
        ("replay", True),
    ]


async def test_no_more_than_the_limit_and_no_faster_than_the_rate(url: str, database: Connection) -> None:
    async with filled(url, *map(letter, range(20))) as publisher:
        started = time.monotonic()
        result = await replay(database, url, publisher, asked("replay", messages_max=8), per_second=20)

        # Two go at once, and the last two not before three tenths of a second have passed.
        assert time.monotonic() - started >= 6 / 20
    assert result.counts.done == 8
    assert len(await ids_in(url, DEAD_LETTERS)) == 12
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


async def test_a_queue_that_takes_nothing_ends_the_replay_and_nothing_is_lost(url: str, database: Connection) -> None:
    async with filled(url, *map(letter, range(5))) as publisher:
        async with connected(url, "test") as connection:
            await (await connection.channel()).queue_delete(QUEUE)
        with pytest.raises(TopologyGone, match=QUEUE):
            await replay(database, url, publisher, asked("replay"))

    assert sorted(await ids_in(url, DEAD_LETTERS)) == numbered(range(5))
    [action] = await audit.actions(database, 10)
    assert (action.matched, action.done, action.failed) == (5, 0, 5)
    assert QUEUE in str(action.error)


async def test_what_is_discarded_is_kept_whole_and_the_action_is_on_record(
    url: str, database: Connection, cloud_pool: Pool
) -> None:
    letters = [letter(0), letter(1, body=b"\x00\xff rubbish", odd="a\0b"), letter(2, tenant_id="other")]
    async with filled(url, *letters):
        wanted = asked("discard", Filter(until=AT.replace(minute=2)))
        result = await handlers.discard(database, url, wanted, seen_max=ALL, clock=Clock())

    assert await ids_in(url, DEAD_LETTERS) == ["m-2"]
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


async def test_cut_off_in_the_middle_of_a_walk_everything_goes_back(url: str, database: Connection) -> None:
    async with filled(url, *map(letter, range(30))) as publisher:

        async def look_and_be_cancelled() -> None:
            async with walking(url, DEAD_LETTERS) as walk:
                async for _ in walk.windows(ALL):
                    await asyncio.Event().wait()

        looking = asyncio.create_task(look_and_be_cancelled())

        async def is_held() -> bool:
            return await publisher.depths([DEAD_LETTERS]) == {DEAD_LETTERS: 0}

        await eventually(is_held)
        looking.cancel()
        await asyncio.wait({looking})

        async def is_back() -> bool:
            return await publisher.depths([DEAD_LETTERS]) == {DEAD_LETTERS: 30}

        await eventually(is_back)
    assert looking.cancelled()
