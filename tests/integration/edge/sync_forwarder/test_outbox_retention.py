from farmiq.edge.sync_forwarder.jobs import jobs
from farmiq.kit.postgres import Pool
from support.edge_pictures import transfers_by_state
from support.outbox_rows import count_by_status, fill_outbox
from support.stored_months import run_now, settle_outbox


async def test_only_what_the_cloud_has_had_for_long_enough_goes(edge_pool: Pool) -> None:
    settings = {"OUTBOX_RETENTION_DAYS": "7", "OUTBOX_EVENT_RETENTION_DAYS": "7"}
    retention = next(job for job in jobs(settings) if job.name == "outbox-retention")
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

    assert await run_now(edge_pool, retention, is_dry_run=True) == {"rows": 3, "kept_tenants": 0}
    assert await count_by_status(edge_pool) == before
    assert await run_now(edge_pool, retention) == {"rows": 3, "kept_tenants": 0}
    assert await count_by_status(edge_pool) == {"acked": 3, "dlq": 2}


async def test_rows_of_pictures_go_when_the_cloud_has_had_them_for_long_enough(edge_pool: Pool) -> None:
    retention = next(job for job in jobs({"OUTBOX_RETENTION_DAYS": "7"}) if job.name == "media-transfer-retention")
    for state, days in (("sent", 8), ("sent", 6), ("failed", 8), ("pending", 8), ("sending", 8)):
        await edge_pool.execute(
            "INSERT INTO media_transfers (media_id, tenant_id, farm_id, barn_id, device_id, bucket, object_key, mime_type,"
            " size_bytes, sha256, captured_at, state, sent_at) VALUES (gen_random_uuid(), 'demo', 'f', 'b', 'd', 'bucket',"
            " 'key', 'image/jpeg', 1, repeat('0', 64), now(), $1, now() - make_interval(days => $2))",
            state,
            days,
        )
    assert await run_now(edge_pool, retention, is_dry_run=True) == {"rows": 1}
    assert await run_now(edge_pool, retention) == {"rows": 1}
    assert await transfers_by_state(edge_pool) == {"sent": 1, "failed": 1, "pending": 1, "sending": 1}
