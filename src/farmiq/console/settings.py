from typing import Annotated

from msgspec import Meta

from farmiq.contracts.services import SERVICES
from farmiq.kit.settings import HttpSettings, Id, Port, Positive, Secret

Url = Annotated[str, Meta(pattern=r"^https?://", description="an address that starts with http:// or https://")]


class ConsoleSettings(HttpSettings, frozen=True, kw_only=True):
    """A service whose address is not set is shown as not part of this console."""

    port: Port = 8080
    console_state_dir: Annotated[str, Meta(min_length=1, description="a folder that only the console uses")]
    console_tenants: tuple[Id, ...]
    """The tenants that are shown, with commas between them."""
    console_pages: bool = True
    """false: no pages and no logins, only the alerts with their webhook. For an edge box whose people look at another console."""
    console_password: Secret | None = None
    """Of the person `admin`, when the console starts for the first time. Not set: one is made and put into a file."""
    console_session_hours: Positive = 12
    """How long somebody stays logged in."""
    console_relay_socket: str | None = None
    """Where the relay of a local farm takes orders: its cuts are then shown on the page Health."""
    console_pulse_seconds: Annotated[float, Meta(ge=0.2, le=60)] = 1.0
    """How often the services are asked for what the pages show live."""
    edge_admin_token: Secret | None = None
    """The ADMIN_TOKEN of the edge's services."""
    cloud_admin_token: Secret | None = None
    """The ADMIN_TOKEN of the cloud's services."""
    edge_ingress_gateway_url: Url | None = None
    edge_telemetry_timeseries_url: Url | None = None
    edge_weighvision_session_url: Url | None = None
    edge_media_store_url: Url | None = None
    edge_vision_inference_url: Url | None = None
    edge_sync_forwarder_url: Url | None = None
    cloud_ingestion_url: Url | None = None
    cloud_telemetry_service_url: Url | None = None
    cloud_analytics_service_url: Url | None = None
    cloud_media_store_url: Url | None = None

    def addresses(self) -> dict[str, str]:
        """Of every service that this console is told of."""
        found = {service.name: getattr(self, service.url_variable.lower(), None) for service in SERVICES}
        return {name: url.rstrip("/") for name, url in found.items() if url}

    def tokens(self) -> dict[str, str | None]:
        """By tier."""
        return {"edge": self.edge_admin_token, "cloud": self.cloud_admin_token}
