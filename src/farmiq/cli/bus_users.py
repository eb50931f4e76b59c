"""Logins at RabbitMQ for programs that read one tenant's events. `farmiq.cloud.bus_users` has their rows and queues.

AMQP can't make users. The farm of this machine is asked inside its own node, with its own cookie; any other broker through its
management API. In neither way is a password an argument of a process.
"""

import re
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

import aiohttp
from yarl import URL

from farmiq.cli.cloud_bus import Bus, own_server
from farmiq.cli.connected_cloud import connected as connected_cloud
from farmiq.cli.edge_cloud import Cloud
from farmiq.cli.errors import BadSetting, CommandFailed
from farmiq.cli.terminal import console, put
from farmiq.cli.token_table import moment
from farmiq.cloud import bus_users
from farmiq.kit.amqp_channel import BusAway
from farmiq.kit.amqp_hosts import each_host
from farmiq.kit.amqp_inspection import connected as connected_bus
from farmiq.kit.amqp_inspection import virtual_host_of
from farmiq.kit.amqp_topology import depth
from farmiq.kit.errors import Rejected
from farmiq.kit.postgres import Connection
from farmiq.stack.rabbitmq import NotEvaluated, RabbitMq

GROUP: Final = "bus user"
MANAGEMENT_SECONDS_MAX: Final = 30.0
NOTHING: Final = "^$"
# Two commands for one name at a time would delete each other's queue.
_ALONE: Final = "SELECT pg_advisory_lock(hashtextextended('farmiq bus user', 0))"


@dataclass(frozen=True)
class IssuedLogin:
    """Shown once, and kept nowhere."""

    name: str
    tenant_id: str
    password: str = field(repr=False)
    amqp_url: str = field(repr=False)

    @property
    def queue(self) -> str:
        return bus_users.queue_of(self.name)

    def as_data(self) -> dict[str, str]:
        return {
            "name": self.name,
            "tenant_id": self.tenant_id,
            "queue": self.queue,
            "password": self.password,
            "amqp_url": self.amqp_url,
        }


# --- Commands ------------------------------------------------------------------------------------------------------------------


async def add_user(cloud: Cloud, bus: Bus, logins: "Logins", name: str, tenant_id: str) -> IssuedLogin:
    """The row first, so that no event is missed; the login last, so that nobody reads before everything is in its place.

    Killed in between, the same command again makes the rest; after the login was made, `revoke` and `add`.
    """
    password = secrets.token_urlsafe(24)
    async with _alone(cloud) as connection:
        if await logins.exists(bus_users.check_name(name)):
            raise bus_users.BusUserKnown(f"RabbitMQ has a user {name}")
        user = await bus_users.add(connection, name, tenant_id)
        async with connected_bus(bus.amqp_url, "farmiq-bus-user") as broker:
            await bus_users.make_queue(broker, user)
        await logins.create(name, password, read=f"^{re.escape(user.queue)}$")
    return IssuedLogin(name, tenant_id, password, _address(bus, name, password))


async def revoke_user(cloud: Cloud, bus: Bus, logins: "Logins", name: str) -> None:
    """The login first. A user of RabbitMQ that has neither a row nor a queue of ours was made by somebody else, and stays."""
    async with _alone(cloud) as connection:
        async with connected_bus(bus.amqp_url, "farmiq-bus-user") as broker:
            rows = {one.name for one in await bus_users.all_users(connection)}
            has_queue = await depth(broker, bus_users.queue_of(bus_users.check_name(name))) is not None
            if name not in rows and not has_queue:
                raise bus_users.BusUserUnknown(f"there is no user {name} of the bus")
            await logins.delete(name)
            await bus_users.delete_queue(broker, name)
        await bus_users.remove(connection, name)


async def list_users(cloud: Cloud, bus: Bus) -> list[dict[str, Any]]:
    async with connected_cloud(cloud, GROUP) as connection:
        users = await bus_users.all_users(connection)
    async with connected_bus(bus.amqp_url, "farmiq-bus-user") as broker:
        return [
            {
                "name": user.name,
                "tenant_id": user.tenant_id,
                "queue": user.queue,
                "waiting": await depth(broker, user.queue),
                "created_at": user.created_at.isoformat(),
            }
            for user in users
        ]


def show_users(users: Sequence[Mapping[str, Any]]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("user", "tenant", "queue", "waiting", "added"):
        table.add_column(column, no_wrap=True, justify="right" if column == "waiting" else "left")
    for one in users:
        waiting = "no queue" if one["waiting"] is None else f"{one['waiting']:,}"
        table.add_row(
            one["name"], one["tenant_id"], one["queue"], waiting, moment(datetime.fromisoformat(one["created_at"]))
        )
    put(console(), table)


@asynccontextmanager
async def _alone(cloud: Cloud) -> AsyncIterator[Connection]:
    fixes: dict[type[Rejected], str] = {
        bus_users.BusUserKnown: "choose another name, or delete it first: farmiq bus user revoke NAME"
    }
    async with connected_cloud(cloud, GROUP, fixes) as connection:
        await connection.execute(_ALONE)  # held until the connection ends
        yield connection


def _address(bus: Bus, name: str, password: str) -> str:
    """The first node's, which every AMQP client can read."""
    return str(each_host(bus.amqp_url)[0].with_user(name).with_password(password))


# --- Logins --------------------------------------------------------------------------------------------------------------------


class LoginsRefused(CommandFailed):
    """RabbitMQ did not make, find or delete a user."""


def logins_of(bus: Bus) -> "Logins":
    virtual_host = virtual_host_of(bus.amqp_url)
    if bus.management_url is not None:
        return ManagedLogins(bus.management_url, virtual_host)
    server = own_server(bus)
    if server is None:
        raise BadSetting(
            "which management API?",
            why="AMQP_URL names a RabbitMQ that this farm does not run, and AMQP can't make users.",
            fix="set AMQP_MANAGEMENT_URL=https://user:password@host:15671, with a user that has the tag administrator",
        )
    return NodeLogins(server, virtual_host)


@dataclass(frozen=True)
class NodeLogins:
    """Inside a node of ours. Names have letters, digits, dots, underscores and hyphens only, so none ends a string early."""

    server: RabbitMq
    virtual_host: str

    async def exists(self, name: str) -> bool:
        return await self._evaluate(f'element(1, rabbit_auth_backend_internal:lookup_user(<<"{name}">>)).') == "ok"

    async def create(self, name: str, password: str, *, read: str) -> None:
        rights = ", ".join(f'<<"{one}">>' for one in (NOTHING, NOTHING, read.replace("\\", "\\\\")))
        await self._evaluate(
            f'ok = rabbit_auth_backend_internal:add_user(<<"{name}">>, <<"{password}">>, <<"farmiq">>), '
            f'ok = rabbit_auth_backend_internal:set_permissions(<<"{name}">>, <<"{self.virtual_host}">>, {rights}, <<"farmiq">>).'
        )

    async def delete(self, name: str) -> None:
        """RabbitMQ ends the connections of a user who is deleted."""
        if await self.exists(name):
            await self._evaluate(f'ok = rabbit_auth_backend_internal:delete_user(<<"{name}">>, <<"farmiq">>).')

    async def _evaluate(self, expressions: str) -> str:
        try:
            return (await self.server.evaluate(f"{expressions}\n")).strip()
        except NotEvaluated:
            # Its text may quote what was evaluated, and with it the password.
            raise LoginsRefused(
                "RabbitMQ did not do it",
                why="Its node does not run, or does not answer.",
                fix="farmiq status, then again",
            ) from None


@dataclass(frozen=True)
class ManagedLogins:
    management_url: str = field(repr=False)
    virtual_host: str

    async def exists(self, name: str) -> bool:
        return await self._request("GET", f"users/{quote(name, safe='')}") != 404

    async def create(self, name: str, password: str, *, read: str) -> None:
        await self._request("PUT", f"users/{quote(name, safe='')}", {"password": password, "tags": ""})
        rights = {"configure": NOTHING, "write": NOTHING, "read": read}
        await self._request("PUT", f"permissions/{quote(self.virtual_host, safe='')}/{quote(name, safe='')}", rights)

    async def delete(self, name: str) -> None:
        """RabbitMQ ends the connections of a user who is deleted."""
        await self._request("DELETE", f"users/{quote(name, safe='')}")

    async def _request(self, method: str, path: str, body: Mapping[str, str] | None = None) -> int:
        url = URL(self.management_url)
        auth = aiohttp.BasicAuth(url.user or "", url.password or "")
        where = URL(f"{str(url.with_user(None)).rstrip('/')}/api/{path}", encoded=True)
        timeout = aiohttp.ClientTimeout(total=MANAGEMENT_SECONDS_MAX)
        try:
            async with (
                aiohttp.ClientSession(auth=auth, timeout=timeout) as session,
                session.request(method, where, json=body) as response,
            ):
                return self._checked(response.status)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise BusAway(f"The management API does not answer: {str(error) or 'no answer in time'}") from error

    def _checked(self, status: int) -> int:
        if status in (200, 201, 204, 404):
            return status
        raise LoginsRefused(
            "RabbitMQ did not do it",
            why=f"Its management API answers {status}: the user in AMQP_MANAGEMENT_URL may not manage users.",
            fix="give it the tag administrator: rabbitmqctl set_user_tags USER administrator",
        )


Logins = NodeLogins | ManagedLogins
