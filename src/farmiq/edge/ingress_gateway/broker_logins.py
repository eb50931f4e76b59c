"""A device as a broker knows it: its password's hash and its topic rules, in the words of Mosquitto's two files.

Whoever runs the broker writes them there: `farmiq up` for its own, a person for one that FarmIQ does not run."""

import base64
import hashlib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from farmiq.edge.ingress_gateway.devices import Device

# The broker checks passwords in its only thread, also when a whole farm reconnects at once. Ours are long and random, so
# guessing is hopeless at any count; this is the one that mosquitto_passwd uses.
_ITERATIONS = 101
_SALT_BYTES = 12


@dataclass(frozen=True)
class MqttLogin:
    """A user as the broker's files hold it, without the password itself."""

    name: str
    password_hash: str = field(repr=False)
    rules: tuple[str, ...]

    @property
    def password_line(self) -> str:
        return f"{self.name}:{self.password_hash}"

    @property
    def rule_lines(self) -> tuple[str, ...]:
        return (f"user {self.name}", *self.rules)


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
    rules = device_rules(device.tenant_id, device.farm_id, device.barn_id, device.device_id, device.kind)
    return MqttLogin(device.device_id, password_hash, rules)


def device_rules(tenant_id: str, farm_id: str, barn_id: str, device_id: str, kind: str = "node") -> tuple[str, ...]:
    """A device speaks for itself alone and hears nothing but its own acknowledgements.

    Every level that says who speaks is literal. `+` stands only for what follows the device's own name: the metric, the type
    of the event, a weigh session. One level each, so nothing but the documented topics passes."""
    place = f"{tenant_id}/{farm_id}/{barn_id}/{device_id}"
    rules = [
        f"topic write iot/telemetry/{place}/+",
        f"topic write iot/event/{place}/+",
        f"topic write iot/status/{place}",
        f"topic read iot/{device_id}/ack",
    ]
    if kind == "weigh-station":
        rules.append(f"topic write iot/weighvision/{place}/session/+/+")
    return tuple(rules)


def hash_password(password: str) -> str:
    """As Mosquitto's password file holds it."""
    salt = os.urandom(_SALT_BYTES)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ITERATIONS)
    return f"$7${_ITERATIONS}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"


def mqtt_url(user: str, password: str, host: str, port: int, scheme: str = "mqtt") -> str:
    return f"{scheme}://{quote(user, safe='')}:{quote(password, safe='')}@{host}:{port}"
