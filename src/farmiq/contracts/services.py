"""The services that exist. Their names are contract: queues, units, metrics, log fields and folders use them."""

from typing import Final, Literal

from msgspec import Struct

Tier = Literal["device", "edge", "cloud", "people"]


class Service(Struct, frozen=True):
    name: str
    tier: Tier
    port: int | None = None

    @property
    def module(self) -> str:
        """Where `farmiq run` finds it: the tier's folder does not repeat the tier's name."""
        folder = self.name.removeprefix(f"{self.tier}-").replace("-", "_")
        return f"farmiq.{folder}.main" if self.tier == "people" else f"farmiq.{self.tier}.{folder}.main"

    @property
    def url_variable(self) -> str:
        return f"{self.name.replace('-', '_').upper()}_URL"


SERVICES: Final = (
    Service("node-agent", "device"),
    Service("node-forwarder", "device"),
    Service("weighvision-agent", "device"),
    Service("edge-ingress-gateway", "edge", 5103),
    Service("edge-telemetry-timeseries", "edge", 5104),
    Service("edge-weighvision-session", "edge", 5105),
    Service("edge-media-store", "edge", 5106),
    Service("edge-vision-inference", "edge", 5107),
    Service("edge-sync-forwarder", "edge", 5108),
    Service("cloud-ingestion", "cloud", 5201),
    Service("cloud-telemetry-service", "cloud", 5202),
    Service("cloud-analytics-service", "cloud", 5203),
    Service("cloud-media-store", "cloud", 5204),
    Service("console", "people", 8080),
)
"""What `farmiq run` knows, and what the local farm runs."""


class UnknownService(Exception):
    """There is no service of that name."""

    def __init__(self, name: str) -> None:
        known = ", ".join(service.name for service in SERVICES)
        super().__init__(f"there is no service {name[:80]!r}; there are {known}")


def service_named(name: str) -> Service:
    for service in SERVICES:
        if service.name == name:
            return service
    raise UnknownService(name)
