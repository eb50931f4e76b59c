"""Which servers are ours and which ones the environment names, where they listen, and how to log in to each."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from farmiq.edge.ingress_gateway import canary
from farmiq.edge.ingress_gateway.broker_logins import device_rights
from farmiq.stack import demo_farm
from farmiq.stack.children import Child
from farmiq.stack.external import External, tier_database_url
from farmiq.stack.home import Home
from farmiq.stack.mosquitto import Mosquitto
from farmiq.stack.mosquitto_users import MqttUser, gateway_rights, operator_rights
from farmiq.stack.postgres import Postgres
from farmiq.stack.rabbitmq import Epmd, RabbitMq
from farmiq.stack.relayed import BROKER_BEHIND, BROKER_ENTRANCE
from farmiq.stack.seaweedfs import PORTS as SEAWEEDFS_PORTS
from farmiq.stack.seaweedfs import S3Identity, SeaweedFs
from farmiq.stack.secrets import Secrets

GATEWAY_USER = "edge-ingress-gateway"
OPERATOR_USER = "operator"


@dataclass(frozen=True)
class Servers:
    """The embedded ones. None where the environment names another."""

    postgres: Postgres | None
    mosquitto: Mosquitto | None
    epmd: Epmd | None
    rabbitmq: RabbitMq | None
    seaweedfs: SeaweedFs | None

    def children(self) -> list[Child]:
        found: list[Child] = []
        if self.postgres:
            found.append(_server(self.postgres, "postgresql"))
        if self.mosquitto:
            found.append(_server(self.mosquitto, "mqtt"))
        if self.epmd and self.rabbitmq:
            found += [_server(self.epmd, None), _server(self.rabbitmq, "amqp", needs=("epmd",))]
        if self.seaweedfs:
            found.append(_server(self.seaweedfs, "http"))
        return found


@dataclass(frozen=True)
class S3Account:
    """One tier's way to its pictures. Ours may touch only its own bucket; in a store from outside both have the same keys."""

    endpoint: str
    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    bucket: str

    def variables(self) -> dict[str, str]:
        return {
            "S3_ENDPOINT": self.endpoint,
            "S3_ACCESS_KEY": self.access_key,
            "S3_SECRET_KEY": self.secret_key,
            "MEDIA_BUCKET": self.bucket,
        }


@dataclass(frozen=True)
class Urls:
    """Where everything is, with credentials, whoever runs it."""

    edge_database: str
    cloud_database: str
    mqtt_gateway: str
    # None for a broker that is not ours: nobody made the login there that it needs.
    mqtt_canary: str | None
    mqtt_device: str
    mqtt_station: str
    mqtt_operator: str
    # Where devices log in, each with its own credential.
    mqtt_entrance: str
    amqp: str
    s3_edge: S3Account
    s3_cloud: S3Account


def server_ports(external: External) -> dict[str, int | None]:
    """Every port that the embedded servers need, with the standard one where clients would look for it."""
    wanted: dict[str, int | None] = {}
    if external.needs_postgres:
        wanted["postgres"] = 5432
    if not external.mqtt_url:
        wanted |= {"mosquitto": 1883, "mosquitto-services": None}
    if not external.amqp_url:
        wanted |= {"rabbitmq": 5672, "rabbitmq-distribution": None, "epmd": None}
    if not external.s3_endpoint:
        wanted |= {f"seaweedfs-{part}": 8333 if part == "s3" else None for part in SEAWEEDFS_PORTS}
    return wanted


def embedded_servers(home: Home, external: External, ports: Mapping[str, int], secrets: Secrets) -> Servers:
    postgres = mosquitto = epmd = rabbitmq = seaweedfs = None
    if external.needs_postgres:
        postgres = Postgres(home.server_folder("postgres"), ports["postgres"], secrets.postgres_superuser)
    if not external.mqtt_url:
        mosquitto = Mosquitto(
            home.server_folder("mosquitto"),
            ports.get(BROKER_BEHIND, ports[BROKER_ENTRANCE]),
            secrets.mqtt_keeper,
            mqtt_users(secrets),
            ports["mosquitto-services"],
            entrance_port=ports[BROKER_ENTRANCE],
            is_log_read=True,
        )
    if not external.amqp_url:
        epmd = Epmd(ports["epmd"])
        rabbitmq = RabbitMq(
            home.server_folder("rabbitmq"),
            ports["rabbitmq"],
            ports["rabbitmq-distribution"],
            ports["epmd"],
            secrets.rabbitmq,
            secrets.rabbitmq_cookie,
        )
    if not external.s3_endpoint:
        seaweedfs = SeaweedFs(
            home.server_folder("seaweedfs"),
            {part: ports[f"seaweedfs-{part}"] for part in SEAWEEDFS_PORTS},
            s3_identities(secrets, external),
            secrets.s3_internal_key,
        )
    return Servers(postgres, mosquitto, epmd, rabbitmq, seaweedfs)


def server_urls(servers: Servers, external: External, secrets: Secrets) -> Urls:
    mqtt = servers.mosquitto
    return Urls(
        edge_database=external.edge_database_url or _database_url(servers, external, "edge", secrets.postgres_edge),
        cloud_database=external.cloud_database_url or _database_url(servers, external, "cloud", secrets.postgres_cloud),
        mqtt_gateway=external.mqtt_url or (mqtt.url(GATEWAY_USER, secrets.mqtt_gateway) if mqtt else ""),
        mqtt_canary=mqtt.url(canary.LOGIN, secrets.mqtt_canary) if mqtt else None,
        mqtt_device=external.mqtt_url or (mqtt.device_url(demo_farm.DEVICE_ID, secrets.mqtt_device) if mqtt else ""),
        mqtt_station=external.mqtt_url or (mqtt.device_url(demo_farm.STATION_ID, secrets.mqtt_station) if mqtt else ""),
        mqtt_operator=external.mqtt_url or (mqtt.url(OPERATOR_USER, secrets.mqtt_operator) if mqtt else ""),
        mqtt_entrance=external.mqtt_url or (f"mqtt://127.0.0.1:{mqtt.entrance_port or mqtt.port}" if mqtt else ""),
        amqp=external.amqp_url or (servers.rabbitmq.url() if servers.rabbitmq else ""),
        s3_edge=_s3_account(servers, external, secrets.s3_access_key, secrets.s3_secret_key, external.media_bucket),
        s3_cloud=_s3_account(
            servers, external, secrets.s3_cloud_access_key, secrets.s3_cloud_secret_key, external.cloud_media_bucket
        ),
    )


def s3_identities(secrets: Secrets, external: External) -> tuple[S3Identity, ...]:
    return (
        S3Identity("edge", secrets.s3_access_key, secrets.s3_secret_key, external.media_bucket),
        S3Identity("cloud", secrets.s3_cloud_access_key, secrets.s3_cloud_secret_key, external.cloud_media_bucket),
    )


def mqtt_users(secrets: Secrets) -> tuple[MqttUser, ...]:
    place = (demo_farm.TENANT_ID, demo_farm.FARM_ID, demo_farm.BARN_ID, demo_farm.DEVICE_ID)
    return (
        MqttUser(GATEWAY_USER, secrets.mqtt_gateway, gateway_rights()),
        MqttUser(demo_farm.DEVICE_ID, secrets.mqtt_device, device_rights(*place), has_fixed_id=True),
        MqttUser(canary.LOGIN, secrets.mqtt_canary, canary.RIGHTS),
        MqttUser(OPERATOR_USER, secrets.mqtt_operator, operator_rights()),
    )


def _s3_account(servers: Servers, external: External, access_key: str, secret_key: str, bucket: str) -> S3Account:
    if servers.seaweedfs:
        return S3Account(servers.seaweedfs.endpoint, access_key, secret_key, bucket)
    return S3Account(external.s3_endpoint or "", external.s3_access_key or "", external.s3_secret_key or "", bucket)


def _database_url(servers: Servers, external: External, tier: str, password: str) -> str:
    if servers.postgres:
        return servers.postgres.url(tier, password, tier)
    return tier_database_url(external.database_url or "", tier)


def _server(
    program: Postgres | Mosquitto | Epmd | RabbitMq | SeaweedFs, scheme: str | None, needs: tuple[str, ...] = ()
) -> Child:
    url = f"{scheme}://127.0.0.1:{program.port}" if scheme else None
    return Child(program, "server", port=program.port, url=url, needs=needs)
