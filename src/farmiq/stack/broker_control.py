"""Orders to the dynamic-security plugin of the running broker. Each is in force, and in the plugin's file, once it is answered.

The plugin writes its whole file at each order, so with many devices an order takes long (10,000: a third of a second), in the
broker's only thread. Whatever is due before the broker starts is therefore written to the file (`mosquitto_users`)."""

import json
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

from farmiq.edge.ingress_gateway.broker_logins import MqttLogin, Right
from farmiq.kit.mqtt import MqttClient
from farmiq.stack.errors import StackError
from farmiq.stack.mosquitto_users import CONTROL_TOPIC

# One message has to stay below the broker's `max_packet_size`; between two of them the broker serves everybody else.
_LOGINS_A_MESSAGE: Final = 50
_CLIENT_ID: Final = "farmiq-control"


class OrderRefused(StackError):
    """The broker's dynamic-security plugin answered an order with an error."""


class Known(NamedTuple):
    """Whom the plugin knows, without password hashes, and the names of its roles."""

    logins: dict[str, MqttLogin]
    roles: set[str]

    def has(self, login: MqttLogin) -> bool:
        found = self.logins.get(login.name)
        return found is not None and (found.has_fixed_id, set(found.rights)) == (login.has_fixed_id, set(login.rights))

    @property
    def devices(self) -> set[str]:
        return {login.name for login in self.logins.values() if login.has_fixed_id}


class Control:
    def __init__(self, mqtt: MqttClient) -> None:
        self._mqtt = mqtt

    async def known(self) -> Known:
        everything = {"verbose": True, "count": -1, "offset": 0}
        clients, roles = await self._order(
            {"command": "listClients", **everything}, {"command": "listRoles", **everything}
        )
        rights = {role["rolename"]: _rights(role["acls"]) for role in roles["data"]["roles"]}
        return Known({login.name: login for login in _logins(clients["data"]["clients"], rights)}, set(rights))

    async def put(self, logins: Sequence[MqttLogin], known: Known) -> None:
        """Those who are not as the plugin knows them. Changing one who is connected ends the connection."""
        for start in range(0, len(logins), _LOGINS_A_MESSAGE):
            # A role before its client: a client can't be made with a role that is not there.
            orders = [
                order
                for login in logins[start : start + _LOGINS_A_MESSAGE]
                for order in (
                    {"command": "modifyRole" if login.name in known.roles else "createRole", **login.role},
                    {"command": "modifyClient" if login.name in known.logins else "createClient", **login.client},
                )
            ]
            await self._order(*orders)

    async def drop(self, names: Sequence[str]) -> None:
        """Deleted and not disabled: with certificates a client that is disabled keeps its rights."""
        for start in range(0, len(names), _LOGINS_A_MESSAGE):
            await self._order(
                *({"command": "deleteClient", "username": name} for name in names[start : start + _LOGINS_A_MESSAGE]),
                *({"command": "deleteRole", "rolename": name} for name in names[start : start + _LOGINS_A_MESSAGE]),
            )

    async def _order(self, *orders: Mapping[str, Any]) -> list[dict[str, Any]]:
        number = uuid.uuid4().hex
        numbered = [{**order, "correlationData": number} for order in orders]
        await self._mqtt.publish(CONTROL_TOPIC, json.dumps({"commands": numbered}).encode())
        while True:
            for message in await self._mqtt.next_batch(1, 0.0):
                answers = json.loads(message.payload)["responses"]
                if answers and answers[0].get("correlationData") == number:
                    _refuse_errors(answers)
                    return list(answers)


@asynccontextmanager
async def control(services_url: str) -> AsyncIterator[Control]:
    """Waits for a broker that is away: whoever uses it limits the time."""
    client_id = f"{_CLIENT_ID}-{uuid.uuid4().hex}"
    mqtt = MqttClient(
        services_url, client_id=client_id, subscriptions=[f"{CONTROL_TOPIC}/response"], clean_session=True
    )
    await mqtt.start()
    try:
        await mqtt.wait_connected()
        yield Control(mqtt)
    finally:
        await mqtt.stop()


def _logins(clients: Iterable[Mapping[str, Any]], rights: Mapping[str, tuple[Right, ...]]) -> Iterator[MqttLogin]:
    for client in clients:
        own = [right for role in client["roles"] for right in rights.get(role["rolename"], ())]
        yield MqttLogin(client["username"], "", tuple(own), client.get("clientid") == client["username"])


def _rights(entries: Iterable[Mapping[str, Any]]) -> tuple[Right, ...]:
    return tuple(Right(entry["acltype"], entry["topic"]) for entry in entries if entry["allow"])


def _refuse_errors(answers: Iterable[Mapping[str, Any]]) -> None:
    for answer in answers:
        if "error" in answer:
            raise OrderRefused(f"the broker did not carry out {answer.get('command')}: {answer['error']}")
