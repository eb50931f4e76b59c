"""MQTT topics: reading one, writing one, and what the gateway subscribes to.

    iot/telemetry/{tenantId}/{farmId}/{barnId}/{deviceId}/{metric}      one reading
    iot/telemetry/{tenantId}/{farmId}/{barnId}/{deviceId}/batch         many samples of one node
    iot/event/{tenantId}/{farmId}/{barnId}/{deviceId}/{eventType}       generic events
    iot/weighvision/{tenantId}/{farmId}/{barnId}/{stationId}/session/{sessionId}/{eventType}
    iot/status/{tenantId}/{farmId}/{barnId}/{deviceId}                  retained, with a last will
    iot/{device_id}/ack                                                 edge to device

A topic object holds checked names, whether it was read or built: one that exists can be published to.
"""

import re
from typing import Final
from uuid import UUID

from msgspec import Struct

from farmiq.contracts.decoding import MalformedMessage
from farmiq.contracts.ids import UUID_PATTERN, InvalidId, check_device_id, check_event_type, check_id, check_metric

QOS: Final = 1

GATEWAY_FILTERS: Final = ("iot/telemetry/#", "iot/event/#", "iot/weighvision/#", "iot/status/#")
"""Wider than the topics themselves: a message on a topic with a level too few must reach the gateway and be refused
with a reason. With exact filters the broker would drop it and nobody would know."""

_UUID_RE: Final = re.compile(UUID_PATTERN)


class _Place(Struct, frozen=True, kw_only=True):
    tenant_id: str
    farm_id: str
    barn_id: str

    def __post_init__(self) -> None:
        check_id("tenant_id", self.tenant_id)
        check_id("farm_id", self.farm_id)
        check_id("barn_id", self.barn_id)

    @property
    def _barn_path(self) -> str:
        return f"{self.tenant_id}/{self.farm_id}/{self.barn_id}"


class _DevicePlace(_Place, frozen=True, kw_only=True):
    device_id: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_device_id(self.device_id)

    @property
    def _device_path(self) -> str:
        return f"{self._barn_path}/{self.device_id}"


class TelemetryTopic(_DevicePlace, frozen=True, kw_only=True):
    metric: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_metric(self.metric)

    @property
    def path(self) -> str:
        return f"iot/telemetry/{self._device_path}/{self.metric}"


class TelemetryBatchTopic(_DevicePlace, frozen=True, kw_only=True):
    @property
    def path(self) -> str:
        return f"iot/telemetry/{self._device_path}/batch"


class EventTopic(_DevicePlace, frozen=True, kw_only=True):
    event_type: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_event_type(self.event_type)

    @property
    def path(self) -> str:
        return f"iot/event/{self._device_path}/{self.event_type}"


class WeighvisionTopic(_Place, frozen=True, kw_only=True):
    """Which device weighs under this station's name, the register says: where it says nothing, they have one name."""

    station_id: str
    session_id: UUID
    event_type: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_device_id(self.station_id)
        check_event_type(self.event_type)

    @property
    def path(self) -> str:
        return f"iot/weighvision/{self._barn_path}/{self.station_id}/session/{self.session_id}/{self.event_type}"


class StatusTopic(_DevicePlace, frozen=True, kw_only=True):
    @property
    def path(self) -> str:
        return f"iot/status/{self._device_path}"


class AckTopic(Struct, frozen=True, kw_only=True):
    device_id: str

    def __post_init__(self) -> None:
        check_device_id(self.device_id)

    @property
    def path(self) -> str:
        return f"iot/{self.device_id}/ack"


Topic = TelemetryTopic | TelemetryBatchTopic | EventTopic | WeighvisionTopic | StatusTopic | AckTopic


def parse(topic: str) -> Topic:
    """The topic's parts, or `MalformedMessage` with code `bad_topic`."""
    try:
        found = _parse(topic.split("/"))
    except InvalidId as error:
        raise MalformedMessage("bad_topic", str(error)) from error
    if found is None:
        raise MalformedMessage("bad_topic", f"{topic[:200]!r} is not one of our topics")
    return found


def shared(group: str, filters: tuple[str, ...] = GATEWAY_FILTERS) -> tuple[str, ...]:
    """The same filters for several replicas, each message to one of them. Retained messages do not come this way."""
    check_id("group", group)
    return tuple(f"$share/{group}/{topic_filter}" for topic_filter in filters)


def _parse(levels: list[str]) -> Topic | None:
    match levels:
        case ["iot", device, "ack"]:
            return AckTopic(device_id=device)
        case ["iot", "weighvision", tenant, farm, barn, station, "session", session, event_type]:
            return WeighvisionTopic(
                tenant_id=tenant,
                farm_id=farm,
                barn_id=barn,
                station_id=station,
                session_id=_session_id(session),
                event_type=event_type,
            )
        case ["iot", kind, tenant, farm, barn, device, *last]:
            place = {"tenant_id": tenant, "farm_id": farm, "barn_id": barn, "device_id": device}
            return _parse_device_topic(kind, place, last)
        case _:
            return None


def _parse_device_topic(kind: str, place: dict[str, str], last: list[str]) -> Topic | None:
    match kind, last:
        case "telemetry", ["batch"]:
            return TelemetryBatchTopic(**place)
        case "telemetry", [metric]:
            return TelemetryTopic(**place, metric=metric)
        case "event", [event_type]:
            return EventTopic(**place, event_type=event_type)
        case "status", []:
            return StatusTopic(**place)
        case _:
            return None


def _session_id(text: str) -> UUID:
    # UUID() alone would also take braces, "urn:uuid:" and hyphens anywhere: one session would have many topics.
    if _UUID_RE.search(text) is None:
        raise InvalidId("session_id", text)
    return UUID(text)
