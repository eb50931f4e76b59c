"""Which RabbitMQ a command is about."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from farmiq.cli.errors import BadSetting, NotRunning

if TYPE_CHECKING:
    from farmiq.stack.rabbitmq import RabbitMq


@dataclass(frozen=True)
class Bus:
    amqp_url: str = field(repr=False)
    management_url: str | None = field(default=None, repr=False)


def find_bus(environ: Mapping[str, str] = os.environ) -> Bus:
    """What was asked for by name wins over what happens to run here."""
    from farmiq.kit.settings import Secret, Settings, load

    class Given(Settings, frozen=True, kw_only=True):
        amqp_url: Secret = ""
        amqp_management_url: Secret = ""

    given = load(Given, environ)
    if given.amqp_url:
        return Bus(_checked(given.amqp_url), given.amqp_management_url or None)

    from farmiq.cli.running import running_environment

    try:
        known = running_environment(environ)
    except NotRunning as error:
        raise BadSetting(
            "which RabbitMQ?",
            why="AMQP_URL is not set, and no farm runs on this machine.",
            fix="set AMQP_URL=amqp://user:password@host:5672/vhost, or start a farm: farmiq up",
        ) from error
    return Bus(known["AMQP_URL"], given.amqp_management_url or None)


def own_server(bus: Bus, environ: Mapping[str, str] = os.environ) -> "RabbitMq | None":
    """The node of the farm that runs here, if that is the one which `bus` names. It can be asked more than AMQP answers."""
    from farmiq.cli.running import running_home
    from farmiq.kit.amqp_hosts import each_host
    from farmiq.stack.rabbitmq import RabbitMq
    from farmiq.stack.secrets import load_or_create

    try:
        home = running_home(environ)
    except NotRunning:
        return None
    ports: dict[str, int] = json.loads(home.ports_file.read_text(encoding="utf-8"))
    node = each_host(bus.amqp_url)[0]
    if node.host != "127.0.0.1" or node.port != ports.get("rabbitmq"):
        return None
    secrets = load_or_create(home.secrets_file)
    return RabbitMq(
        home.server_folder("rabbitmq"),
        ports["rabbitmq"],
        ports["rabbitmq-distribution"],
        ports["epmd"],
        secrets.rabbitmq,
        secrets.rabbitmq_cookie,
    )


def _checked(url: str) -> str:
    if not url.startswith(("amqp://", "amqps://")):
        raise BadSetting(
            "AMQP_URL is not the address of a RabbitMQ",
            why="It has to begin with amqp:// or amqps://.",
            fix="set AMQP_URL=amqp://user:password@host:5672/vhost",
        )
    return url
