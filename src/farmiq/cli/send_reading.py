"""Publishes readings as a device does, and believes nothing but the edge's own word on the device's acknowledgement topic."""

import asyncio
import json
import time
import urllib.parse
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from farmiq.cli.errors import CommandFailed
from farmiq.cli.hops import fetch
from farmiq.cli.send_login import CloudApi
from farmiq.cli.send_values import Value
from farmiq.contracts import event_types
from farmiq.contracts.ack import AckResult, DeviceAck, EventAck
from farmiq.contracts.decoding import encode, parse
from farmiq.contracts.envelope import mqtt_envelope
from farmiq.contracts.telemetry import Reading
from farmiq.contracts.topics import AckTopic, TelemetryTopic
from farmiq.kit.errors import FarmiqError
from farmiq.kit.logging import configure
from farmiq.kit.mqtt import BrokerAway, MqttClient
from farmiq.stack.device_secrets import KeptLogin

CONNECT_SECONDS_MAX = 3.0
ACK_SECONDS_MAX = 10.0
LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Sent:
    """Seconds are from when it was published. `stored_seconds` is None when the cloud did not have it in time."""

    event_id: UUID
    metric: str
    value: float
    result: AckResult
    accepted_seconds: float
    stored_seconds: float | None = None


async def send_readings(
    login: KeptLogin, values: Sequence[Value], cloud: CloudApi | None, seconds: float
) -> list[Sent]:
    configure("CRITICAL")  # the client's log lines are for services; what matters here is raised
    client = MqttClient(
        login.mqtt_url,
        client_id=login.device_id,
        subscriptions=[AckTopic(device_id=login.device_id).path],
        clean_session=True,
    )
    await client.start()
    began_at = time.monotonic()
    try:
        sent_at = await _publish(client, login, values)
        told = await _acknowledged(client, values)
    finally:
        await client.stop()
    sent = [_judged(value, *told[value.event_id], sent_at) for value in values]
    if cloud is None:
        return sent
    deadline = began_at + seconds
    taken_at = min(value.taken_at for value in values)
    return [await _stored(cloud, login, one, sent_at, taken_at, deadline) for one in sent]


async def _publish(client: MqttClient, login: KeptLogin, values: Sequence[Value]) -> float:
    try:
        async with asyncio.timeout(CONNECT_SECONDS_MAX):
            await client.wait_connected()
            sent_at = time.monotonic()
            for value in values:
                topic, payload = _message(login, value)
                await client.publish(topic, payload)
    except (TimeoutError, BrokerAway) as error:
        raise CommandFailed(
            f"nothing was accepted: the broker does not take {login.device_id}'s connection",
            why="It can't be reached, or it does not know this login. Nothing was kept: a node would keep it in its spool.",
            fix="farmiq demo status shows whether the link is broken, farmiq device ls whether the device was revoked",
        ) from error
    return sent_at


def _message(login: KeptLogin, value: Value) -> tuple[str, bytes]:
    topic = TelemetryTopic(
        tenant_id=login.tenant_id,
        farm_id=login.farm_id,
        barn_id=login.barn_id,
        device_id=login.device_id,
        metric=value.metric,
    )
    envelope = mqtt_envelope(
        Reading(value=value.value, unit=value.unit),
        event_id=value.event_id,
        event_type=event_types.TELEMETRY_READING,
        tenant_id=login.tenant_id,
        device_id=login.device_id,
        ts=value.taken_at,
    )
    return topic.path, encode(envelope)


async def _acknowledged(client: MqttClient, values: Sequence[Value]) -> dict[UUID, tuple[EventAck, float]]:
    """Each with the time at which the edge said it."""
    wanted = {value.event_id for value in values}
    told: dict[UUID, tuple[EventAck, float]] = {}
    try:
        async with asyncio.timeout(ACK_SECONDS_MAX):
            while wanted - told.keys():
                for message in await client.next_batch(100, 0.0):
                    ack = parse(DeviceAck, message.payload)
                    told |= {one.event_id: (one, time.monotonic()) for one in ack.events if one.event_id in wanted}
                    _require_taken(ack, wanted)
    except TimeoutError as error:
        ids = ", ".join(str(value.event_id) for value in values if value.event_id not in told)
        raise CommandFailed(
            f"not acknowledged within {ACK_SECONDS_MAX:g} s: the edge did not say that it is stored",
            why="The broker took it, which promises nothing. The edge may be away, or its database may be.",
            fix=f"farmiq demo status, then the same command with --event-id (it was {ids}), which can't store it twice",
        ) from error
    return told


def _require_taken(ack: DeviceAck, wanted: Collection[UUID]) -> None:
    for one in ack.put_off or ():
        if one.event_id in wanted:
            raise CommandFailed(
                f"the edge does not take it as things are: {one.code}",
                why="The register or the database of the edge stands in the way. A node would keep it, and send it again.",
                fix=f"farmiq device ls, then the same command with --event-id {one.event_id}, which can't store it twice",
            )


def _judged(value: Value, told: EventAck, at: float, sent_at: float) -> Sent:
    if told.result == "rejected":
        raise CommandFailed(
            f"the edge rejected {value.metric}: {told.code or 'no reason given'}",
            why="It is kept there with the reason, and will not be taken by sending it again.",
            fix="farmiq logs edge-ingress-gateway",
        )
    return Sent(value.event_id, value.metric, value.value, told.result, round(at - sent_at, 3))


async def _stored(
    cloud: CloudApi, login: KeptLogin, sent: Sent, sent_at: float, taken_at: datetime, deadline: float
) -> Sent:
    while True:
        if await asyncio.to_thread(_is_in_cloud, cloud, login, sent, taken_at):
            return replace(sent, stored_seconds=round(time.monotonic() - sent_at, 3))
        if time.monotonic() > deadline:
            return sent
        await asyncio.sleep(LOOK_SECONDS)


def _is_in_cloud(cloud: CloudApi, login: KeptLogin, sent: Sent, taken_at: datetime) -> bool:
    query = {
        "tenant_id": login.tenant_id,
        "device_id": login.device_id,
        "metric": sent.metric,
        "from": (taken_at - timedelta(seconds=1)).isoformat(),
        "to": (taken_at + timedelta(seconds=1)).isoformat(),
        "limit": "1000",
    }
    url = f"{cloud.url.rstrip('/')}/api/v1/telemetry/readings?{urllib.parse.urlencode(query)}"
    try:
        page = json.loads(fetch(url, cloud.token))
    except (OSError, ValueError, FarmiqError):
        return False  # away for the moment: that it is accepted stays true
    return any(row["id"] == str(sent.event_id) for row in page["readings"])
