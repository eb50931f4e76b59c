"""Which RabbitMQ a command is about."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from farmiq.cli.errors import BadSetting, NotRunning


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


def _checked(url: str) -> str:
    if not url.startswith(("amqp://", "amqps://")):
        raise BadSetting(
            "AMQP_URL is not the address of a RabbitMQ",
            why="It has to begin with amqp:// or amqps://.",
            fix="set AMQP_URL=amqp://user:password@host:5672/vhost",
        )
    return url
