"""What an edge sends to the cloud: events made beforehand, in requests as edge-sync-forwarder makes them by default."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from uuid import UUID

import aiohttp
import msgspec
import zstandard

from farmiq.contracts import event_types
from farmiq.contracts.decoding import encode
from farmiq.contracts.envelope import BusPayload, bus_envelope
from farmiq.contracts.sync import EdgeBatchAnswer
from farmiq.contracts.telemetry import Channel, TelemetryBatch, TelemetryIngested, pack_of
from farmiq.kit.clock import Clock
from farmiq.kit.ids import new_id, new_trace_id
from farmiq.timeseries.samples import StreamBatch
from farmiq.timeseries.stream import Origin

EDGE, TENANT, FARM, BARN = "edge-1", "bench", "farm-1", "barn-1"
NODES = 10
CHANNELS = 10
PACK_SAMPLES = 500
BATCH_EVENTS = 100
REQUESTS_IN_FLIGHT = 4
SECOND_US = 1_000_000


class NotAccepted(Exception):
    """The entrance did not take everything. What it answered is in the message."""


def batches(samples: int, device_prefix: str) -> list[StreamBatch]:
    """Of ten nodes in turn, each with ten channels at 1 Hz and a history that ends before now."""
    streams = [(Origin(TENANT, FARM, BARN, f"{device_prefix}-{number}"), new_id()) for number in range(NODES)]
    of_node = samples // NODES
    return [
        StreamBatch(origin, _batch(stream_id, start, min(start + PACK_SAMPLES, of_node), of_node))
        for start in range(0, of_node, PACK_SAMPLES)
        for origin, stream_id in streams
    ]


def _batch(stream_id: UUID, start: int, end: int, history: int) -> TelemetryBatch:
    began_us = (int(time.time()) - history // CHANNELS) * SECOND_US
    return TelemetryBatch(
        stream_id=stream_id, boot_id=stream_id, lane="replay", seq0=start + 1, time_quality=2,
        channels=[Channel(metric="temperature", unit="C", sensor=f"t{number}") for number in range(CHANNELS)],
        t=[began_us + at // CHANNELS * SECOND_US for at in range(start, end)],
        c=[at % CHANNELS for at in range(start, end)],
        v=[20.0 + at % 97 / 7 for at in range(start, end)],
    )  # fmt: skip


def packs(of: Sequence[StreamBatch]) -> list[bytes]:
    return [
        _event(
            event_types.TELEMETRY_BATCH_INGESTED, item.origin, pack_of(item.batch, item.batch.seq0, item.batch.last_seq)
        )
        for item in of
    ]


def singles(count: int, device_prefix: str) -> list[bytes]:
    """Readings of ten nodes in turn."""
    origins = [Origin(TENANT, FARM, BARN, f"{device_prefix}-{number}") for number in range(NODES)]
    return [
        _event(
            event_types.TELEMETRY_INGESTED,
            origins[number % NODES],
            TelemetryIngested(metric_type="temperature", metric_value=20.0 + number % 97 / 7, unit="C"),
        )
        for number in range(count)
    ]


def _event(event_type: str, origin: Origin, payload: BusPayload) -> bytes:
    envelope = bus_envelope(
        payload, event_id=new_id(), event_type=event_type, tenant_id=origin.tenant_id, farm_id=origin.farm_id,
        barn_id=origin.barn_id, device_id=origin.device_id, occurred_at=Clock().now(), trace_id=new_trace_id(),
    )  # fmt: skip
    return encode(envelope)


def requests_of(events: Sequence[bytes]) -> list[bytes]:
    compressor, rest = zstandard.ZstdCompressor(), iter(events)
    made = []
    while part := list(islice(rest, BATCH_EVENTS)):
        made.append(compressor.compress(b"[" + b",".join(part) + b"]"))
    return made


async def send(url: str, token: str, bodies: Sequence[bytes]) -> None:
    """Returns when every event was answered as accepted."""
    waiting = iter(bodies)
    headers = {
        "authorization": f"Bearer {token}",
        "content-type": "application/json",
        "content-encoding": "zstd",
    }
    async with aiohttp.ClientSession(url, headers=headers) as session, asyncio.TaskGroup() as group:
        for _ in range(REQUESTS_IN_FLIGHT):
            group.create_task(_send_each(session, waiting))


async def _send_each(session: aiohttp.ClientSession, waiting: Iterator[bytes]) -> None:
    for body in waiting:
        async with session.post("/api/v1/edge/batch", data=body) as answer:
            told = await answer.read()
        if answer.status != 200:
            raise NotAccepted(f"{answer.status}: {told[:500].decode('utf-8', 'replace')}")
        parts = msgspec.json.decode(told, type=EdgeBatchAnswer)
        if parts.accepted != len(parts.results):
            raise NotAccepted(told[:500].decode("utf-8", "replace"))
