"""Whose login `farmiq send` uses, and where it can see that the cloud has the value."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from farmiq.cli.errors import BadSetting, BadUsage, CommandFailed
from farmiq.contracts.ids import InvalidId, check_device_id
from farmiq.stack import demo_farm
from farmiq.stack.device_secrets import KeptLogin, find

PLACE = ("TENANT_ID", "FARM_ID", "BARN_ID")


@dataclass(frozen=True)
class CloudApi:
    """Where stored readings can be asked for."""

    url: str
    token: str = field(repr=False)


def login_for(device_id: str, environ: Mapping[str, str] = os.environ) -> tuple[KeptLogin, CloudApi | None]:
    """What the shell was given for this very device wins; `farmiq env` sets MQTT_URL too, but for the operator."""
    try:
        check_device_id(device_id)
    except InvalidId as error:
        raise BadUsage(str(error), why="No device can have that name.", fix="farmiq device ls") from error
    given = environ.get("MQTT_URL", "")
    if unquote(urlsplit(given).username or "") == device_id:
        return _given(device_id, given, environ), _cloud(environ)
    return _kept(device_id, environ)


def _given(device_id: str, mqtt_url: str, environ: Mapping[str, str]) -> KeptLogin:
    if missing := [name for name in PLACE if not environ.get(name)]:
        raise BadSetting(
            f"{', '.join(missing)} must be set too",
            why="MQTT_URL is a device's login, and its topics name the place where it stands.",
            fix="paste all of what farmiq device add printed",
        )
    tenant_id, farm_id, barn_id = (environ[name] for name in PLACE)
    return KeptLogin(tenant_id=tenant_id, farm_id=farm_id, barn_id=barn_id, device_id=device_id, mqtt_url=mqtt_url)


def _kept(device_id: str, environ: Mapping[str, str]) -> tuple[KeptLogin, CloudApi | None]:
    from farmiq.cli.running import running_home
    from farmiq.stack.control import environment

    home = running_home(environ)
    if device_id in (demo_farm.DEVICE_ID, demo_farm.STATION_ID):
        raise CommandFailed(
            f"{device_id} is a device that this farm runs itself",
            why="It is connected under that name, and a device has one connection.",
            fix="farmiq device add pump-7 --kind sensor, then farmiq send --device pump-7 temp=4.2",
        )
    login = find(home, device_id)
    if login is None:
        raise CommandFailed(
            f"this farm's home holds no login of {device_id}",
            why="It was never added, or not with `farmiq device add` on this machine.",
            fix=f"farmiq device add {device_id} --kind sensor, or farmiq device rotate {device_id} for one that is there",
        )
    return login, _cloud(environment(home))


def _cloud(known: Mapping[str, str]) -> CloudApi | None:
    url, token = known.get("CLOUD_TELEMETRY_SERVICE_URL"), known.get("ADMIN_TOKEN")
    return CloudApi(url, token) if url and token else None
