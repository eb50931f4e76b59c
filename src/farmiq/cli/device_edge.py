"""Which edge a device belongs to: its database, and the broker that the device logs in to."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from farmiq.cli.errors import BadSetting, BadUsage, NotRunning
from farmiq.stack import demo_farm
from farmiq.stack.device_logins import BrokerOfHome
from farmiq.timeseries.stream import Origin


@dataclass(frozen=True)
class ForeignBroker:
    """One that FarmIQ does not run, and whose users somebody else keeps."""

    host: str
    port: int
    is_tls: bool


@dataclass(frozen=True)
class Edge:
    database_url: str = field(repr=False)
    broker: BrokerOfHome | ForeignBroker
    # Where the services of this edge are, and the token for asking them.
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_of_a_home(self) -> bool:
        return isinstance(self.broker, BrokerOfHome)


def find_edge(environ: Mapping[str, str] = os.environ) -> Edge:
    """What was asked for by name wins over what happens to run here."""
    from farmiq.kit.settings import Secret, Settings, load

    class Given(Settings, frozen=True, kw_only=True):
        database_url: Secret = ""
        mqtt_url: Secret = ""

    given = load(Given, environ)
    if not given.database_url or (not given.mqtt_url and _is_database_of_home(given.database_url, environ)):
        return _edge_of_home(environ)
    if not given.mqtt_url:
        raise BadSetting(
            "which broker?",
            why="DATABASE_URL names an edge database, and nothing names the broker that its devices log in to.",
            fix="set MQTT_URL=mqtt://host:1883 too, or unset DATABASE_URL to use the farm that runs here",
        )
    return Edge(given.database_url, _foreign(given.mqtt_url), environ)


def origin_of(edge: Edge, device_id: str, tenant: str | None, farm: str | None, barn: str | None) -> Origin:
    """A farm that runs here has a place for devices; anywhere else it has to be said."""
    given = {"--tenant": tenant, "--farm": farm, "--barn": barn}
    missing = [name for name, value in given.items() if value is None]
    if missing and not edge.is_of_a_home:
        raise BadUsage(
            f"{' and '.join(missing)} must be given",
            why="Only a farm that was started with `farmiq up` has a place of its own for new devices.",
            fix=f"farmiq device add {device_id} --tenant TENANT --farm FARM --barn BARN",
        )
    return Origin(tenant or demo_farm.TENANT_ID, farm or demo_farm.FARM_ID, barn or demo_farm.BARN_ID, device_id)


def _is_database_of_home(database_url: str, environ: Mapping[str, str]) -> bool:
    """The farm that runs here was started with this DATABASE_URL, which is still in the environment of the shell."""
    from farmiq.cli.running import is_running, this_home
    from farmiq.stack.control import environment, read_state
    from farmiq.stack.external import tier_database_url

    home = this_home(environ)
    if not is_running(read_state(home)):
        return False
    return environment(home).get("EDGE_DATABASE_URL") in (database_url, tier_database_url(database_url, "edge"))


def _edge_of_home(environ: Mapping[str, str]) -> Edge:
    from farmiq.cli.running import is_running, this_home
    from farmiq.stack.control import environment, read_state

    home = this_home(environ)
    state = read_state(home)
    if not is_running(state):
        raise NotRunning(
            f"no farm runs in {home.path}",
            why="Devices are kept in the edge's database, and DATABASE_URL does not name another one.",
            fix="farmiq up",
        )
    known = environment(home)
    broker = next((child for child in state.children if child.name == "mosquitto"), None)
    services_port = urlsplit(known.get("MQTT_URL", "")).port
    if broker is None or broker.port is None or services_port is None:
        return Edge(known["EDGE_DATABASE_URL"], _foreign(known["MQTT_URL"]), known)
    entrance = urlsplit(known.get("MQTT_DEVICE_URL", "")).port
    return Edge(known["EDGE_DATABASE_URL"], BrokerOfHome(home, broker.port, services_port, entrance), known)


def _foreign(mqtt_url: str) -> ForeignBroker:
    from farmiq.kit.mqtt import parse_url

    address = parse_url(mqtt_url)
    return ForeignBroker(address.host, address.port, address.is_tls)
