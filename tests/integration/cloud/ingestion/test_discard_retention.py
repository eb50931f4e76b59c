"""What was discarded is forgotten after its time, and that somebody discarded it is not."""

from uuid import UUID

from farmiq.cloud.dead_letters import audit, saved
from farmiq.cloud.ingestion.jobs import jobs
from farmiq.kit.amqp import Delivery
from farmiq.kit.postgres import Pool
from support.dead_letters import ALL, DEAD_LETTERS, asked
from support.stored_months import run_now


async def test_discarded_letters_go_after_their_time_and_the_action_stays(cloud_pool: Pool) -> None:
    [job] = [one for one in jobs({}) if one.name == "cloud-discarded-letters-retention"]
    names = (b"old", b"young", b"waiting")
    async with cloud_pool.acquire() as connection:
        action_id: UUID = await audit.begin(connection, asked("discard"))
        await saved.save(
            connection, DEAD_LETTERS, [Delivery(name, "", "", name.decode(), {}, False, 1, 1) for name in names]
        )
        [[old, young, _]] = [page async for page in saved.pages(connection, DEAD_LETTERS, ALL)]
        await audit.keep(connection, action_id, [old, young])
        await saved.settle(connection, [old, young])
    await cloud_pool.execute(
        "UPDATE discarded_letters SET discarded_at = now() - interval '91 days' WHERE message_id = 'old'"
    )
    await cloud_pool.execute(
        "UPDATE dead_letters SET settled_at = now() - interval '91 days' WHERE letter_id = $1", old.letter_id
    )

    foretold = await run_now(cloud_pool, job, is_dry_run=True)
    report = await run_now(cloud_pool, job)

    assert foretold == report == {"rows": 1, "settled": 1}
    assert await cloud_pool.fetchval("SELECT array_agg(body) FROM discarded_letters") == [b"young"]
    assert await cloud_pool.fetchval("SELECT count(*) FROM dead_letter_actions") == 1
    assert await cloud_pool.fetchval("SELECT array_agg(body ORDER BY letter_id) FROM dead_letters") == [b"", b"waiting"]
