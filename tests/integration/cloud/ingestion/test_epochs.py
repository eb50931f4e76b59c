"""Answers are numbered: an edge whose cloud went back hears of it, and nobody else does."""

import secrets
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import msgspec
import pytest
from msgspec import Raw, structs

from farmiq.cloud import restore_epoch
from farmiq.cloud.ingestion import edges, epochs
from farmiq.cloud.ingestion.handlers import Asked, ingest
from farmiq.cloud.ingestion.jobs import jobs
from farmiq.cloud.ingestion.ownership import Owners
from farmiq.cloud.ingestion.screening import screen
from farmiq.cloud.topology import topology
from farmiq.contracts import bus
from farmiq.contracts.sync import ANSWER_TOKENS_MAX, CloudEpoch, HeardAnswer
from farmiq.edge.sync_forwarder.cloud_epochs import KnownEpoch
from farmiq.kit.amqp import Publisher
from farmiq.kit.postgres import Pool
from support.bus_queue import take_all
from support.entrance import event
from support.rabbitmq import NewVirtualHost
from support.stored_months import run_now


@pytest.fixture
def amqp_url(new_vhost: NewVirtualHost) -> str:
    return new_vhost()


MARKS = next(job for job in jobs({}) if job.name == "cloud-answer-marks")


def heard_of(said: CloudEpoch | None) -> HeardAnswer | None:
    if said is None or said.answer is None:
        return None
    return HeardAnswer(epoch=said.epoch, answer=said.answer, token=said.tokens[-1])


async def answer(pool: Pool, heard: CloudEpoch | None = None, edge: str = "edge-1", tenant: str = "demo") -> CloudEpoch:
    async with pool.acquire() as connection, connection.transaction():
        count = await epochs.count_of(connection, tenant, edge, heard_of(heard))
        return await epochs.number_answer(connection, tenant, edge, count, heard_of(heard))


async def answers(pool: Pool, count: int, heard: CloudEpoch | None = None, edge: str = "edge-1") -> CloudEpoch:
    for _ in range(count):
        heard = await answer(pool, heard, edge)
    assert heard is not None
    return heard


async def test_answers_are_counted_for_each_edge_and_tenant(cloud_pool: Pool) -> None:
    first, own = await answer(cloud_pool), await epochs.load_epoch(cloud_pool)
    assert (first.epoch, first.answer, first.resend_after) == (own.epoch, 1, None)
    assert (await answers(cloud_pool, 4, first)).answer == 5
    assert (await answer(cloud_pool, edge="edge-2")).answer == 1
    assert (await answer(cloud_pool, tenant="other")).answer == 1
    # An edge that has not written down what it was told is behind, and has lost nothing.
    late = await answer(cloud_pool, first)
    assert (late.epoch, late.answer, late.resend_after) == (own.epoch, 6, None)


async def test_a_database_that_lost_commits_and_says_nothing_is_found_out_by_the_edge_that_lost_something(
    cloud_pool: Pool,
) -> None:
    """promise-cloud 11: a snapshot, a replica that was promoted, a disk that lied. The epoch stays the same."""
    kept, others = await answers(cloud_pool, 5), await answers(cloud_pool, 5, edge="edge-2")
    await snapshot(cloud_pool)
    heard = await answers(cloud_pool, 3, kept)
    await set_back(cloud_pool)
    after = await answer(cloud_pool, heard)
    assert after.epoch != kept.epoch
    assert after.began_at > kept.began_at
    assert (after.answer, after.resend_after) == (9, 0)  # later than all that the edge has heard
    # The answer was lost on its way: the edge asks as before, and is told again.
    assert (await answer(cloud_pool, heard)).resend_after == 0
    # It has heard of it.
    told = await answer(cloud_pool, after)
    assert (told.epoch, told.resend_after) == (after.epoch, None)
    assert (await answer(cloud_pool, others, "edge-2")).epoch == kept.epoch


async def test_a_number_that_was_given_twice_is_found_out_too(cloud_pool: Pool) -> None:
    """A request that was under way when the database went back told an older answer: it gets the number of a lost one."""
    kept = await answers(cloud_pool, 5)
    await snapshot(cloud_pool)
    lost = await answer(cloud_pool, kept)
    await set_back(cloud_pool)
    other = await answer(cloud_pool, kept)
    assert (other.epoch, other.answer) == (lost.epoch, lost.answer)
    known = KnownEpoch(kept.epoch).after(kept)
    # Whichever of the two the edge has heard first stays, and is what it tells next.
    assert known.after(lost).after(other) == known.after(lost)
    assert (await answer(cloud_pool, lost)).epoch != kept.epoch


async def test_an_answer_confirms_those_that_it_stands_in_one_row_with(cloud_pool: Pool) -> None:
    first = await answers(cloud_pool, 5)
    known = KnownEpoch(first.epoch).after(first)
    later = [await answer(cloud_pool, first) for _ in range(3)]
    assert [one.tokens for one in later] == [
        [first.tokens[-1], *(one.tokens[-1] for one in later[: place + 1])] for place in range(3)
    ]
    # In any order: the last one is known in the end.
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        now = known
        for place in order:
            now = now.after(later[place])
        assert (now.answer, now.token) == (later[2].answer, later[2].tokens[-1])
    # A request that was long on its way names one of which the cloud has no token any more.
    far = await answers(cloud_pool, ANSWER_TOKENS_MAX + 1, later[2])
    slow = await answer(cloud_pool, later[2])
    assert (slow.epoch, len(slow.tokens)) == (far.epoch, ANSWER_TOKENS_MAX)
    assert now.after(slow).answer == slow.answer


async def snapshot(pool: Pool) -> None:
    await pool.execute("CREATE TABLE answers_before AS SELECT * FROM edge_answers WHERE edge_cluster_id = 'edge-1'")


async def set_back(pool: Pool) -> None:
    await pool.execute("DELETE FROM edge_answers WHERE edge_cluster_id = 'edge-1'")
    await pool.execute("INSERT INTO edge_answers SELECT * FROM answers_before")
    await pool.execute("DROP TABLE answers_before")


async def test_a_database_without_the_row_has_lost_everything_that_its_edge_heard(cloud_pool: Pool) -> None:
    heard = await answers(cloud_pool, 4)
    await cloud_pool.execute("DELETE FROM edge_answers")
    after = await answer(cloud_pool, heard)
    assert after.epoch != heard.epoch
    assert (after.answer, after.resend_after) == (5, 0)


async def test_what_was_accepted_a_day_before_is_safe(cloud_pool: Pool) -> None:
    """An event may be on the bus for a while: what a mark of a day ago says has been taken from it."""
    heard = await answer(cloud_pool)
    for _ in range(30):
        await run_now(cloud_pool, MARKS)
        heard = await answers(cloud_pool, 10, heard)
    marks = [
        row["answered"] for row in await cloud_pool.fetch("SELECT answered FROM edge_answer_marks ORDER BY 1 DESC")
    ]
    assert marks[0] - marks[epochs.MARKS_BACK] == 240
    await snapshot(cloud_pool)
    heard = await answer(cloud_pool, heard)
    await set_back(cloud_pool)
    assert (await answer(cloud_pool, heard)).resend_after == marks[epochs.MARKS_BACK]


async def test_a_mark_is_made_where_answers_were_given(cloud_pool: Pool) -> None:
    await answers(cloud_pool, 2)
    assert await run_now(cloud_pool, MARKS, is_dry_run=True) == {"marks": 1}
    assert await run_now(cloud_pool, MARKS) == {"marks": 1, "forgotten": 0}
    assert await run_now(cloud_pool, MARKS) == {"marks": 0, "forgotten": 0}


async def test_a_person_has_one_tenants_edges_send_again_from_a_time_on(cloud_pool: Pool) -> None:
    now = datetime.now(UTC)
    async with cloud_pool.acquire() as connection:
        await edges.register(connection, edge_cluster_id="edge-9", tenant_ids=["demo"], token=secrets.token_urlsafe(24))
    heard = await answers(cloud_pool, 1)
    other = await answer(cloud_pool, tenant="other")
    # By a clock that was a year ahead in between.
    for wrong in [timedelta(hours=-90 + hours) for hours in range(60)] + [timedelta(days=365), timedelta(hours=-29)]:
        await run_now(cloud_pool, MARKS)
        await cloud_pool.execute(
            "UPDATE edge_answer_marks SET marked_at = $1 WHERE answered = $2 AND tenant_id = 'demo'",
            now + wrong,
            heard.answer,
        )
        heard = await answer(cloud_pool, heard)
    async with cloud_pool.acquire() as connection, connection.transaction():
        begun = await restore_epoch.begin(connection, now - timedelta(hours=40), "demo")
    assert begun.edges == 2
    said = await answer(cloud_pool, heard)
    assert said.epoch == begun.epoch.epoch
    # 40 hours and a day before: the mark of 65 hours ago.
    assert said.resend_after == 26
    assert (await answer(cloud_pool, edge="edge-9")).resend_after == 0
    assert (await answer(cloud_pool, other, tenant="other")).epoch == other.epoch


async def test_hours_are_told_to_analytics_again(cloud_pool: Pool) -> None:
    """promise-cloud 6: told, confirmed by a bus that was lost afterwards."""
    await cloud_pool.execute(
        'INSERT INTO telemetry_agg (tenant_id, farm_id, barn_id, device_id, metric_type, unit, sensor, "window",'
        " bucket_start_at, bucket_end_at, count, sum_value, min_value, max_value, updated_at)"
        " SELECT 'demo', 'f', 'b', 'd', 't', 'C', '', w, now() - age - interval '1 minute', now() - age, 1, 1, 1, 1, now() - age"
        " FROM unnest(ARRAY['1m', '1h', '1d']) AS w, unnest(ARRAY[interval '2 hours', interval '9 days']) AS age"
    )
    async with cloud_pool.acquire() as connection, connection.transaction():
        await restore_epoch.begin(connection, datetime.now(UTC))
    rows = await cloud_pool.fetch('SELECT "window" FROM telemetry_agg_unsent ORDER BY 1')
    assert [row["window"] for row in rows] == ["1d", "1h"]


async def test_what_was_accepted_before_the_epoch_began_is_passed_on_when_it_comes_again(
    cloud_pool: Pool, amqp_url: str
) -> None:
    """Its message may have been on a bus that was lost: it is remembered, and stored nowhere."""
    publisher = Publisher(amqp_url, name="test", topology=topology())
    await publisher.start()
    await publisher.wait_connected()
    sent, later = event(), event()
    edge = edges.Edge("edge-1", frozenset({"demo"}))

    async def send(*events: object) -> list[str]:
        items = screen(edge, [Raw(msgspec.json.encode(one)) for one in events], lambda: "made-here")
        results, _ = await ingest(cloud_pool, publisher, Owners(), items, Asked(subject=("demo", "edge-1")))
        return [result.status for result in results]

    async def arrived() -> list[UUID]:
        return [one.event_id for one in await take_all(amqp_url, bus.TELEMETRY_INGEST_QUEUE)]

    assert await send(sent) == ["accepted"]
    assert await send(sent) == ["duplicate"]
    assert await arrived() == [UUID(sent["event_id"])]
    async with cloud_pool.acquire() as connection, connection.transaction():
        await restore_epoch.begin(connection, datetime.now(UTC))
    # Its id stood for something else when it came first.
    assert await send({**sent, "payload": {**sent["payload"], "metric_value": 99.0}}) == ["rejected"]
    assert await send(sent, later) == ["duplicate", "accepted"]
    assert sorted(await arrived()) == sorted(UUID(one["event_id"]) for one in (sent, later))
    # Once.
    assert await send(sent, later) == ["duplicate", "duplicate"]
    assert await arrived() == []
    await publisher.stop()


async def test_a_batch_that_an_epoch_begins_under_comes_again(cloud_pool: Pool) -> None:
    """What was called a duplicate while the old epoch lasted may be lost in the new one."""
    heard = heard_of(await answer(cloud_pool))
    async with cloud_pool.acquire() as connection:
        count = await epochs.count_of(connection, "demo", "edge-1", heard)
        async with connection.transaction():
            await restore_epoch.begin(connection, datetime.now(UTC))
        with pytest.raises(epochs.EpochEnded):
            await epochs.number_answer(connection, "demo", "edge-1", count, heard)


async def test_what_an_edge_says_of_itself_can_only_cost_itself(cloud_pool: Pool) -> None:
    own, others = await answers(cloud_pool, 2), await answers(cloud_pool, 2, edge="edge-2")
    said = await answer(cloud_pool, structs.replace(own, answer=2**62 - 1))
    assert (said.answer, said.epoch != own.epoch) == (2**62, True)
    again = await answer(cloud_pool, structs.replace(own, epoch=uuid4(), answer=0))
    assert again.answer == 2**62 + 1
    assert (await answer(cloud_pool, others, "edge-2")).epoch == others.epoch
