"""What is shown when a device gets its secrets: once, with everything for that device ready to be pasted."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from farmiq.contracts.services import service_named
from farmiq.edge.ingress_gateway.broker_logins import removal_commands
from farmiq.kit.shell import exports

if TYPE_CHECKING:
    from farmiq.edge.ingress_gateway.issuing import Issued

_MEDIA_STORE_PORT: Final = service_named("edge-media-store").port
METRIC: Final = "temperature"

_PYTHON: Final = """\
# pip install paho-mqtt
import json
import os
import queue
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from uuid import uuid4

import paho.mqtt.client as mqtt

# A reading stays in this folder until the edge has acknowledged it. Each run sends all that is there.
unsent = Path({folder})
unsent.mkdir(mode=0o700, parents=True, exist_ok=True)
event_id = str(uuid4())
reading = {{
    "event_id": event_id,
    "tenant_id": {tenant},
    "device_id": {user},
    "event_type": "telemetry.reading",
    "ts": datetime.now(timezone.utc).isoformat(),
    "payload": {{"value": 26.4, "unit": "C"}},
}}
with open(unsent / f"{{event_id}}.tmp", "w") as file:
    file.write(json.dumps(reading))
    file.flush()
    os.fsync(file.fileno())
os.replace(unsent / f"{{event_id}}.tmp", unsent / f"{{event_id}}.json")
waiting = {{path.stem: path for path in unsent.glob("*.json")}}
acks = queue.Queue()


def publish(client, *_):
    for path in list(waiting.values()):
        client.publish({topic}, path.read_text(), qos=1)


client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id={user})
client.username_pw_set({user}, {password})
{tls}client.on_connect = lambda *_: client.subscribe({ack_topic}, qos=1)
client.on_subscribe = publish
client.on_message = lambda _client, _data, message: acks.put(json.loads(message.payload))
client.connect({host}, {port})
client.loop_start()
rejected = []
deadline = time.monotonic() + 10
while waiting and time.monotonic() < deadline:
    try:
        ack = acks.get(timeout=0.1)
    except queue.Empty:
        continue
    for event in ack["events"]:
        path = waiting.pop(event["event_id"], None)
        if path is not None:
            path.unlink()
            rejected += [event] if event["result"] == "rejected" else []
client.disconnect()
client.loop_stop()
if waiting:
    sys.exit(f"not acknowledged: {{len(waiting)}} readings are kept in {{unsent}} and sent by the next run")
if rejected:
    sys.exit(f"rejected by the edge: {{rejected}}")
"""

# One process: a second connection with the same login would end the first. mosquitto_rr reads its options from a file, so
# that no command line shows the password, and ends with the first message on the response topic. With -f and -s it publishes
# an empty message or one that is never acknowledged (2.0.11), so the reading is an argument.
_SHELL: Final = """\
(umask 077; mkdir -p {folder}/unsent
cat > {folder}/mosquitto_rr << 'END'
{options}
END
cat > {folder}/send << 'END'
#!/bin/sh
# Usage: send [VALUE]. Sends the value and all readings that the edge has not acknowledged yet.
cd "$(dirname "$0")" || exit 1
if [ $# -gt 0 ]; then
    id=$(cat /proc/sys/kernel/random/uuid)
    printf '{reading}\\n' "$id" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$1" > "unsent/$id.tmp" || exit 1
    sync "unsent/$id.tmp" && mv "unsent/$id.tmp" "unsent/$id.json" || exit 1
fi
failed=0
for file in unsent/*.json; do
    [ -e "$file" ] || continue
    id=$(basename "$file" .json)
    answer=$(XDG_CONFIG_HOME=. mosquitto_rr -t {topic} -e {ack_topic} -m "$(cat "$file")" | tr -d ' ')
    case $answer in
        *"\\"$id\\",\\"result\\":\\"stored\\""* | *"\\"$id\\",\\"result\\":\\"duplicate\\""*) rm "$file" ;;
        *"\\"$id\\",\\"result\\":\\"rejected\\""*) echo "rejected by the edge: $answer" >&2; rm "$file"; failed=1 ;;
        *) echo "not acknowledged: $id is kept in unsent and sent by the next run" >&2; failed=1 ;;
    esac
done
exit $failed
END
)
sh {folder}/send 26.4
"""


def commands(issued: "Issued") -> str:
    """What to type on a device of its kind."""
    ways = {"node": node, "sensor": shell, "weigh-station": weigh_station}
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
    return exports(_identity(issued) | {"STATION_ID": issued.device.station, "HTTP_TOKEN": issued.http_token})


def shell(issued: "Issued") -> str:
    """A script in a folder of its own, which keeps a reading until the edge has acknowledged it, and its first run."""
    device, broker = issued.device, issued.broker
    options = [f"-h {broker.host}", f"-p {broker.port}", f"-i {device.device_id}", f"-u {device.device_id}"]
    options += [f"-P {issued.mqtt_password}", "-q 1", "-V mqttv311", "-W 10"]
    options += ["--tls-use-os-certs"] if broker.is_tls else []
    reading: dict[str, object] = {"event_id": "%s", "tenant_id": device.tenant_id, "device_id": device.device_id}
    reading |= {"event_type": "telemetry.reading", "ts": "%s", "payload": {"value": "%s", "unit": "C"}}
    return _SHELL.format(
        folder=device.device_id,
        options="\n".join(options),
        reading=json.dumps(reading).replace('"value": "%s"', '"value": %s'),
        topic=_topic(issued),
        ack_topic=f"iot/{device.device_id}/ack",
    )


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
        ack_topic=json.dumps(f"iot/{device.device_id}/ack"),
        folder=json.dumps(f"{device.device_id}/unsent"),
    )


def for_the_broker(issued: "Issued") -> str:
    """For whoever runs a broker that is not ours."""
    broker = issued.broker
    rules, commands = (_indented(lines) for lines in (issued.login.rule_lines, issued.login.commands))
    return (
        f"The broker {broker.host}:{broker.port} is not run by FarmIQ and does not know the device yet. For Mosquitto with its "
        "dynamic-security plugin, with the options -h, -p, -u and -P of its administrator in ~/.config/mosquitto_ctrl, one a "
        "line (createClient prompts for the device's password; of a new device the first two say that they did not find it):"
        f"\n\n{commands}\n\n"
        f"For Mosquitto without it, add to its password file:\n\n  {issued.login.password_line}\n\nand to its access file:"
        f"\n\n{rules}\n\nthen reload it (SIGHUP). An access file can't deny subscriptions, so there any device can join "
        "`$share/edge-ingress-gateway` and take messages from the gateway. Either way devices need a listener with "
        "`use_username_as_clientid true`: without it one can take another's client id."
    )


def out_of_the_broker(host: str, port: int, device_id: str) -> str:
    commands = _indented(removal_commands(device_id))
    return (
        f"The broker {host}:{port} is not run by FarmIQ. With the dynamic-security plugin:\n\n{commands}\n\n"
        f"Without it: remove user {device_id} from its password file and its access file, and reload it (SIGHUP). "
        "Either way that ends the device's connection."
    )


def _indented(lines: Iterable[str]) -> str:
    return "\n".join(f"  {line}" for line in lines)


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
