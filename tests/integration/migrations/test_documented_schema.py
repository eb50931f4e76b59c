"""Tables, columns, defaults and indexes as the documents name them, and what the design adds."""

from uuid import uuid4

import asyncpg
import pytest

# From the storage document, name for name. The indexes of sync_outbox that it lists are replaced by shapes that serve
# the same purposes and that an acknowledgement does not write to: see test_outbox_rules.py and the end of this file.
EDGE_COLUMNS = {
    "telemetry_raw": "id tenant_id farm_id barn_id device_id occurred_at metric_type metric_value unit ingested_at",
    "telemetry_agg": (
        "id tenant_id device_id window bucket_start_at bucket_end_at metric_type avg_value min_value max_value count"
    ),
    "weight_sessions": (
        "id tenant_id farm_id barn_id device_id batch_id status start_at end_at initial_weight_kg final_weight_kg"
    ),
    "media_objects": (
        "id tenant_id farm_id barn_id device_id session_id bucket object_key etag mime_type size_bytes captured_at"
        " created_at sha256"
    ),
    "inference_results": (
        "id tenant_id farm_id barn_id device_id session_id media_id predicted_weight_kg predicted_size confidence"
        " model_version occurred_at"
    ),
    "sync_outbox": (
        "id tenant_id farm_id barn_id device_id session_id event_type occurred_at trace_id payload_json"
        " payload_size_bytes status priority attempt_count last_attempt_at next_attempt_at claimed_by claimed_at"
        " lease_expires_at last_error_code last_error_message failed_at dlq_reason created_at updated_at"
    ),
    "sync_state": ("tenant_id last_acked_event_id last_acked_at last_sent_batch_id consecutive_failures paused_until"),
    "ingress_dedupe": "tenant_id event_id first_seen_at",
    # What the design adds.
    "streams": (
        "stream_id tenant_id farm_id barn_id device_id boot_id channels received lost first_seen_at last_seen_at"
    ),
    "stream_losses": (
        "event_id tenant_id farm_id barn_id device_id stream_id first_seq last_seq count first_ts last_ts reason"
        " dropped_at recorded_at"
    ),
    "devices": "device_id tenant_id farm_id barn_id kind http_token_hash created_at revoked_at",
    "ingress_rejected": (
        "id received_at topic reason detail payload payload_size_bytes tenant_id device_id event_id trace_id"
    ),
    "edge_identity": "epoch changed_at",
    "device_liveness": (
        "device_id tenant_id farm_id barn_id last_rx_at last_sample_ts reported_state reported_at status_json"
        " said_ts gone_at gone_ts status_at"
    ),
    "sensor_liveness": "tenant_id device_id metric_type sensor last_rx_at last_sample_ts reported_state",
    "telemetry_agg_unsent": "tenant_id device_id metric_type sensor unit window bucket_start_at due_at",
    "job_runs": (
        "job_name last_started_at last_finished_at last_succeeded_at last_failed_at last_duration_seconds last_report"
        " last_error last_instance_id"
    ),
    "retired_samples": "samples",
    "ops_alerts": (
        "id tenant_id kind subject dedupe_key status evidence opened_at last_seen_at acked_at acked_by closed_at note"
    ),
}
CLOUD_COLUMNS = {
    "edges": "edge_cluster_id token_hash tenant_ids created_at revoked_at last_seen_at",
    "edge_tokens": "token_id edge_cluster_id token_hash created_at expires_at revoked_at last_used_at",
    "received_buckets": "tenant_id device_id metric_type window bucket_start_at sensor unit raw_count raw_sum_value",
    "ingest_dedupe": "tenant_id event_id first_seen_at edge_cluster_id content_hash",
} | {table: EDGE_COLUMNS[table] for table in ("weight_sessions", "media_objects", "inference_results")}
SHARED_TABLES = ("telemetry_raw", "telemetry_agg", "streams", "stream_losses", "retired_samples", "job_runs")

EDGE_INDEXES = [
    ("telemetry_raw", "(tenant_id, id, occurred_at)"),
    ("telemetry_raw", "(tenant_id, device_id, occurred_at DESC)"),
    ("telemetry_raw", "(tenant_id, occurred_at DESC)"),
    ("telemetry_agg", "(tenant_id, id)"),
    ("telemetry_agg", '(tenant_id, device_id, "window", bucket_start_at DESC)'),
    ("weight_sessions", "(tenant_id, id)"),
    ("weight_sessions", "(tenant_id, device_id, start_at DESC)"),
    ("weight_sessions", "(tenant_id, status, start_at DESC)"),
    ("media_objects", "(id, tenant_id)"),
    ("media_objects", "(tenant_id, session_id)"),
    ("media_objects", "(tenant_id, device_id, captured_at DESC)"),
    ("inference_results", "(id, tenant_id)"),
    ("inference_results", "(tenant_id, session_id)"),
    ("inference_results", "(tenant_id, device_id, occurred_at DESC)"),
    ("sync_outbox", "(id, tenant_id)"),
    ("sync_outbox", "(tenant_id, priority DESC, occurred_at, id) WHERE ((status = 'pending'::text) AND (NOT parked))"),
    ("sync_outbox", "(next_attempt_at) WHERE ((status = 'pending'::text) AND parked)"),
    ("sync_outbox", "(claimed_by) WHERE (status = ANY (ARRAY['claimed'::text, 'sending'::text]))"),
    ("sync_state", "(tenant_id)"),
    ("ingress_dedupe", "(tenant_id, event_id)"),
    ("ingress_dedupe", "(first_seen_at)"),
    ("streams", "(tenant_id, stream_id)"),
    ("stream_losses", "(tenant_id, event_id)"),
    ("devices", "(device_id)"),
]
UNIQUE = {
    "(id, tenant_id)", "(tenant_id, id)", "(tenant_id, id, occurred_at)", "(tenant_id, event_id)", "(tenant_id, stream_id)",
    "(device_id)",
}  # fmt: skip

OUTBOX = {
    # column: type, may be null, default
    "id": ("uuid", False, None),
    "tenant_id": ("text", False, None),
    "farm_id": ("text", True, None),
    "barn_id": ("text", True, None),
    "device_id": ("text", True, None),
    "session_id": ("uuid", True, None),
    "event_type": ("text", False, None),
    "occurred_at": ("timestamp with time zone", True, None),
    "trace_id": ("text", True, None),
    "payload_json": ("jsonb", False, None),
    "payload_size_bytes": ("integer", True, None),
    "status": ("text", False, "'pending'::text"),
    "priority": ("integer", False, "0"),
    "attempt_count": ("integer", False, "0"),
    "last_attempt_at": ("timestamp with time zone", True, None),
    "next_attempt_at": ("timestamp with time zone", False, "now()"),
    "claimed_by": ("text", True, None),
    "claimed_at": ("timestamp with time zone", True, None),
    "lease_expires_at": ("timestamp with time zone", True, None),
    "last_error_code": ("text", True, None),
    "last_error_message": ("text", True, None),
    "failed_at": ("timestamp with time zone", True, None),
    "dlq_reason": ("text", True, None),
    "created_at": ("timestamp with time zone", False, "now()"),
    "updated_at": ("timestamp with time zone", False, "now()"),
}

DESCRIBE = """
    SELECT column_name, data_type, is_nullable = 'YES' AS may_be_null, column_default FROM information_schema.columns
    WHERE table_schema = 'public' AND table_name = $1 ORDER BY ordinal_position
"""


async def columns_of(connection: asyncpg.Connection, table: str) -> dict[str, tuple[str, bool, str | None]]:
    return {name: (kind, null, default) for name, kind, null, default in await connection.fetch(DESCRIBE, table)}


@pytest.mark.parametrize("table", EDGE_COLUMNS)
async def test_the_edge_has_every_documented_column(edge: asyncpg.Connection, table: str) -> None:
    assert set(EDGE_COLUMNS[table].split()) - (await columns_of(edge, table)).keys() == set()


@pytest.mark.parametrize("table", CLOUD_COLUMNS)
async def test_the_cloud_has_every_documented_column(cloud: asyncpg.Connection, table: str) -> None:
    assert set(CLOUD_COLUMNS[table].split()) - (await columns_of(cloud, table)).keys() == set()


@pytest.mark.parametrize("table", SHARED_TABLES)
async def test_measurements_look_the_same_at_both_tiers(
    edge: asyncpg.Connection, cloud: asyncpg.Connection, table: str
) -> None:
    indexes = "SELECT indexdef FROM pg_indexes WHERE tablename = $1 ORDER BY indexname"
    assert await columns_of(edge, table) == await columns_of(cloud, table) != {}
    assert await edge.fetch(indexes, table) == await cloud.fetch(indexes, table) != []


async def test_the_partition_function_is_the_same_at_both_tiers(
    edge: asyncpg.Connection, cloud: asyncpg.Connection
) -> None:
    source = "SELECT pg_get_functiondef('ensure_month_partition'::regproc)"
    assert await edge.fetchval(source) == await cloud.fetchval(source)


@pytest.mark.parametrize(("table", "shape"), EDGE_INDEXES)
async def test_the_edge_has_every_documented_index(edge: asyncpg.Connection, table: str, shape: str) -> None:
    found = await edge.fetch("SELECT indexdef FROM pg_indexes WHERE tablename = $1", table)
    shapes = [row["indexdef"].partition(" WITH (fillfactor=")[0] for row in found]
    matching = [definition for definition in shapes if definition.endswith(f" USING btree {shape}")]
    assert len(matching) == 1
    assert ("UNIQUE" in matching[0]) == (shape in UNIQUE or table == "sync_state")


async def test_the_outbox_has_the_documented_types_and_defaults(edge: asyncpg.Connection) -> None:
    columns = await columns_of(edge, "sync_outbox")
    assert {name: columns[name] for name in OUTBOX} == OUTBOX
    # An insert that names only documented columns works because everything else fills itself in.
    assert all(null or default is not None for name, (_, null, default) in columns.items() if name not in OUTBOX)


async def test_every_time_is_with_time_zone(edge: asyncpg.Connection, cloud: asyncpg.Connection) -> None:
    kinds = (
        "SELECT data_type, count(*) FROM information_schema.columns WHERE table_schema = 'public'"
        " AND (column_name LIKE '%\\_at' OR column_name LIKE '%\\_ts') GROUP BY data_type"
    )
    for connection in (edge, cloud):
        ((kind, count),) = await connection.fetch(kinds)
        assert kind == "timestamp with time zone"
        assert count > 20


async def test_the_average_follows_from_sum_and_count(edge: asyncpg.Connection) -> None:
    merge = """
        INSERT INTO telemetry_agg AS known (tenant_id, device_id, metric_type, unit, "window", bucket_start_at, bucket_end_at,
                                            sum_value, count, min_value, max_value)
        VALUES ('t', 'd', 'temperature', $1, '1m', '2026-01-01Z', '2026-01-01T00:01Z', $2, $3, 1, 9)
        ON CONFLICT ON CONSTRAINT telemetry_agg_bucket DO UPDATE
        SET sum_value = known.sum_value + excluded.sum_value, count = known.count + excluded.count
    """
    await edge.execute(merge, "C", 10.0, 4)
    await edge.execute(merge, "C", 20.0, 1)
    await edge.execute(merge, "F", 80.0, 1)
    rows = await edge.fetch("SELECT unit, avg_value FROM telemetry_agg ORDER BY unit")
    assert [tuple(row) for row in rows] == [("C", 6.0), ("F", 80.0)]


async def test_the_edge_has_one_identity(edge: asyncpg.Connection) -> None:
    assert await edge.fetchval("SELECT count(epoch) FROM edge_identity") == 1
    with pytest.raises(asyncpg.UniqueViolationError):
        await edge.execute("INSERT INTO edge_identity DEFAULT VALUES")


@pytest.mark.parametrize("device_id", ["telemetry", "event", "weighvision", "status", "", "a/b", "+", "-x", "x" * 65])
async def test_a_device_cannot_have_an_id_that_breaks_a_topic(edge: asyncpg.Connection, device_id: str) -> None:
    add = "INSERT INTO devices (device_id, tenant_id, farm_id, barn_id) VALUES ($1, 't', 'f', 'b')"
    assert await edge.execute(add, "node-1") == "INSERT 0 1"
    with pytest.raises(asyncpg.CheckViolationError):
        await edge.execute(add, device_id)


async def test_one_cause_has_one_alert_until_it_is_closed(edge: asyncpg.Connection) -> None:
    raise_alert = (
        "INSERT INTO ops_alerts (tenant_id, kind, subject, dedupe_key) VALUES ($1, 'session_incomplete', 's', 'k')"
        " ON CONFLICT (tenant_id, dedupe_key) WHERE status <> 'closed' DO UPDATE SET last_seen_at = now() RETURNING id"
    )
    for tenant in ("t", None):
        first = await edge.fetchval(raise_alert, tenant)
        await edge.execute("UPDATE ops_alerts SET status = 'acked' WHERE id = $1", first)
        assert await edge.fetchval(raise_alert, tenant) == first
        await edge.execute("UPDATE ops_alerts SET status = 'closed' WHERE id = $1", first)
        assert await edge.fetchval(raise_alert, tenant) != first


async def test_the_outbox_has_one_row_for_a_tenant_and_an_event(edge: asyncpg.Connection) -> None:
    """The document's unique (tenant_id, id), by the primary key: another index would be written with each acknowledgement."""
    insert = "INSERT INTO sync_outbox (id, tenant_id, event_type, payload_json) VALUES ($1, $2, 'test.event', '{}')"
    event_id = uuid4()
    await edge.execute(insert, event_id, "demo")
    await edge.execute(insert, event_id, "another")
    with pytest.raises(asyncpg.UniqueViolationError):
        await edge.execute(insert, event_id, "demo")


async def test_the_outbox_can_be_asked_by_time(edge: asyncpg.Connection) -> None:
    """The document's (tenant_id, occurred_at DESC), as a summary that an acknowledgement does not write to."""
    found = await edge.fetch("SELECT indexdef FROM pg_indexes WHERE tablename = 'sync_outbox'")
    assert [row["indexdef"] for row in found if " USING brin (occurred_at)" in row["indexdef"]] != []
