"""What one stack consists of, decided before anything is started."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from farmiq.contracts.services import Service, Tier
from farmiq.stack import demo_farm
from farmiq.stack.children import Child
from farmiq.stack.external import External, read_external
from farmiq.stack.home import Home
from farmiq.stack.ports import choose_ports
from farmiq.stack.relay.program import Relay
from farmiq.stack.relayed import relay_of, relay_ports
from farmiq.stack.secrets import Secrets, load_or_create
from farmiq.stack.servers import Servers, Urls, embedded_servers, server_ports, server_urls
from farmiq.stack.services import OurService, service_variables

# What a service of a tier can't do anything without. The neighbouring tier may be away.
_NEEDS: Mapping[Tier, tuple[str, ...]] = {
    "device": ("relay",),
    "edge": ("postgres", "mosquitto", "relay"),
    "cloud": ("postgres", "rabbitmq"),
    "people": (),
}


@dataclass(frozen=True)
class Plan:
    home: Home
    external: External
    secrets: Secrets
    servers: Servers
    urls: Urls
    relay: Relay | None
    services: tuple[OurService, ...]

    def children(self) -> list[Child]:
        """In the order in which they are started. They are stopped the other way round."""
        ours = [
            Child(service, "service", port=service.port, url=service.url, needs=_NEEDS[service.service.tier])
            for service in self.services
        ]
        return self.servers.children() + self._relay_child() + ours

    def outside(self) -> list[Path]:
        sockets = self.home.forwarder_socket(demo_farm.DEVICE_ID).parent
        strays = [] if sockets.is_relative_to(self.home.path) else [sockets]
        return strays + [path for child in self.children() for path in child.program.outside()]

    def _relay_child(self) -> list[Child]:
        if self.relay is None:
            return []
        url = f"mqtt://127.0.0.1:{self.relay.port}" if self.servers.mosquitto else None
        return [Child(self.relay, "server", port=self.relay.port, url=url)]

    def environment(self) -> dict[str, str]:
        """What `farmiq env` prints."""
        urls = {service.service.url_variable: service.url for service in self.services if service.url}
        return {
            "EDGE_DATABASE_URL": self.urls.edge_database,
            "CLOUD_DATABASE_URL": self.urls.cloud_database,
            "MQTT_URL": self.urls.mqtt_operator,
            "MQTT_DEVICE_URL": self.urls.mqtt_entrance,
            "AMQP_URL": self.urls.amqp,
            **self.urls.s3_edge.variables(),
            **{f"CLOUD_{name}": value for name, value in self.urls.s3_cloud.variables().items()},
            "ADMIN_TOKEN": self.secrets.admin_token,
            "CONSOLE_PASSWORD": self.secrets.console_password,
        } | urls


def make_plan(home: Home, environ: Mapping[str, str], services: Sequence[Service]) -> Plan:
    """Chooses ports and makes credentials, and remembers both in the home. Call it while nothing of this stack runs."""
    external = read_external(environ)
    secrets = load_or_create(home.secrets_file)
    documented = {service.name: service.port for service in services if service.port is not None}
    ports = choose_ports(home.ports_file, server_ports(external) | relay_ports(external, services) | documented)
    servers = embedded_servers(home, external, ports, secrets)
    urls = server_urls(servers, external, secrets)
    variables = service_variables(home, urls, secrets, ports)
    ours = tuple(OurService(service, ports.get(service.name), variables[service.name]) for service in services)
    return Plan(home, external, secrets, servers, urls, relay_of(home, ports), ours)
