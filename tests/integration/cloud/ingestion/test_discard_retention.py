"""What was discarded is forgotten after its time, and that somebody discarded it is not."""

from uuid import UUID

from farmiq.cloud.dead_letters import audit
from farmiq.cloud.ingestion.jobs import jobs
from farmiq.kit.amqp import Delivery
from farmiq.kit.postgres import Pool
from support.dead_letters import asked
from support.stored_months import run_now


async def test_discarded_letters_go_after_their_time_and_the_action_stays(cloud_pool: Pool) -> None:
    [job] = [one for one in jobs({}) if one.name == "cloud-discarded-letters-retention"]
    old, young = [Delivery(name, "", "", name.decode(), {}, False, 1, 1) for name in (b"old", b"young")]
    async with cloud_pool.acquire() as connection:
        action_id: UUID = await audit.begin(connection, asked("discard"))
        await audit.keep(connection, action_id, [old, young])
    await cloud_pool.execute(
        "UPDATE discarded_letters SET discarded_at = now() - interval '91 days' WHERE message_id = 'old'"
    )

    foretold = await run_now(cloud_pool, job, is_dry_run=True)
    report = await run_now(cloud_pool, job)

    assert foretold == report == {"rows": 1}
    assert await cloud_pool.fetchval("SELECT array_agg(body) FROM discarded_letters") == [b"young"]
    assert await cloud_pool.fetchval("SELECT count(*) FROM dead_letter_actions") == 1
