"""What is printed when a device gets its secrets: once, with the commands for that device ready to be pasted into a shell."""

import json
import shlex
from typing import TYPE_CHECKING, Any

from farmiq.cli.device_edge import ForeignBroker
from farmiq.cli.env import exports
from farmiq.contracts.services import service_named

if TYPE_CHECKING:
    from farmiq.cli.device_changes import Issued


_MEDIA_STORE_PORT = service_named("edge-media-store").port

_WHERE = {
    "node": "On the node, in a folder that may grow, paste:",
    "weigh-station": "On the station, in a folder that may grow, paste (without a station file it is a simulated one):",
    "sensor": "A reading from any shell with mosquitto_pub (Debian package mosquitto-clients):",
}


def as_data(issued: "Issued") -> dict[str, Any]:
    """The contract of `--json`. A broker that others run needs two entries more, which are for them."""
    device = issued.device
    told: dict[str, Any] = {
        "device_id": device.device_id,
        "mqtt_url": issued.mqtt_url,
        "mqtt_username": device.device_id,
        "mqtt_password": issued.mqtt_password,
        "http_token": issued.http_token,
        "tenant_id": device.tenant_id,
        "farm_id": device.farm_id,
        "barn_id": device.barn_id,
        "kind": device.kind,
    }
    if isinstance(issued.broker, ForeignBroker):
        told["broker_password_line"] = issued.login.password_line
        told["broker_rule_lines"] = list(issued.login.rule_lines)
    return told


def as_text(issued: "Issued") -> str:
    device = issued.device
    place = f"{device.tenant_id}/{device.farm_id}/{device.barn_id}"
    rows = (("MQTT user", device.device_id), ("MQTT password", issued.mqtt_password), ("HTTP token", issued.http_token))
    parts = [
        f"{device.device_id} ({device.kind}) may speak from {place}. Its secrets are shown this once:",
        "\n".join(f"  {name:<13}  {value}" for name, value in rows),
    ]
    if isinstance(issued.broker, ForeignBroker):
        parts.append(_for_the_broker(issued, issued.broker))
    where = _WHERE.get(device.kind, "On the device, its environment:")
    parts += [where, commands(issued)]
    return "\n\n".join(parts)


def commands(issued: "Issued") -> str:
    ways = {"node": _node, "sensor": _sensor, "weigh-station": _weigh_station}
    return ways.get(issued.device.kind, _environment)(issued)


def _node(issued: "Issued") -> str:
    folder = f"$PWD/{issued.device.device_id}"
    return "\n".join(
        (
            exports(_identity(issued)),
            # In double quotes: where the data goes is decided on the device.
            f'export NODE_FORWARDER_SPOOL_DIR="{folder}/spool"',
            f'export NODE_FORWARDER_SOCKET="{folder}/forwarder.sock"',
            "farmiq run node-agent node-forwarder",
        )
    )


def _weigh_station(issued: "Issued") -> str:
    return "\n".join(
        (
            _environment(issued),
            # As `farmiq env` names it. A station elsewhere sets the edge's own name first.
            f'export EDGE_MEDIA_STORE_URL="${{EDGE_MEDIA_STORE_URL:-http://127.0.0.1:{_MEDIA_STORE_PORT}}}"',
            f'export WEIGHVISION_QUEUE_DIR="$PWD/{issued.device.device_id}/queue"',
            "farmiq run weighvision-agent",
        )
    )


def _environment(issued: "Issued") -> str:
    return exports(_identity(issued) | {"STATION_ID": issued.device.device_id, "HTTP_TOKEN": issued.http_token})


def _sensor(issued: "Issued") -> str:
    device = issued.device
    topic = f"iot/telemetry/{device.tenant_id}/{device.farm_id}/{device.barn_id}/{device.device_id}/temperature"
    words = ["mosquitto_pub", *_address(issued), "-i", device.device_id, "-u", device.device_id]
    words += ["-P", issued.mqtt_password, "-q", "1", "-t", topic]
    return f"{shlex.join(words)} -m {_reading(issued)}"


def _identity(issued: "Issued") -> dict[str, str]:
    device = issued.device
    return {
        "TENANT_ID": device.tenant_id,
        "FARM_ID": device.farm_id,
        "BARN_ID": device.barn_id,
        "DEVICE_ID": device.device_id,
        "MQTT_URL": issued.mqtt_url,
    }


def _address(issued: "Issued") -> list[str]:
    if isinstance(issued.broker, ForeignBroker):
        tls = ["--tls-use-os-certs"] if issued.broker.is_tls else []
        return ["-h", issued.broker.host, "-p", str(issued.broker.port), *tls]
    return ["-h", "127.0.0.1", "-p", str(issued.broker.port)]


def _reading(issued: "Issued") -> str:
    """In double quotes, so that the shell fills in a new event id and the time each time it is run."""
    # No id can hold the characters < and >.
    body = {
        "event_id": "<id>",
        "tenant_id": issued.device.tenant_id,
        "device_id": issued.device.device_id,
        "event_type": "telemetry.reading",
        "ts": "<now>",
        "payload": {"value": 26.4, "unit": "C"},
    }
    quoted = '"' + json.dumps(body).replace('"', '\\"') + '"'
    for name, command in (("<id>", "cat /proc/sys/kernel/random/uuid"), ("<now>", "date -u +%Y-%m-%dT%H:%M:%SZ")):
        quoted = quoted.replace(name, f"$({command})")
    return quoted


def _for_the_broker(issued: "Issued", broker: ForeignBroker) -> str:
    rules = "\n".join(f"  {line}" for line in issued.login.rule_lines)
    return (
        f"The broker {broker.host}:{broker.port} is not run by FarmIQ and does not know the device yet. For Mosquitto, add to "
        f"its password file:\n\n  {issued.login.password_line}\n\nand to its access file:\n\n{rules}\n\nthen reload it "
        "(SIGHUP). Devices need a listener with `use_username_as_clientid true`: without it one can take another's client id."
    )
