"""Programs of others that read the events of one tenant from the bus.

A user has a login at RabbitMQ and one queue, `NAME.events.queue`, which it may read. It may not bind, publish or declare. What
reaches its queue is decided here:

    farmiq.{domain}.exchange     services publish here, `mandatory`; only queues of services are bound
    farmiq.tenants.exchange      a copy of each event of a tenant that has users, with the tenant in a header
      └ NAME.events.queue        bound with that header: the events of one tenant, and no others

The copy is a message of its own, published after the event itself was taken. A binding from the first exchange to the second
would save it, and cost the promise: `mandatory` would be satisfied by a user's queue alone when the queue of a service is gone,
and an event would count as accepted that no service ever gets.

A user's queue never holds up ingestion: it drops its oldest messages when it is full, and a copy that RabbitMQ refuses is logged
and given up. It is a classic queue, because a quorum queue without a leader confirms nothing and refuses nothing.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from aiormq.abc import AbstractConnection

from farmiq.contracts.bus import TENANT_HEADER, TENANTS_EXCHANGE
from farmiq.contracts.ids import InvalidId, check_id
from farmiq.kit.amqp import BusAway, BusRefused, Outgoing, Publisher
from farmiq.kit.amqp_topology import Exchange, Topology, declare
from farmiq.kit.errors import Rejected, Transient
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import Connection

QUEUE_MESSAGES_MAX: Final = 1_000_000
QUEUE_BYTES_MAX: Final = 1 << 30
"""Whichever is reached first. An event has up to 512 KiB, so a number of messages alone would bound no disk."""

EXCHANGE: Final = Exchange(TENANTS_EXCHANGE, kind="headers")
# Queues of services, exchanges and RabbitMQ's own names begin so.
_RESERVED: Final = ("farmiq", "amq.")

_TENANTS: Final = "SELECT DISTINCT tenant_id FROM bus_users"
_ADD: Final = """
INSERT INTO bus_users (name, tenant_id) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET tenant_id = excluded.tenant_id, created_at = now() RETURNING name, tenant_id, created_at
"""
_REMOVE: Final = "DELETE FROM bus_users WHERE name = $1 RETURNING true"
_LIST: Final = "SELECT name, tenant_id, created_at FROM bus_users ORDER BY name"

log = get_logger(__name__)


class BusUserKnown(Rejected):
    """RabbitMQ has a user of this name. Its password is kept nowhere, so it can't be shown again."""

    code = "bus_user_known"


class BusUserUnknown(Rejected):
    """No user of the bus has this name."""

    code = "bus_user_unknown"


class BusUser(msgspec.Struct, frozen=True):
    name: str
    tenant_id: str
    created_at: datetime

    @property
    def queue(self) -> str:
        return queue_of(self.name)


def check_name(name: str) -> str:
    """Raises `InvalidId`. A user's name is the beginning of the name of its queue."""
    if name.lower().startswith(_RESERVED):
        raise InvalidId("a user's name that begins with farmiq or amq.:", name)
    return check_id("user", name)


def queue_of(name: str) -> str:
    return f"{name}.events.queue"


# --- Rows ----------------------------------------------------------------------------------------------------------------------


async def tenants(connection: Connection) -> frozenset[str]:
    """Tenants whose events are copied. Read for each batch, so that a new user misses nothing from its first moment on."""
    return frozenset(row["tenant_id"] for row in await connection.fetch(_TENANTS))


async def add(connection: Connection, name: str, tenant_id: str) -> BusUser:
    row = await connection.fetchrow(_ADD, check_name(name), check_id("tenant", tenant_id))
    assert row is not None  # noqa: S101 - the statement always returns its row
    return BusUser(**dict(row.items()))


async def remove(connection: Connection, name: str) -> bool:
    return bool(await connection.fetchval(_REMOVE, name))


async def all_users(connection: Connection) -> list[BusUser]:
    return [BusUser(**dict(row.items())) for row in await connection.fetch(_LIST)]


# --- Queues --------------------------------------------------------------------------------------------------------------------


async def make_queue(bus: AbstractConnection, user: BusUser, *, messages_max: int = QUEUE_MESSAGES_MAX) -> None:
    """An empty queue that takes the events of the user's tenant. One that is there is deleted: it may be another tenant's."""
    channel = await bus.channel()
    await declare(channel, Topology(exchanges=(EXCHANGE,)))
    await channel.queue_delete(user.queue)
    arguments: dict[str, Any] = {
        "x-queue-type": "classic",
        "x-queue-mode": "lazy",  # RabbitMQ before 3.12 would keep as much of it in memory as it can
        "x-overflow": "drop-head",
        "x-max-length": messages_max,
        "x-max-length-bytes": QUEUE_BYTES_MAX,
    }
    await channel.queue_declare(user.queue, durable=True, arguments=arguments)
    match: dict[str, Any] = {"x-match": "all", TENANT_HEADER: user.tenant_id}
    await channel.queue_bind(user.queue, TENANTS_EXCHANGE, arguments=match)
    await channel.close()


async def delete_queue(bus: AbstractConnection, name: str) -> None:
    """With whatever is in it. Its consumer's connection stays, and hears nothing more."""
    channel = await bus.channel()
    await channel.queue_delete(queue_of(name))
    await channel.close()


# --- Copies --------------------------------------------------------------------------------------------------------------------


def copy_for(tenant_id: str, message: Outgoing) -> Outgoing:
    """The same body, id and routing key, for the tenant's users."""
    headers = message.headers | {TENANT_HEADER: tenant_id}
    return msgspec.structs.replace(message, exchange=TENANTS_EXCHANGE, headers=headers)


async def publish_copies(publisher: Publisher, copies: Sequence[Outgoing]) -> list[Transient | None]:
    """One answer for each, in order. Only a broker that is away keeps an event from counting as published.

    A copy that no queue takes was for a user who has just been revoked. One that a queue refuses is given up: nobody who reads
    along may stop what comes in.
    """
    answers = await publisher.publish_many(copies)
    refused = [answer for answer in answers if isinstance(answer, BusRefused)]
    if refused:
        log.warning("event_copies_refused", count=len(refused), reason=str(refused[0]))
    return [answer if isinstance(answer, BusAway) else None for answer in answers]
