"""How many bytes a sample and a picture take: in a node's spool, on the way to the edge, at the edge, on the way to the cloud.

    .venv/bin/python benchmarks/measure_bytes.py [--quick] [--json FILE]

`src/farmiq/sizing/measured.py` holds what this prints, and `farmiq size` computes with it. Nothing is timed here: the figures
depend on the schema and the message formats, not on the machine. PostgreSQL is real and has the edge's own schema; rows come in
through the gateway's handler, events leave through the outbox's own claim and settlement, pictures go the way of a station's.

A batch is what a node sends at once. Live, that is what its channels give in 200 ms; a backlog travels 500 samples at a time.
"""

import argparse
import asyncio
import json
import random
import secrets
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

from edge import Edge
from farmiq.contracts import event_types, topics
from farmiq.contracts.decoding import encode
from farmiq.contracts.envelope import mqtt_envelope
from farmiq.contracts.telemetry import Channel, TelemetryBatch
from farmiq.edge.ingress_gateway.handlers import ingest
from farmiq.edge.sync_forwarder.cloud import Cloud
from farmiq.edge.sync_forwarder.compression import compressed
from farmiq.edge.sync_forwarder.envelopes import batch_body, seal
from farmiq.kit.clock import Clock
from farmiq.kit.http_client import open_session
from farmiq.kit.ids import new_id, new_trace_id
from farmiq.kit.mqtt import Message
from farmiq.kit.postgres import Pool
from farmiq.outbox.claim import claim
from farmiq.outbox.settle import settle
from farmiq.outbox.verdicts import acked
from farmiq.spool import Channel as SpoolChannel
from farmiq.spool import Limits, Sample, Spool
from harness import commit, quiet_logs, scratch
from media_edge import MediaEdge
from media_stations import shots, stations_of
from node import BARN, FARM, TENANT
from processes import until

BATCHES = {1: 40_000, 10: 20_000, 50: 6_000, 500: 1_000}
"""How many of each number of samples: enough that what is fixed in a table no longer shows."""
CHANNELS = 10
TOGETHER = 50  # messages in one transaction of the gateway
REQUEST_EVENTS = 100  # OUTBOX_BATCH_SIZE
SETTLE_EVERY = 500  # two dead versions for each event: about where autovacuum begins
SPOOL_SAMPLES = 500_000
PICTURES = 400
STATIONS = 4
SEED = 1

_TABLES = {
    "raw": "SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree('telemetry_raw')",
    "aggregates": "SELECT pg_total_relation_size('telemetry_agg')",
    "outbox": "SELECT pg_total_relation_size('sync_outbox')",
    "dedupe": "SELECT pg_total_relation_size('ingress_dedupe')",
}


def channels_of(samples: int) -> list[Channel]:
    return [
        Channel(metric=f"metric-{number}", unit="C", sensor=f"sensor-{number}")
        for number in range(min(samples, CHANNELS))
    ]


def batches(samples: int, count: int) -> Iterator[TelemetryBatch]:
    """Ten channels once a second, each a slow walk in thousandths, as the simulated barn's are."""
    chance = random.Random(SEED)  # noqa: S311 - the same values in every run
    channels = channels_of(samples)
    values = [20.0 + number for number in range(len(channels))]
    stream_id, boot_id = uuid4(), uuid4()
    begin_us = int((datetime.now(UTC) - timedelta(days=1)).timestamp() * 1_000_000)
    for number in range(count):
        places = range(number * samples, (number + 1) * samples)
        for at in range(len(values)):
            values[at] += chance.uniform(-0.05, 0.05)
        yield TelemetryBatch(
            stream_id=stream_id,
            boot_id=boot_id,
            lane="live",
            seq0=places[0] + 1,
            time_quality=2,
            channels=channels,
            t=[begin_us + place // len(channels) * 1_000_000 + chance.randrange(3000) for place in places],
            c=[place % len(channels) for place in places],
            v=[round(values[place % len(channels)] + chance.uniform(-0.2, 0.2), 3) for place in places],
        )


def message_of(batch: TelemetryBatch) -> Message:
    topic = topics.TelemetryBatchTopic(tenant_id=TENANT, farm_id=FARM, barn_id=BARN, device_id="node-1").path
    envelope = mqtt_envelope(
        batch,
        event_id=new_id(),
        event_type=event_types.TELEMETRY_BATCH,
        tenant_id=TENANT,
        device_id="node-1",
        ts=datetime.now(UTC),
        trace_id=new_trace_id(),
    )
    return Message(topic, encode(envelope), qos=1, is_retained=False, is_redelivered=False, mid=0, connection=1)


# --- One part of the way after the other --------------------------------------------------------------------------------------


def spool_bytes(folder: Path) -> float:
    """For each sample, in segments that are closed. What is reserved ahead of the open one is 4 MiB, however long it is."""
    chance = random.Random(SEED)  # noqa: S311 - the same values in every run
    spool = Spool(folder, Limits(max_spool_bytes=1 << 30, segment_bytes=1 << 20))
    try:
        spool.begin(uuid4(), [SpoolChannel(f"metric-{number}", "C", f"sensor-{number}") for number in range(CHANNELS)])
        for start in range(0, SPOOL_SAMPLES, CHANNELS):
            at_us = start // CHANNELS * 1_000_000
            spool.append_many([Sample(at_us, at_us, channel, 2, chance.random()) for channel in range(CHANNELS)])
        spool.sync()
    finally:
        spool.close()
    closed = list(folder.glob("*.seg"))
    last = max(int(path.stem.partition("-")[2]) for path in closed)
    return sum(path.stat().st_size for path in closed) / last


def folder_bytes(folder: Path) -> int:
    """What its files take on the disk, not how long they are: some are longer than what is in them."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def mqtt_bytes(messages: Sequence[Message]) -> float:
    """Topic and payload of a message; the fixed header and the packet id of MQTT are five bytes more."""
    return sum(len(message.topic) + len(message.payload) + 5 for message in messages) / len(messages)


async def stored_bytes(pool: Pool, messages: Sequence[Message]) -> dict[str, float]:
    """What the tables hold, with their indexes, when the cloud is away."""
    before = await sizes(pool)
    for start in range(0, len(messages), TOGETHER):
        await ingest(pool, messages[start : start + TOGETHER], datetime.now(UTC))
    await pool.execute("VACUUM (ANALYZE) telemetry_raw, telemetry_agg, sync_outbox, ingress_dedupe")
    after = await sizes(pool)
    return {name: after[name] - before[name] for name in after}


async def acked_bytes(pool: Pool, messages: Sequence[Message]) -> float:
    """What an acknowledged event leaves in the outbox when it is sent as it comes, and VACUUM comes round."""
    before = await sizes(pool)
    for start in range(0, len(messages), TOGETHER):
        await ingest(pool, messages[start : start + TOGETHER], datetime.now(UTC))
        if (start + TOGETHER) % SETTLE_EVERY == 0:
            await _acknowledge_all(pool)
    await _acknowledge_all(pool)
    return ((await sizes(pool))["outbox"] - before["outbox"]) / len(messages)


async def sizes(pool: Pool) -> dict[str, int]:
    return {name: int(await pool.fetchval(question)) for name, question in _TABLES.items()}


async def _acknowledge_all(pool: Pool) -> None:
    async with pool.acquire() as connection:
        while claimed := await claim(
            connection, TENANT, instance_id="measure", limit=REQUEST_EVENTS, lease_seconds=120
        ):
            await settle(connection, [acked(event) for event in claimed])
        await connection.execute("VACUUM (ANALYZE) sync_outbox")


async def wire_bytes(pool: Pool, events: int) -> float:
    """The compressed body of a request to the cloud, by event. What was claimed is given back by nobody: it is the last step."""
    async with pool.acquire() as connection:
        claimed = await claim(connection, TENANT, instance_id="measure", limit=events, lease_seconds=120)
    sealed, _ = seal(claimed)
    body = batch_body(new_id().hex, "edge-1", TENANT, sealed)
    return len(compressed(body, "zstd")) / len(sealed)


async def head_bytes() -> int:
    """What stands before the body of a request to the cloud: as our own client writes it."""
    heads: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 503 Away\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(take, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/api/v1/edge/batch"
    async with listener, open_session("edge-sync-forwarder", total_seconds=10, connections_max=1) as session:
        token = f"farmiq-edge_{secrets.token_hex(6)}_{secrets.token_urlsafe(32)}"
        await Cloud(session, url, token, Clock(), "zstd").post(b"{}")
    return len(heads[0])


async def picture_figures(folder: Path) -> dict[str, float]:
    """Beside its own bytes: rows and events of one picture, and what the object store adds."""
    pictures, edge = shots(PICTURES), MediaEdge(folder)
    async with edge.running(STATIONS), stations_of(edge) as stations:
        database, store = await _database_bytes(edge.pool), folder_bytes(edge.objects.folder)
        await stations.upload(pictures, is_announced=True)
        async with asyncio.timeout(300):
            await until(lambda: _are_weighed(edge.pool))
        rows = (await _database_bytes(edge.pool) - database) / PICTURES
        added = folder_bytes(edge.objects.folder) - store - sum(len(shot.data) for shot in pictures)
    return {"picture_rows_bytes": round(rows, 1), "picture_store_bytes": round(added / PICTURES, 1)}


async def _are_weighed(pool: Pool) -> bool:
    return int(await pool.fetchval("SELECT count(*) FROM inference_results")) == PICTURES


async def _database_bytes(pool: Pool) -> int:
    await pool.execute("VACUUM")
    return int(await pool.fetchval("SELECT pg_database_size(current_database())"))


# --- All of it ----------------------------------------------------------------------------------------------------------------


async def measure(folder: Path, samples_of: dict[int, int]) -> dict[str, object]:
    edge = Edge(folder)
    by_batch: dict[str, dict[str, float]] = {}
    async with edge.database():
        for samples, count in samples_of.items():
            by_batch[str(samples)] = await _of_one_size(edge, samples, count)
            print(samples, json.dumps(by_batch[str(samples)]), flush=True)
    (folder / "media").mkdir()
    (folder / "media").chmod(0o755)
    return {
        "spool_bytes_per_sample": round(spool_bytes(folder / "spool"), 2),
        "request_head_bytes": await head_bytes(),
        **await picture_figures(folder / "media"),
        "by_batch": by_batch,
    }


async def _of_one_size(edge: Edge, samples: int, count: int) -> dict[str, float]:
    await _empty(edge)
    messages = [message_of(batch) for batch in batches(samples, count)]
    held = await stored_bytes(edge.pool, messages)
    buckets = int(await edge.pool.fetchval("SELECT count(*) FROM telemetry_agg"))
    wire, wire_alone = await wire_bytes(edge.pool, REQUEST_EVENTS), await wire_bytes(edge.pool, 1)
    await _empty(edge)
    kept = await acked_bytes(edge.pool, [message_of(batch) for batch in batches(samples, count)])
    figures = {
        "mqtt_bytes_per_batch": mqtt_bytes(messages),
        "raw_bytes_per_sample": held["raw"] / (samples * count),
        "aggregate_bytes_per_bucket": held["aggregates"] / buckets,
        "dedupe_bytes_per_batch": held["dedupe"] / count,
        "outbox_bytes_per_batch": held["outbox"] / count,
        "outbox_acked_bytes_per_batch": kept,
        "request_bytes_per_batch": wire,
        "request_bytes_of_one_batch": wire_alone,
    }
    return {name: round(value, 1) for name, value in figures.items()}


async def _empty(edge: Edge) -> None:
    await edge.pool.execute(
        "TRUNCATE telemetry_raw, telemetry_agg, sync_outbox, ingress_dedupe, streams, stream_content, stream_boots"
    )
    await edge.register(["node-1"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a fifth of the rows")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")
    parser.add_argument("--folder", type=Path, default=Path(__file__).resolve().parent.parent / ".bench")
    given = parser.parse_args()
    quiet_logs()
    share = 5 if given.quick else 1
    samples_of = {samples: count // share for samples, count in BATCHES.items()}
    with scratch(given.folder) as folder:
        folder.chmod(0o755)
        figures = asyncio.run(measure(folder, samples_of)) | {"commit": commit()}
    text = json.dumps(figures, indent=2) + "\n"
    if given.json:
        given.json.write_text(text, encoding="utf-8")
    print(text, end="")


if __name__ == "__main__":
    main()
