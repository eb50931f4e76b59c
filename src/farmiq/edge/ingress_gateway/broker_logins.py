"""A device as a broker knows it: its password's hash, and its rights in the words of Mosquitto's dynamic-security plugin.

Whoever runs the broker gives them to it: `farmiq up` to its own, a person to one that FarmIQ does not run."""

import base64
import hashlib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

if TYPE_CHECKING:
    from farmiq.edge.ingress_gateway.devices import Device

# The broker checks passwords in its only thread, also when a whole farm reconnects at once. Ours are long and random, so
# guessing is hopeless at any count; this is the one that mosquitto_passwd uses.
_ITERATIONS = 101
_SALT_BYTES = 12


class Right(NamedTuple):
    """One entry of a role. Whatever no entry allows is denied."""

    kind: str
    topic: str


def may_publish(topic: str) -> tuple[Right, ...]:
    return (Right("publishClientSend", topic),)


def may_read(topic: str) -> tuple[Right, ...]:
    """To subscribe, and to be sent what is published. The plugin compares the whole filter, with `$share/group/` in front."""
    return Right("subscribePattern", topic), Right("publishClientReceive", topic)


@dataclass(frozen=True)
class MqttLogin:
    """A user as the broker's files hold it, without the password itself."""

    name: str
    password_hash: str = field(repr=False)
    rights: tuple[Right, ...]
    # The client id is the user's name on every listener: nobody's session can be taken over with this login.
    has_fixed_id: bool = False

    @property
    def password_line(self) -> str:
        return f"{self.name}:{self.password_hash}"

    @property
    def rule_lines(self) -> tuple[str, ...]:
        """For a broker with an access file. It can't deny a subscription: see `commands`."""
        words = {"publishClientSend": "write", "publishClientReceive": "read"}
        rules = [f"topic {words[right.kind]} {right.topic}" for right in self.rights if right.kind in words]
        return (f"user {self.name}", *rules)

    @property
    def role(self) -> dict[str, Any]:
        """A role of its own: Mosquitto 2.0 has no patterns in which the user's name could stand."""
        entries = [{"acltype": right.kind, "topic": right.topic, "allow": True} for right in self.rights]
        return {"rolename": self.name, "acls": entries}

    @property
    def client(self) -> dict[str, Any]:
        fixed = {"clientid": self.name} if self.has_fixed_id else {}
        return {"username": self.name, **fixed, "roles": [{"rolename": self.name}]}

    @property
    def commands(self) -> tuple[str, ...]:
        """For a broker of others that has the plugin. The password is entered when `createClient` prompts for it."""
        ctrl = "mosquitto_ctrl dynsec"
        rights = (f"{ctrl} addRoleACL {self.name} {right.kind} '{right.topic}' allow" for right in self.rights)
        client = f"{ctrl} createClient {self.name} -c {self.name}"
        assigned = f"{ctrl} addClientRole {self.name} {self.name}"
        return (*removal_commands(self.name), f"{ctrl} createRole {self.name}", *rights, client, assigned)


def removal_commands(name: str) -> tuple[str, str]:
    return f"mosquitto_ctrl dynsec deleteClient {name}", f"mosquitto_ctrl dynsec deleteRole {name}"


@dataclass(frozen=True)
class BrokerAddress:
    """Where devices log in. `is_kept`: somebody of ours writes its files whenever the register changes."""

    host: str
    port: int
    is_tls: bool = False
    is_kept: bool = False

    def url(self, user: str, password: str) -> str:
        return mqtt_url(user, password, self.host, self.port, "mqtts" if self.is_tls else "mqtt")


def login_of(device: "Device", password_hash: str) -> MqttLogin:
    rights = device_rights(
        device.tenant_id, device.farm_id, device.barn_id, device.device_id, device.kind, device.station
    )
    return MqttLogin(device.device_id, password_hash, rights, has_fixed_id=True)


def device_rights(
    tenant_id: str, farm_id: str, barn_id: str, device_id: str, kind: str = "node", station_id: str | None = None
) -> tuple[Right, ...]:
    """A device publishes for itself alone, and subscribes to nothing but its own acknowledgements.

    Every level that says who speaks is literal. `+` stands only for what follows the device's own name: the metric, the type
    of the event, a weigh session. One level each, so nothing but the documented topics passes."""
    place = f"{tenant_id}/{farm_id}/{barn_id}/{device_id}"
    rights = [
        *may_publish(f"iot/telemetry/{place}/+"),
        *may_publish(f"iot/event/{place}/+"),
        *may_publish(f"iot/status/{place}"),
        *may_read(f"iot/{device_id}/ack"),
    ]
    if kind == "weigh-station":
        station = f"{tenant_id}/{farm_id}/{barn_id}/{station_id or device_id}"
        rights += may_publish(f"iot/weighvision/{station}/session/+/+")
    return tuple(rights)


def hash_password(password: str) -> str:
    """As Mosquitto's password file holds it."""
    salt = os.urandom(_SALT_BYTES)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ITERATIONS)
    return f"$7${_ITERATIONS}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"


def mqtt_url(user: str, password: str, host: str, port: int, scheme: str = "mqtt") -> str:
    return f"{scheme}://{quote(user, safe='')}:{quote(password, safe='')}@{host}:{port}"
