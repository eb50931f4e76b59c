"""What is shown when a device gets its secrets: once, with everything for that device ready to be pasted."""

import json
import shlex
from typing import TYPE_CHECKING, Final

from farmiq.contracts.services import service_named
from farmiq.kit.shell import exports

if TYPE_CHECKING:
    from farmiq.edge.ingress_gateway.issuing import Issued

_MEDIA_STORE_PORT: Final = service_named("edge-media-store").port
METRIC: Final = "temperature"

_PYTHON: Final = """\
# pip install paho-mqtt
import json
from datetime import datetime, timezone
from uuid import uuid4

import paho.mqtt.client as mqtt

client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id={user})
client.username_pw_set({user}, {password})
{tls}client.connect({host}, {port})
client.loop_start()
reading = {{
    "event_id": str(uuid4()),
    "tenant_id": {tenant},
    "device_id": {user},
    "event_type": "telemetry.reading",
    "ts": datetime.now(timezone.utc).isoformat(),
    "payload": {{"value": 26.4, "unit": "C"}},
}}
client.publish({topic}, json.dumps(reading), qos=1).wait_for_publish(10)
client.disconnect()
"""


def commands(issued: "Issued") -> str:
    """What to type on a device of its kind."""
    ways = {"node": node, "sensor": mosquitto_pub, "weigh-station": weigh_station}
    return ways.get(issued.device.kind, environment)(issued)


def node(issued: "Issued") -> str:
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


def weigh_station(issued: "Issued") -> str:
    return "\n".join(
        (
            environment(issued),
            # As `farmiq env` names it. A station elsewhere sets the edge's own name first.
            f'export EDGE_MEDIA_STORE_URL="${{EDGE_MEDIA_STORE_URL:-http://127.0.0.1:{_MEDIA_STORE_PORT}}}"',
            f'export WEIGHVISION_QUEUE_DIR="$PWD/{issued.device.device_id}/queue"',
            "farmiq run weighvision-agent",
        )
    )


def environment(issued: "Issued") -> str:
    return exports(_identity(issued) | {"STATION_ID": issued.device.device_id, "HTTP_TOKEN": issued.http_token})


def mosquitto_pub(issued: "Issued") -> str:
    device = issued.device
    words = ["mosquitto_pub", *_address(issued), "-i", device.device_id, "-u", device.device_id]
    words += ["-P", issued.mqtt_password, "-q", "1", "-t", _topic(issued)]
    return f"{shlex.join(words)} -m {_reading(issued)}"


def python(issued: "Issued") -> str:
    """One reading, with nothing of ours installed on the device."""
    device, broker = issued.device, issued.broker
    return _PYTHON.format(
        user=json.dumps(device.device_id),
        password=json.dumps(issued.mqtt_password),
        tls="client.tls_set()\n" if broker.is_tls else "",
        host=json.dumps(broker.host),
        port=broker.port,
        tenant=json.dumps(device.tenant_id),
        topic=json.dumps(_topic(issued)),
    )


def for_the_broker(issued: "Issued") -> str:
    """For whoever runs a broker that is not ours."""
    broker = issued.broker
    rules = "\n".join(f"  {line}" for line in issued.login.rule_lines)
    return (
        f"The broker {broker.host}:{broker.port} is not run by FarmIQ and does not know the device yet. For Mosquitto, add to "
        f"its password file:\n\n  {issued.login.password_line}\n\nand to its access file:\n\n{rules}\n\nthen reload it "
        "(SIGHUP). Devices need a listener with `use_username_as_clientid true`: without it one can take another's client id."
    )


def out_of_the_broker(host: str, port: int, device_id: str) -> str:
    return (
        f"The broker {host}:{port} is not run by FarmIQ: remove user {device_id} from its "
        "password file and its access file, and reload it (SIGHUP). That also ends the device's connection."
    )


def _topic(issued: "Issued") -> str:
    device = issued.device
    return f"iot/telemetry/{device.tenant_id}/{device.farm_id}/{device.barn_id}/{device.device_id}/{METRIC}"


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
    tls = ["--tls-use-os-certs"] if issued.broker.is_tls else []
    return ["-h", issued.broker.host, "-p", str(issued.broker.port), *tls]


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
