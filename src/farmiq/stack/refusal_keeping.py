"""What the broker's log says of refusals goes into the edge's database, and a line of it into our own log; what the broker should
not have kept is removed."""

import asyncio
from typing import Final

import asyncpg

from farmiq.edge.ingress_gateway import refusals
from farmiq.kit.logging import get_logger, mask
from farmiq.kit.mqtt import BrokerAway, MqttClient
from farmiq.kit.postgres import RETRY
from farmiq.stack.broker_log import Refusals

RECORD_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.1
_SHOWN_MAX: Final = 5
_REMOVER: Final = "farmiq-retained"

log = get_logger(__name__)


async def keep_refusals(database_url: str, seen: Refusals, record_seconds: float = RECORD_SECONDS) -> None:
    """Until cancelled. A commit whose answer is lost counts twice: these are figures for people, and no account."""
    is_away = False
    while True:
        await asyncio.sleep(record_seconds)
        if not (taken := seen.take()):
            continue
        try:
            await _record(database_url, taken)
        except RETRY as error:
            seen.put_back(taken)
            if not is_away:
                log.warning("broker_refusals_not_recorded", reason=mask(str(error)))
            is_away = True
            continue
        is_away = False
        for one in taken[:_SHOWN_MAX]:
            log.warning("broker_refused", client_id=one.client_id, kind=one.kind, count=one.count, topic=one.topic)


async def remove_retained(services_url: str, seen: Refusals, look_seconds: float = LOOK_SECONDS) -> None:
    """Until cancelled. The broker is to keep a device's status and nothing else: what it kept elsewhere is removed at once, so it
    holds what a device can send in the meantime, and not all that it ever sent."""
    mqtt = MqttClient(services_url, client_id=_REMOVER, clean_session=True)
    await mqtt.start()
    try:
        while True:
            await asyncio.sleep(look_seconds)
            for topic in seen.take_retained():
                await _remove(mqtt, topic)
    finally:
        await mqtt.stop()


async def _remove(mqtt: MqttClient, topic: str) -> None:
    while True:
        await mqtt.wait_connected()
        try:
            await mqtt.publish(topic, b"", retain=True)
        except BrokerAway:
            continue  # it keeps its retained messages on disk
        return


async def _record(database_url: str, seen: list[refusals.Seen]) -> None:
    connection = await asyncpg.connect(
        database_url, timeout=10.0, command_timeout=30.0, server_settings={"application_name": "farmiq-refusals"}
    )
    try:
        await refusals.record(connection, seen)
    finally:
        connection.terminate()
