"""docs/reference/asyncapi.yaml: what travels over MQTT and RabbitMQ, from the contracts.

FarmIQ is the application that the document describes: it receives what devices send, and sends what consumers of the bus receive.
"""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import yaml  # type: ignore[import-untyped]  # PyYAML comes without types

from farmiq import __version__
from farmiq.contracts import bus, event_types, ids, topics
from farmiq.contracts.ack import DeviceAck
from farmiq.contracts.envelope import BUS_PAYLOADS, DEVICE_PAYLOADS, BusEnvelope, MqttEnvelope

HEAD = "# Made by tools/reference.py from src/farmiq/contracts. Change those, then run it again.\n"
REFERENCE = "#/components/schemas/{name}"

DESCRIPTION = """\
Messages of FarmIQ. Devices speak MQTT to the edge, services in the cloud speak AMQP to each other, and both carry JSON.

What a device sends counts as stored when it comes back on `iot/{deviceId}/ack`, and not when the broker acknowledges it.
What is published on the bus comes at least once; `(tenant_id, event_id)` is unique for ever.

Receivers skip names that they do not know. A field is only ever added, always optional.
"""

PLACE = ("tenantId", "farmId", "barnId")
PARAMETERS = {
    "tenantId": "Whose it is.",
    "farmId": "The farm.",
    "barnId": "The barn.",
    "deviceId": f"The device; its login at the broker has the same name. Not {', '.join(sorted(ids.RESERVED_DEVICE_IDS))}.",
    "stationId": "The device id of a weigh station.",
    "sessionId": "A UUID that the station makes, a new one for each session.",
    "metric": f"What was measured. Not {', '.join(sorted(ids.RESERVED_METRICS))}.",
    "eventType": "The same as `event_type` in the body.",
}
SESSION_TYPES = [name for name in DEVICE_PAYLOADS if name.startswith("weighvision.")]


def document() -> str:
    text: str = yaml.dump(content(), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return HEAD + text


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]  # as above
    """Repeats what is the same in two places, and writes paragraphs as they are."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def content() -> dict[str, Any]:
    channels, messages = _mqtt_channels() | _bus_channels(), _messages()
    return {
        "asyncapi": "3.1.0",
        "info": {
            "title": "FarmIQ",
            "version": __version__,
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": _servers(),
        "channels": channels,
        "operations": _operations(channels),
        "components": {
            "messages": messages,
            "schemas": _schemas(),
            "securitySchemes": {"password": {"type": "userPassword", "description": "User name and password."}},
        },
    }


def _servers() -> dict[str, Any]:
    security = [{"$ref": "#/components/securitySchemes/password"}]
    return {
        "edge": {
            "host": "{host}:{port}",
            "protocol": "mqtt",
            "protocolVersion": "3.1.1",
            "description": "The broker of an edge. `mqtts` with TLS. User name and client id are the device id.",
            "variables": {"host": {"default": "127.0.0.1"}, "port": {"default": "1883", "examples": ["1883", "8883"]}},
            "security": security,
        },
        "cloud": {
            "host": "{host}:{port}",
            "protocol": "amqp",
            "protocolVersion": "0.9.1",
            "description": "RabbitMQ of the cloud.",
            "variables": {"host": {"default": "127.0.0.1"}, "port": {"default": "5672"}},
            "security": security,
        },
    }


# --- Channels ------------------------------------------------------------------------------------------------------------------


def _mqtt_channels() -> dict[str, Any]:
    device = "/".join(f"{{{name}}}" for name in (*PLACE, "deviceId"))
    barn = "/".join(f"{{{name}}}" for name in PLACE)
    return {
        "reading": _mqtt(f"iot/telemetry/{device}/{{metric}}", "One reading.", [event_types.TELEMETRY_READING]),
        "batch": _mqtt(f"iot/telemetry/{device}/batch", "Many samples of one node.", [event_types.TELEMETRY_BATCH]),
        "event": _mqtt(
            f"iot/event/{device}/{{eventType}}",
            "Losses, pictures without a session, and events of your own: any type whose first word is not one of ours.",
            [event_types.TELEMETRY_LOSS, event_types.IMAGE_CAPTURED],
            also=["device.own"],
        ),
        "session": _mqtt(
            f"iot/weighvision/{barn}/{{stationId}}/session/{{sessionId}}/{{eventType}}",
            "What a weigh station says about one session.",
            SESSION_TYPES,
        ),
        "status": _mqtt(
            f"iot/status/{device}", "Retained. The last will of a device says offline.", [event_types.DEVICE_STATUS]
        ),
        "ack": _mqtt("iot/{deviceId}/ack", "What the edge has in its database.", [], also=["edge.ack"]),
    }


def _mqtt(address: str, description: str, types: Iterable[str], also: Iterable[str] = ()) -> dict[str, Any]:
    names = [*(f"device.{name}" for name in types), *also]
    return {
        "address": address,
        "description": description,
        "servers": [{"$ref": "#/servers/edge"}],
        "parameters": {name: {"description": text} for name, text in PARAMETERS.items() if f"{{{name}}}" in address},
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in names},
    }


def _bus_channels() -> dict[str, Any]:
    """One for each exchange; the routing key is the event type."""
    return {exchange: _exchange(exchange) for exchange in bus.EXCHANGES}


def _exchange(exchange: str) -> dict[str, Any]:
    types = [name for name in BUS_PAYLOADS if bus.exchange_for(name) == exchange]
    names = [f"bus.{name}" for name in types] or ["bus.other"]
    parameter: dict[str, Any] = {"description": "The routing key: the event type."}
    return {
        "address": "{eventType}",
        "description": _readers(exchange),
        "servers": [{"$ref": "#/servers/cloud"}],
        "parameters": {"eventType": parameter | ({"enum": types} if types else {})},
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in names},
        "bindings": {
            "amqp": {
                "is": "routingKey",
                "exchange": {"name": exchange, "type": "topic", "durable": True, "autoDelete": False, "vhost": "/"},
                "bindingVersion": "0.3.0",
            }
        },
    }


def _readers(exchange: str) -> str:
    queues: dict[str, list[str]] = {}
    for binding in bus.BINDINGS:
        if binding.exchange == exchange:
            queues.setdefault(binding.queue, []).append(f"`{binding.routing_key}`")
    return " ".join(f"`{queue}` gets {', '.join(keys)}." for queue, keys in queues.items())


def _operations(channels: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for name, channel in channels.items():
        is_sent = name == "ack" or name in bus.EXCHANGES
        operation: dict[str, Any] = {
            "action": "send" if is_sent else "receive",
            "channel": {"$ref": f"#/channels/{name}"},
            "messages": [{"$ref": f"#/channels/{name}/messages/{message}"} for message in channel["messages"]],
        }
        if name not in bus.EXCHANGES:
            binding = {"qos": topics.QOS, "bindingVersion": "0.2.0"}
            operation["bindings"] = {"mqtt": binding | ({"retain": True} if name == "status" else {})}
        found[f"{'send' if is_sent else 'receive'}.{name}"] = operation
    return found


# --- Messages and their schemas ------------------------------------------------------------------------------------------------


def _messages() -> dict[str, Any]:
    device = {f"device.{name}": _enveloped("MqttEnvelope", name, kind) for name, kind in DEVICE_PAYLOADS.items()}
    carried = {f"bus.{name}": _enveloped("BusEnvelope", name, kind) for name, kind in BUS_PAYLOADS.items()}
    for message in carried.values():
        message["headers"] = {"$ref": REFERENCE.format(name="BusHeaders")}
    return {
        **device,
        "device.own": _message("An event of your own", {"$ref": REFERENCE.format(name="MqttEnvelope")}),
        "edge.ack": _message("Acknowledgement", {"$ref": REFERENCE.format(name="DeviceAck")}),
        **carried,
        "bus.other": _message("An event of your own", {"$ref": REFERENCE.format(name="BusEnvelope")})
        | {"headers": {"$ref": REFERENCE.format(name="BusHeaders")}},
    }


def _enveloped(envelope: str, event_type: str, kind: type[msgspec.Struct]) -> dict[str, Any]:
    payload = {"$ref": REFERENCE.format(name=kind.__name__)}
    properties = {"event_type": {"const": event_type}, "payload": payload}
    return _message(event_type, {"allOf": [{"$ref": REFERENCE.format(name=envelope)}, {"properties": properties}]})


def _message(name: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "title": name, "contentType": "application/json", "payload": payload}


def _schemas() -> dict[str, Any]:
    kinds = [MqttEnvelope, BusEnvelope, DeviceAck, *DEVICE_PAYLOADS.values(), *BUS_PAYLOADS.values()]
    _, found = msgspec.json.schema_components(dict.fromkeys(kinds), ref_template=REFERENCE)
    headers = {
        "type": "object",
        "description": "AMQP headers. `message_id` is the event id.",
        "properties": {
            "x-trace-id": {"type": "string", "description": "The trace id of the envelope."},
            bus.EDGE_HEADER: {
                "type": "string",
                "description": "Which edge sent it. Absent on what the cloud publishes.",
            },
            bus.EXPANDED_HEADER: {"type": "string", "description": "On one sample of a pack: the pack's event id."},
        },
    }
    schemas = {name: _draft_7(schema) for name, schema in sorted(found.items())}
    for envelope in ("MqttEnvelope", "BusEnvelope"):
        schemas[envelope]["properties"]["payload"] = {"type": "object"}
    return schemas | {"BusHeaders": headers}


def _draft_7(schema: Any) -> Any:
    """AsyncAPI speaks JSON Schema draft 7, where the items of a tuple have another name."""
    if isinstance(schema, dict):
        made = {name: _draft_7(part) for name, part in schema.items()}
        if isinstance(made.get("description"), str):
            made["description"] = inspect.cleandoc(made["description"])
        if "prefixItems" in made:
            made["items"] = made.pop("prefixItems")
        return made
    return [_draft_7(part) for part in schema] if isinstance(schema, list) else schema
