"""What `farmiq size` computes with still holds: the same rows, few of them, in a real database with today's schema."""

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from farmiq.edge.ingress_gateway.handlers import ingest
from farmiq.edge.sync_forwarder.compression import compressed
from farmiq.edge.sync_forwarder.envelopes import batch_body, seal
from farmiq.kit.postgres import Pool
from farmiq.outbox.claim import claim
from farmiq.sizing import measured
from support.gateway import register
from support.telemetry import batch_message

BATCHES, SAMPLES = 400, 50
ROOM = 0.3
"""How far a small table may be from a large one: its last pages are not full, and its values are not those of a sensor."""

SIZES = {
    "raw": "SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree('telemetry_raw')",
    "outbox": "SELECT pg_total_relation_size('sync_outbox')",
}

ADVICE = "measure again with benchmarks/measure_bytes.py, and write the figures into src/farmiq/sizing/measured.py"


async def sizes(pool: Pool) -> dict[str, int]:
    return {name: int(await pool.fetchval(question)) for name, question in SIZES.items()}


async def test_a_sample_takes_at_the_edge_and_on_the_line_what_was_measured(edge_pool: Pool) -> None:
    await register(edge_pool)
    stream, before = uuid4(), await sizes(edge_pool)
    messages = [batch_message(stream, number * SAMPLES + 1, (number + 1) * SAMPLES) for number in range(BATCHES)]
    for start in range(0, BATCHES, 50):
        await ingest(edge_pool, messages[start : start + 50], datetime.now(UTC))
    after = await sizes(edge_pool)
    grown = {name: after[name] - before[name] for name in SIZES}

    assert grown["raw"] / (BATCHES * SAMPLES) == pytest.approx(measured.RAW_BYTES_PER_SAMPLE, rel=ROOM), ADVICE
    assert grown["outbox"] / BATCHES == pytest.approx(measured.OUTBOX_BYTES.of(SAMPLES), rel=ROOM), ADVICE
    assert len(messages[0].payload) == pytest.approx(measured.MQTT_BYTES.of(SAMPLES), rel=ROOM), ADVICE


async def test_a_request_to_the_cloud_is_no_larger_than_was_measured(edge_pool: Pool) -> None:
    await register(edge_pool)
    stream = uuid4()
    messages = [batch_message(stream, number * SAMPLES + 1, (number + 1) * SAMPLES) for number in range(100)]
    await ingest(edge_pool, messages, datetime.now(UTC))
    async with edge_pool.acquire() as connection:
        claimed = await claim(connection, "demo", instance_id="test", limit=100, lease_seconds=120)
    sealed, unsendable = seal(claimed)
    assert (len(sealed), unsendable) == (100, [])
    body = compressed(batch_body("batch-1", "edge-1", "demo", sealed), "zstd")
    # Samples whose value is their sequence compress better than a sensor's.
    assert len(body) / 100 <= measured.REQUEST_BYTES.of(SAMPLES), ADVICE
