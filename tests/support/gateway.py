"""The gateway's world: devices that publish to a real broker, what they are told, and what must then be in the database."""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from uuid import UUID

from farmiq.contracts import event_types
from farmiq.contracts.ack import DeviceAck
from farmiq.edge.ingress_gateway import devices
from farmiq.kit.mqtt import Message, MqttClient
from farmiq.kit.postgres import Connection, Pool
from support.ack_listener import AckListener
from support.mosquitto import Broker
from support.service_process import ServiceProcess
from support.waiting import eventually, wait_for

SERVICE = "edge-ingress-gateway"
ADMIN_TOKEN = "for-this-test-only"

# Aggregates made once more from the samples, beside those that were kept while the samples came: a row for each difference.
_WRONG_AGGREGATES = """
    SELECT * FROM (
      SELECT tenant_id, device_id, metric_type, coalesce(sensor, '') AS sensor, coalesce(unit, '') AS unit, "window",
             date_trunc(step, occurred_at, 'UTC') AS bucket_start_at, count(*) AS n,
             CASE WHEN abs(sum(metric_value)) < 1e-290 THEN 0 ELSE sum(metric_value) END AS total,
             min(metric_value) AS low, max(metric_value) AS high
        FROM telemetry_raw, (VALUES ('1m', 'minute'), ('1h', 'hour'), ('1d', 'day')) AS width ("window", step)
       GROUP BY 1, 2, 3, 4, 5, 6, 7) AS expected
    FULL JOIN telemetry_agg AS kept USING (tenant_id, device_id, metric_type, sensor, unit, "window", bucket_start_at)
    WHERE (expected.n, expected.total, expected.low, expected.high)
          IS DISTINCT FROM (kept.count, kept.sum_value, kept.min_value, kept.max_value)
"""
_PACKED = """
    SELECT (payload_json->>'stream_id')::uuid AS stream_id, (payload_json->>'seq0')::bigint + n AS seq
      FROM sync_outbox, generate_series(0, jsonb_array_length(payload_json->'t') - 1) AS n
     WHERE event_type = 'telemetry.batch.ingested'
"""


def environment(database_url: str, broker: Broker, instance_id: str | None = None, **more: str) -> dict[str, str]:
    named = {} if instance_id is None else {"INSTANCE_ID": instance_id}
    return {"DATABASE_URL": database_url, "MQTT_URL": broker.url(SERVICE), "ADMIN_TOKEN": ADMIN_TOKEN} | named | more


async def register(pool: Pool, *device_ids: str) -> None:
    async with pool.acquire() as connection:
        for device_id in device_ids or ("node-1",):
            await devices.register(
                connection, tenant_id="demo", farm_id="farm-1", barn_id="barn-1", device_id=device_id, kind="node"
            )
        await forget_announcements(connection)


async def forget_announcements(connection: Connection) -> None:
    """For tests that look at what the devices send: that they were registered is not in the outbox any more."""
    await connection.execute(
        "UPDATE sync_outbox SET status = 'dlq' WHERE event_type = $1", event_types.DEVICE_REGISTERED
    )
    await connection.execute("DELETE FROM sync_outbox WHERE event_type = $1", event_types.DEVICE_REGISTERED)


def ask(gateway: ServiceProcess, path: str) -> tuple[int, Any]:
    request = Request(f"{gateway.url}{path}", headers={"Authorization": f"Bearer {ADMIN_TOKEN}"})  # noqa: S310 - our own
    try:
        with urlopen(request, timeout=10) as answer:  # noqa: S310 - our own loopback address
            return answer.status, json.load(answer)
    except HTTPError as refusal:
        with refusal:
            return refusal.code, json.load(refusal)


def stats(gateway: ServiceProcess) -> dict[str, int]:
    _, answer = ask(gateway, "/api/v1/ingress/stats")
    return dict(answer)


def wait_until_ready(gateway: ServiceProcess) -> None:
    """Subscribed: what is published from here on reaches it or waits for it."""
    wait_for(lambda: ask(gateway, "/api/ready")[0] == 200, 60.0, "the gateway to be ready")


class Crowd:
    """Several publishers on connections of their own."""

    def __init__(self, broker: Broker, size: int) -> None:
        self._clients = [
            MqttClient(broker.url(f"publisher-{number}"), client_id=f"publisher-{number}") for number in range(size)
        ]

    async def __aenter__(self) -> "Crowd":
        for client in self._clients:
            await client.start()
        for client in self._clients:
            await client.wait_connected()
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._clients:
            await client.stop()

    async def publish(self, messages: Sequence[tuple[str, bytes]]) -> None:
        """Dealt out among the publishers, who all send at once. Returns when the broker has confirmed each."""
        await asyncio.gather(
            *(
                self._publish_all(client, messages[number :: len(self._clients)])
                for number, client in enumerate(self._clients)
            )
        )

    @staticmethod
    async def _publish_all(client: MqttClient, messages: Iterable[tuple[str, bytes]]) -> None:
        await asyncio.gather(*(client.publish(topic, payload) for topic, payload in messages))


class Ears(AckListener):
    """Everything that the edge tells its devices."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker, "ears", "iot/+/ack", self._note)
        self.acked: dict[UUID, int] = {}
        self.told: dict[UUID, set[str]] = {}

    async def __aenter__(self) -> "Ears":
        await super().__aenter__()
        return self

    async def until_told(self, marks: Mapping[UUID, int], events: Iterable[UUID]) -> None:
        wanted = set(events)

        async def is_told() -> bool:
            return wanted <= self.told.keys() and all(
                self.acked.get(stream, 0) >= mark for stream, mark in marks.items()
            )

        await eventually(is_told, 60.0, "every device to be told")

    def _note(self, ack: DeviceAck) -> None:
        if ack.stream_id is not None:
            self.acked[ack.stream_id] = max(ack.acked_seq, self.acked.get(ack.stream_id, 0))
        for event in ack.events:
            self.told.setdefault(event.event_id, set()).add(event.result)


def as_sent(messages: Iterable[Message]) -> list[tuple[str, bytes]]:
    return [(message.topic, message.payload) for message in messages]


async def until_rows(pool: Pool, table: str, count: int, seconds: float = 60.0) -> None:
    async def are_there() -> bool:
        return int(await pool.fetchval(f"SELECT count(*) FROM {table}")) >= count  # noqa: S608 - a name from a test

    await eventually(are_there, seconds, f"{count} rows in {table}")


async def assert_all_agree(pool: Pool) -> None:
    """Samples, aggregates, coverage and outbox were committed together: each says the same as the others."""
    assert await pool.fetch(_WRONG_AGGREGATES) == []
    rows = await pool.fetch("SELECT stream_id, seq FROM telemetry_raw WHERE seq IS NOT NULL ORDER BY 1, 2")
    stored = [tuple(row) for row in rows]
    assert len(set(stored)) == len(stored), "a sequence was stored twice"
    assert sorted(tuple(row) for row in await pool.fetch(_PACKED)) == stored, "packs are not the samples"
    covered = await pool.fetch(
        "SELECT stream_id, generate_series(lower(run), upper(run) - 1) AS seq FROM streams, unnest(received) AS run ORDER BY 1, 2"
    )
    assert [tuple(row) for row in covered] == stored, "coverage is not the samples"
    readings = await pool.fetch("SELECT id FROM telemetry_raw WHERE seq IS NULL ORDER BY id")
    told = await pool.fetch("SELECT id FROM sync_outbox WHERE event_type = 'telemetry.ingested' ORDER BY id")
    assert [row["id"] for row in readings] == [row["id"] for row in told]
    losses = await pool.fetch("SELECT event_id FROM stream_losses ORDER BY event_id")
    told = await pool.fetch("SELECT id FROM sync_outbox WHERE event_type = 'telemetry.loss' ORDER BY id")
    assert [row["event_id"] for row in losses] == [row["id"] for row in told]


async def assert_exactly_once(pool: Pool, stream: UUID, last: int) -> None:
    """Every sequence of the stream up to `last` is stored, counted and packed once."""
    rows = await pool.fetch("SELECT seq FROM telemetry_raw WHERE stream_id = $1 ORDER BY seq", stream)
    assert [row["seq"] for row in rows] == list(range(1, last + 1))
    await assert_all_agree(pool)
