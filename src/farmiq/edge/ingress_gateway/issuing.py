"""New secrets for a device: made here, recognised by the register, told once, and kept nowhere."""

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from farmiq.edge.ingress_gateway.broker_logins import BrokerAddress, MqttLogin, hash_password, login_of
from farmiq.edge.ingress_gateway.devices import Credential, Device

PASSWORD_BYTES = 24
TOKEN_BYTES = 32


@dataclass(frozen=True)
class Issued:
    """A device with secrets that nobody has seen yet."""

    device: Device
    mqtt_password: str = field(repr=False)
    http_token: str = field(repr=False)
    login: MqttLogin
    broker: BrokerAddress

    @property
    def mqtt_url(self) -> str:
        return self.broker.url(self.device.device_id, self.mqtt_password)


async def issue(change: Callable[[Credential], Awaitable[Device]], broker: BrokerAddress) -> Issued:
    """`change` writes what it takes to recognise the secrets into the register: until it has, they are worth nothing."""
    password, token = secrets.token_urlsafe(PASSWORD_BYTES), secrets.token_urlsafe(TOKEN_BYTES)
    password_hash = hash_password(password)
    device = await change(Credential(password_hash, token))
    return Issued(device, password, token, login_of(device, password_hash), broker)
