"""Old sessions go with everything that was in them; what somebody still waits for stays."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import pytest_asyncio

from farmiq.edge.weighvision_session import intake
from farmiq.edge.weighvision_session.cleanup import delete_expired_sessions
from farmiq.edge.weighvision_session.jobs import jobs
from farmiq.edge.weighvision_session.settings import SessionRetentionSettings
from farmiq.kit.clock import Clock
from farmiq.kit.ids import new_id
from farmiq.kit.jobs import Report, Work
from farmiq.kit.postgres import Pool
from support.station import Edge
from support.weighing import HEARD_AT, Weighing, register_stations

TABLES = ("weight_sessions", "session_weights", "session_pictures", "session_results")


class SetClock(Clock):
    def __init__(self, at: datetime) -> None:
        self._at = at

    def now(self) -> datetime:
        return self._at


@pytest_asyncio.fixture
async def edge(edge_pool: Pool) -> AsyncIterator[Edge]:
    await register_stations(edge_pool)
    yield Edge(edge_pool)


async def whole(edge: Edge) -> Weighing:
    weighing = Weighing()
    await edge.upload(weighing, 1)
    await edge.hear(weighing.created(), weighing.weight(1, 90.0), weighing.finalized(60, 1))
    await edge.infer(weighing.result(1, 0.9))
    await edge.look()
    return weighing


async def cleaned(edge: Edge, days: float, *, is_dry_run: bool = False) -> Report:
    async with edge.pool.acquire() as connection:
        work = Work(connection, SetClock(HEARD_AT + timedelta(days=days)), is_dry_run)
        return await delete_expired_sessions(SessionRetentionSettings(), work)


async def counts(edge: Edge) -> list[int]:
    return [await edge.pool.fetchval(f"SELECT count(*) FROM {table}") for table in TABLES]  # noqa: S608 - names above


async def test_a_closed_session_goes_after_its_retention_with_all_that_was_in_it(edge: Edge) -> None:
    await whole(edge)
    await edge.pool.execute("UPDATE session_results SET received_at = $1", HEARD_AT)
    assert await cleaned(edge, 364) == {"sessions": 0, "results": 0}
    assert await cleaned(edge, 366, is_dry_run=True) == {"sessions": 1, "results": 0}
    assert await counts(edge) == [1, 1, 1, 1]
    assert await cleaned(edge, 366) == {"sessions": 1, "results": 1}
    assert await counts(edge) == [0, 0, 0, 0]


async def test_a_session_that_somebody_waits_for_stays(edge: Edge) -> None:
    never_ended, short_of_pictures = Weighing(), Weighing()
    await edge.hear(never_ended.created(), short_of_pictures.created(), short_of_pictures.finalized(60, 2))
    edge.wait(minutes=20)
    await edge.look()
    assert (await cleaned(edge, 4000))["sessions"] == 0
    assert (await counts(edge))[0] == 2


async def test_a_result_stays_as_long_as_its_session(edge: Edge) -> None:
    weighing = await whole(edge)
    await edge.pool.execute("UPDATE session_results SET received_at = $1", HEARD_AT - timedelta(days=3650))
    await cleaned(edge, 1)
    await edge.pool.execute("UPDATE weight_sessions SET look_at = $1", edge.now)
    assert (await edge.look()).told == 0, "nothing has changed"
    assert await edge.pool.fetchval("SELECT inference_result_id FROM weight_sessions") == weighing.result(1, 0.9).id


async def test_whose_pictures_may_go_is_said_by_their_sessions(edge: Edge) -> None:
    over, cancelled, open_one, unheard = await whole(edge), Weighing(), Weighing(), new_id()
    await edge.hear(cancelled.created(), cancelled.cancelled(5), open_one.created())
    async with edge.pool.acquire() as connection:
        unfinished = await intake.unfinished(
            connection,
            [
                *(("demo", session_id) for session_id in (over.id, cancelled.id, open_one.id, unheard)),
                ("other", over.id),
            ],
        )
    assert unfinished == {("demo", open_one.id), ("demo", unheard), ("other", over.id)}


def test_the_job_is_known_by_its_name_and_a_session_outlives_its_pictures() -> None:
    assert [job.name for job in jobs({})] == ["session-retention"]
    assert SessionRetentionSettings().kept_days == 365
    assert SessionRetentionSettings(session_retention_days=30, media_retention_days=90).kept_days == 91
