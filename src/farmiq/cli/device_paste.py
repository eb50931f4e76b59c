"""What is printed when a device gets its secrets: once, with the commands for that device ready to be pasted into a shell."""

from typing import TYPE_CHECKING, Any

from farmiq.edge.ingress_gateway.paste import commands, for_the_broker

if TYPE_CHECKING:
    from farmiq.edge.ingress_gateway.issuing import Issued

_WHERE = {
    "node": "On the node, in a folder that may grow, paste:",
    "weigh-station": "On the station, in a folder that may grow, paste (without a station file it is a simulated one):",
    "sensor": "A reading from any shell with mosquitto_rr (Debian package mosquitto-clients), kept until the edge has it:",
}


def as_data(issued: "Issued") -> dict[str, Any]:
    """The contract of `--json`. A broker that others run needs three entries more, which are for them."""
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
    if not issued.broker.is_kept:
        told["broker_password_line"] = issued.login.password_line
        told["broker_rule_lines"] = list(issued.login.rule_lines)
        told["broker_commands"] = list(issued.login.commands)
    return told


def as_text(issued: "Issued") -> str:
    device = issued.device
    place = f"{device.tenant_id}/{device.farm_id}/{device.barn_id}"
    rows = (("MQTT user", device.device_id), ("MQTT password", issued.mqtt_password), ("HTTP token", issued.http_token))
    parts = [
        f"{device.device_id} ({device.kind}) may speak from {place}. Its secrets are shown this once:",
        "\n".join(f"  {name:<13}  {value}" for name, value in rows),
    ]
    if not issued.broker.is_kept:
        parts.append(for_the_broker(issued))
    where = _WHERE.get(device.kind, "On the device, its environment:")
    parts += [where, commands(issued)]
    return "\n\n".join(parts)
