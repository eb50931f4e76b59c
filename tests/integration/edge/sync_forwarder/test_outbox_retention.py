from farmiq.edge.sync_forwarder.jobs import jobs
from farmiq.kit.postgres import Pool
from support.outbox_rows import count_by_status, fill_outbox
from support.stored_months import run_now, settle_outbox


async def test_only_what_the_cloud_has_had_for_long_enough_goes(edge_pool: Pool) -> None:
    (retention,) = jobs({"OUTBOX_RETENTION_DAYS": "7"})
    await fill_outbox(edge_pool, 3)
    await settle_outbox(edge_pool, "claimed", "acked")
    await fill_outbox(edge_pool, 2)
    await settle_outbox(edge_pool, "claimed", "dlq")
    await fill_outbox(edge_pool, 2)
    await edge_pool.execute("UPDATE sync_outbox SET updated_at = now() - interval '8 days'")
    await fill_outbox(edge_pool, 1)
    await settle_outbox(edge_pool, "claimed", "acked")
    await edge_pool.execute(
        "UPDATE sync_outbox SET updated_at = now() - interval '6 days' WHERE status = 'acked' AND"
        " updated_at > now() - interval '1 hour'"
    )
    before = await count_by_status(edge_pool)

    assert await run_now(edge_pool, retention, is_dry_run=True) == {"rows": 3}
    assert await count_by_status(edge_pool) == before
    assert await run_now(edge_pool, retention) == {"rows": 3}
    assert await count_by_status(edge_pool) == {"acked": 3, "dlq": 2}
