"""Our own services as supervised programs, each with exactly the variables that it reads."""

import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from farmiq.contracts.services import SERVICES, Service
from farmiq.kit.clock import Clock
from farmiq.stack import demo_farm
from farmiq.stack.errors import StackError
from farmiq.stack.home import Home
from farmiq.stack.relayed import CLOUD_STORE, EDGE_DATABASE, by_port, wan
from farmiq.stack.secrets import Secrets
from farmiq.stack.servers import Urls
from farmiq.stack.socket_folder import make_socket_folder
from farmiq.stack.station import station_variables, write_station_file

# Longer than a service's own drain, which ends by itself.
_STOP_SECONDS = 25.0
_ANSWER_CHARS_MAX = 300

# Variables of the shell that choose servers for the stack. The services get the stack's answer under the same names.
_DECIDED_BY_THE_STACK = frozenset(
    {
        "DATABASE_URL", "EDGE_DATABASE_URL", "CLOUD_DATABASE_URL", "MQTT_URL", "AMQP_URL",
        "S3_ENDPOINT", "S3_ACCESS_KEY", "S3_SECRET_KEY", "MEDIA_BUCKET", "CLOUD_MEDIA_BUCKET", "PORT", "HOST",
    }
)  # fmt: skip

Variables = Mapping[str, str]


class NotReady(StackError):
    """The service answers, and says itself that it can't do its work."""


@dataclass(frozen=True)
class OurService:
    service: Service
    port: int | None
    variables: Variables

    stop_signal = signal.SIGTERM
    stop_seconds = _STOP_SECONDS

    @property
    def name(self) -> str:
        return self.service.name

    @property
    def url(self) -> str | None:
        return None if self.port is None else f"http://127.0.0.1:{self.port}"

    def prepare(self) -> None:
        if socket := self.variables.get("NODE_FORWARDER_SOCKET"):
            make_socket_folder(Path(socket).parent, {os.geteuid()})
        if station := self.variables.get("WEIGHVISION_STATION"):
            write_station_file(Path(station), Clock().now().date())

    def command(self) -> list[str]:
        return [sys.executable, "-P", "-m", "farmiq.cli", "run", self.name]

    def environment(self) -> dict[str, str]:
        # What the shell sets for a service (LOG_LEVEL, SYNC_INTERVAL_MS, SSL_CERT_FILE...) reaches it.
        inherited = {name: value for name, value in os.environ.items() if name not in _DECIDED_BY_THE_STACK}
        own = {} if self.port is None else {"PORT": str(self.port), "HOST": "127.0.0.1"}
        return inherited | own | dict(self.variables)

    async def probe(self) -> None:
        """A service without a port is healthy for as long as it runs."""
        if self.url is None:
            return
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session,
            session.get(f"{self.url}/api/ready") as answer,
        ):
            if answer.status != 200:
                text = await answer.text(errors="replace")
                raise NotReady(f"GET /api/ready gave {answer.status}: {text[:_ANSWER_CHARS_MAX]}")

    def outside(self) -> list[Path]:
        return []


def service_variables(home: Home, urls: Urls, secrets: Secrets, ports: Mapping[str, int]) -> dict[str, Variables]:
    """Each service with the variables that it reads. No service gets the credential of another."""
    admin = {"ADMIN_TOKEN": secrets.admin_token}
    edge = admin | {"DATABASE_URL": by_port(urls.edge_database, ports.get(EDGE_DATABASE))}
    cloud = admin | {"DATABASE_URL": urls.cloud_database, "AMQP_URL": urls.amqp}
    node = _node_variables(home)
    return {
        "node-agent": node,
        "node-forwarder": node
        | {"NODE_FORWARDER_SPOOL_DIR": str(home.spool_folder(demo_farm.DEVICE_ID)), "MQTT_URL": urls.mqtt_device},
        "weighvision-agent": station_variables(home, secrets)
        | {
            "MQTT_URL": urls.mqtt_station,
            "EDGE_MEDIA_STORE_URL": f"http://127.0.0.1:{ports.get('edge-media-store')}",
        },
        "edge-ingress-gateway": edge | _gateway_urls(urls) | _register_variables(urls, ports),
        "edge-telemetry-timeseries": edge,
        "edge-weighvision-session": edge,
        "edge-media-store": edge | urls.s3_edge.variables(),
        "edge-vision-inference": edge | urls.s3_edge.variables(),
        "edge-sync-forwarder": edge
        | urls.s3_edge.variables()
        | {
            "CLOUD_INGESTION_URL": f"http://127.0.0.1:{ports.get(wan('cloud-ingestion'))}/api/v1/edge/batch",
            "CLOUD_INGESTION_TOKEN": secrets.edge_token,
            "CLOUD_MEDIA_URL": f"http://127.0.0.1:{ports.get(wan('cloud-media-store'))}",
            "EDGE_CLUSTER_ID": demo_farm.EDGE_CLUSTER_ID,
            "EDGE_DATA_DIR": str(home.path),
            "INTERNAL_ADMIN_ENABLED": "true",
        },
        "cloud-ingestion": cloud,
        "cloud-telemetry-service": cloud,
        "cloud-analytics-service": cloud,
        "cloud-media-store": cloud
        | urls.s3_cloud.variables()
        # Whoever is given a URL comes from outside the cloud, the edge first of all.
        | {"S3_PUBLIC_ENDPOINT": by_port(urls.s3_cloud.endpoint, ports.get(CLOUD_STORE))},
        "console": _console_variables(home, secrets, ports),
    }


def _console_variables(home: Home, secrets: Secrets, ports: Mapping[str, int]) -> dict[str, str]:
    addresses = {
        service.url_variable: f"http://127.0.0.1:{ports[service.name]}"
        for service in SERVICES
        if service.tier in {"edge", "cloud"} and service.name in ports
    }
    return addresses | {
        "CONSOLE_STATE_DIR": str(home.server_folder("console")),
        "CONSOLE_RELAY_SOCKET": str(home.relay_socket),
        "ALERT_DISKS": ",".join(str(home.server_folder(name)) for name in ("postgres", "seaweedfs")),
        "CONSOLE_TENANTS": demo_farm.TENANT_ID,
        "CONSOLE_PASSWORD": secrets.console_password,
        "EDGE_ADMIN_TOKEN": secrets.admin_token,
        "CLOUD_ADMIN_TOKEN": secrets.admin_token,
    }


def _gateway_urls(urls: Urls) -> dict[str, str]:
    """For a broker that is not ours, MQTT_CANARY_URL comes from the shell of `farmiq up`, if anybody made that login."""
    own = {} if urls.mqtt_canary is None else {"MQTT_CANARY_URL": urls.mqtt_canary}
    return {"MQTT_URL": urls.mqtt_gateway} | own


def _register_variables(urls: Urls, ports: Mapping[str, int]) -> dict[str, str]:
    """What whoever adds a device on the page is told. A broker that is not ours is not kept by us either."""
    devices_url = urlsplit(urls.mqtt_device)
    return {
        "MQTT_DEVICE_URL": f"{devices_url.scheme}://{devices_url.hostname}:{devices_url.port or 1883}",
        "BROKER_LOGINS_KEPT": "true" if "mosquitto" in ports else "false",
        "FIXED_DEVICES": f"{demo_farm.DEVICE_ID},{demo_farm.STATION_ID}",
    }


def _node_variables(home: Home) -> dict[str, str]:
    return {
        "TENANT_ID": demo_farm.TENANT_ID,
        "FARM_ID": demo_farm.FARM_ID,
        "BARN_ID": demo_farm.BARN_ID,
        "DEVICE_ID": demo_farm.DEVICE_ID,
        "NODE_FORWARDER_SOCKET": str(home.forwarder_socket(demo_farm.DEVICE_ID)),
    }
