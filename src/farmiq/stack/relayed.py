"""Which links of a farm go through the relay, so that they can be cut and healed: `broker`, `edge-db` and `wan`.

Only what this farm runs itself on both sides. A server that the environment names is reached directly: its certificate may name
a host, and its link is not ours to cut."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit, urlunsplit

from farmiq.contracts.services import Service
from farmiq.stack.external import External
from farmiq.stack.home import Home
from farmiq.stack.relay.program import Relay
from farmiq.stack.relay.route import Link, RouteSpec

# The ports by their names in the home. Devices come in where the broker itself listened before there was a relay, so those that
# were added then come through it too.
BROKER_ENTRANCE, BROKER_BEHIND = "mosquitto", "mosquitto-devices"
EDGE_DATABASE = "relay-edge-db"
CLOUD_STORE = "relay-wan-object-store"
_WAN_SERVICES = ("cloud-ingestion", "cloud-media-store")


def wan(service_name: str) -> str:
    return f"relay-wan-{service_name}"


def relay_ports(external: External, services: Sequence[Service]) -> dict[str, int | None]:
    wanted: dict[str, int | None] = {}
    if not external.mqtt_url:
        wanted[BROKER_BEHIND] = None
    if external.needs_postgres and not external.edge_database_url:
        wanted[EDGE_DATABASE] = None
    names = [service.name for service in services if service.name in _WAN_SERVICES]
    wanted |= {wan(name): None for name in names}
    if "cloud-media-store" in names and not external.s3_endpoint:
        wanted[CLOUD_STORE] = None
    return wanted


def relay_of(home: Home, ports: Mapping[str, int]) -> Relay | None:
    """None when every link leads to somebody else's server."""
    candidates = {
        "broker": [(BROKER_ENTRANCE, BROKER_BEHIND)],
        "edge-db": [(EDGE_DATABASE, "postgres")],
        "wan": [*((wan(name), name) for name in _WAN_SERVICES), (CLOUD_STORE, "seaweedfs-s3")],
    }
    routes = []
    for name, ways in candidates.items():
        links = tuple(Link(ports[near], ports[far]) for near, far in ways if near in ports and far in ports)
        if links:
            routes.append(RouteSpec(name, links))
    return Relay(home.server_folder("relay"), home.relay_socket, tuple(routes)) if routes else None


def by_port(url: str, port: int | None) -> str:
    """The same address, reached through the relay. As it is when there is no way through it."""
    if port is None:
        return url
    parts = urlsplit(url)
    credentials, at, _ = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{credentials}{at}127.0.0.1:{port}"))
