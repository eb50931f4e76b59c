import json
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest

from farmiq.contracts.services import SERVICES
from farmiq.device.weighvision_agent.station_file import load_station
from farmiq.stack.home import Home
from farmiq.stack.plan import Plan, make_plan
from farmiq.stack.ports import free_port

EXTERNAL = {
    "DATABASE_URL": "postgresql://u:p@db.example/farm",
    "MQTT_URL": "mqtt://u:p@mqtt.example",
    "AMQP_URL": "amqp://u:p@amqp.example/",
    "S3_ENDPOINT": "https://s3.example",
    "S3_ACCESS_KEY": "key",
    "S3_SECRET_KEY": "secret",
}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.create()
    return home


def variables_of(plan: Plan, name: str) -> dict[str, str]:
    return next(dict(service.variables) for service in plan.services if service.name == name)


def test_every_service_of_the_catalogue_has_its_variables(home: Home) -> None:
    plan = make_plan(home, {}, SERVICES)
    assert {service.name for service in plan.services if service.variables} == {service.name for service in SERVICES}


def test_the_same_home_gives_the_same_plan(home: Home) -> None:
    assert make_plan(home, {}, SERVICES) == make_plan(home, {}, SERVICES)


def test_no_command_line_shows_a_credential(home: Home) -> None:
    plan = make_plan(home, {}, SERVICES)
    home.server_folder("postgres").mkdir()
    for child in plan.children():
        shown = " ".join(child.program.command())
        assert not any(secret in shown for secret in msgspec.structs.asdict(plan.secrets).values())


def test_the_tiers_have_databases_and_roles_of_their_own(home: Home) -> None:
    plan = make_plan(home, {}, SERVICES)
    edge, cloud = (variables_of(plan, name)["DATABASE_URL"] for name in ("edge-ingress-gateway", "cloud-ingestion"))
    assert "://edge:" in edge
    assert edge.endswith("/edge")
    assert "://cloud:" in cloud
    assert cloud.endswith("/cloud")


def test_the_node_gets_no_credential_but_its_own(home: Home) -> None:
    plan = make_plan(home, {}, SERVICES)
    secrets = msgspec.structs.asdict(plan.secrets)
    own = secrets.pop("mqtt_device")
    for name in ("node-agent", "node-forwarder"):
        given = " ".join(variables_of(plan, name).values())
        assert not any(secret in given for secret in secrets.values())
    assert own in variables_of(plan, "node-forwarder")["MQTT_URL"]


def port_of(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port


def behind(plan: Plan, route: str, url: str) -> int:
    """Where the relay leads whoever uses this address."""
    assert plan.relay is not None
    links = next(spec.links for spec in plan.relay.routes if spec.name == route)
    return next(link.target_port for link in links if link.port == port_of(url))


def test_the_weigh_station_gets_no_credential_but_its_own(home: Home) -> None:
    plan = make_plan(home, {}, SERVICES)
    secrets = msgspec.structs.asdict(plan.secrets)
    password, token = secrets.pop("mqtt_station"), secrets.pop("station_token")
    given = variables_of(plan, "weighvision-agent")
    assert not any(secret in value for secret in secrets.values() for value in given.values())
    assert f"://station-1:{password}@" in given["MQTT_URL"]
    assert given["HTTP_TOKEN"] == token
    assert given["EDGE_MEDIA_STORE_URL"] == plan.environment()["EDGE_MEDIA_STORE_URL"]
    others = [service for service in plan.services if service.name != "weighvision-agent"]
    assert not any(own in value for own in (password, token) for one in others for value in one.variables.values())


def test_the_weigh_station_finds_the_file_that_describes_it(home: Home) -> None:
    station = next(one for one in make_plan(home, {}, SERVICES).services if one.name == "weighvision-agent")
    station.prepare()
    station.prepare()
    assert load_station(station.variables["WEIGHVISION_STATION"]).session.batch_id is not None


def test_the_edge_sends_its_batches_through_the_relay_to_where_the_cloud_listens(home: Home) -> None:
    plan = make_plan(home, {}, SERVICES)
    forwarder, known = variables_of(plan, "edge-sync-forwarder"), plan.environment()
    assert forwarder["CLOUD_INGESTION_URL"].endswith("/api/v1/edge/batch")
    assert behind(plan, "wan", forwarder["CLOUD_INGESTION_URL"]) == port_of(known["CLOUD_INGESTION_URL"])
    assert behind(plan, "wan", forwarder["CLOUD_MEDIA_URL"]) == port_of(known["CLOUD_MEDIA_STORE_URL"])
    pictures = variables_of(plan, "cloud-media-store")
    assert behind(plan, "wan", pictures["S3_PUBLIC_ENDPOINT"]) == port_of(pictures["S3_ENDPOINT"])


def test_devices_come_to_the_broker_through_the_relay_and_the_gateway_does_not(home: Home) -> None:
    plan = make_plan(home, {}, SERVICES)
    broker = plan.servers.mosquitto
    assert broker is not None
    for name in ("node-forwarder", "weighvision-agent"):
        assert behind(plan, "broker", variables_of(plan, name)["MQTT_URL"]) == broker.port
    assert behind(plan, "broker", plan.environment()["MQTT_DEVICE_URL"]) == broker.port
    assert port_of(variables_of(plan, "edge-ingress-gateway")["MQTT_URL"]) == broker.services_port


def test_every_device_that_the_broker_starts_with_is_bound_to_its_own_client_id(home: Home) -> None:
    broker = make_plan(home, {}, SERVICES).servers.mosquitto
    assert broker is not None
    assert [user.name for user in broker.users if user.has_fixed_id] == ["node-1"]
    assert [user.name for user in broker.users if not user.has_fixed_id] == [
        "edge-ingress-gateway",
        "farmiq-canary",
        "operator",
    ]


def test_edge_services_come_to_their_database_through_the_relay_and_nobody_else_does(home: Home) -> None:
    plan = make_plan(home, {}, SERVICES)
    assert plan.servers.postgres is not None
    direct = plan.servers.postgres.port
    for service in SERVICES:
        url = variables_of(plan, service.name).get("DATABASE_URL")
        if service.tier == "edge":
            assert url is not None
            assert behind(plan, "edge-db", url) == direct
        elif url is not None:
            assert port_of(url) == direct
    assert port_of(plan.environment()["EDGE_DATABASE_URL"]) == direct


def test_a_home_from_before_the_relay_keeps_the_address_that_its_devices_know(home: Home) -> None:
    home.ports_file.write_text(json.dumps({"mosquitto": (port := free_port())}))
    plan = make_plan(home, {}, SERVICES)
    assert port_of(plan.environment()["MQTT_DEVICE_URL"]) == port
    assert plan.servers.mosquitto is not None
    assert plan.servers.mosquitto.port != port


def test_links_to_servers_of_others_are_not_ours_to_cut(home: Home) -> None:
    plan = make_plan(home, EXTERNAL, SERVICES)
    assert plan.relay is not None
    assert [(spec.name, len(spec.links)) for spec in plan.relay.routes] == [("wan", 2)]
    assert make_plan(home, EXTERNAL, ()).relay is None
    one = make_plan(home, {"EDGE_DATABASE_URL": EXTERNAL["DATABASE_URL"]}, SERVICES)
    assert one.relay is not None
    assert [spec.name for spec in one.relay.routes] == ["broker", "wan"]
    assert variables_of(one, "edge-ingress-gateway")["DATABASE_URL"] == EXTERNAL["DATABASE_URL"]


def test_each_tier_keeps_its_pictures_in_a_bucket_and_with_a_key_of_its_own(home: Home) -> None:
    plan = make_plan(home, {}, SERVICES)
    edge, cloud = (variables_of(plan, name) for name in ("edge-media-store", "cloud-media-store"))
    assert (edge["MEDIA_BUCKET"], cloud["MEDIA_BUCKET"]) == ("farmiq-media", "farmiq-cloud-media")
    for name in ("S3_ACCESS_KEY", "S3_SECRET_KEY"):
        assert edge[name] != cloud[name]
    assert plan.servers.seaweedfs is not None
    assert {identity.access_key: identity.bucket for identity in plan.servers.seaweedfs.identities} == {
        tier["S3_ACCESS_KEY"]: tier["MEDIA_BUCKET"] for tier in (edge, cloud)
    }
    # The forwarder reads the edge's pictures and asks the cloud where to put them; it never holds the cloud's key.
    forwarder = variables_of(plan, "edge-sync-forwarder")
    assert forwarder.items() >= {name: edge[name] for name in ("S3_ENDPOINT", "S3_ACCESS_KEY", "S3_SECRET_KEY")}.items()
    assert edge["S3_ACCESS_KEY"] != cloud["S3_ACCESS_KEY"] not in forwarder.values()


def test_a_home_from_before_the_cloud_had_pictures_keeps_the_key_of_the_edge(home: Home) -> None:
    before = msgspec.structs.asdict(make_plan(home, {}, SERVICES).secrets)
    older = {name: value for name, value in before.items() if not name.startswith("s3_cloud")}
    home.secrets_file.write_bytes(msgspec.json.encode(older))
    after = make_plan(home, {}, SERVICES)
    assert {name: getattr(after.secrets, name) for name in older} == older
    assert variables_of(after, "edge-media-store")["S3_ACCESS_KEY"] == before["s3_access_key"]
    assert variables_of(after, "cloud-media-store")["S3_ACCESS_KEY"] not in before.values()


def test_a_home_from_before_the_farm_had_a_weigh_station_gets_its_secrets_and_keeps_the_others(home: Home) -> None:
    before = msgspec.structs.asdict(make_plan(home, {}, SERVICES).secrets)
    older = {name: value for name, value in before.items() if "station" not in name}
    assert len(older) == len(before) - 2
    home.secrets_file.write_bytes(msgspec.json.encode(older))
    after = make_plan(home, {}, SERVICES)
    assert {name: getattr(after.secrets, name) for name in older} == older
    assert variables_of(after, "weighvision-agent")["HTTP_TOKEN"] not in before.values()


def test_the_environment_names_everything_that_is_promised(home: Home) -> None:
    promised = {
        "EDGE_DATABASE_URL", "CLOUD_DATABASE_URL", "MQTT_URL", "MQTT_DEVICE_URL", "AMQP_URL", "S3_ENDPOINT",
        "S3_ACCESS_KEY", "S3_SECRET_KEY", "MEDIA_BUCKET", "CLOUD_S3_ENDPOINT", "CLOUD_S3_ACCESS_KEY", "CLOUD_S3_SECRET_KEY",
        "CLOUD_MEDIA_BUCKET", "ADMIN_TOKEN", "CONSOLE_PASSWORD",
    }  # fmt: skip
    promised |= {service.url_variable for service in SERVICES if service.port is not None}
    environment = make_plan(home, {}, SERVICES).environment()
    assert set(environment) == promised
    assert all(environment.values())


def test_servers_that_the_environment_names_are_used_instead(home: Home) -> None:
    plan = make_plan(home, EXTERNAL, SERVICES)
    environment = plan.environment()
    assert plan.servers.children() == []
    assert environment["EDGE_DATABASE_URL"] == "postgresql://u:p@db.example/farm_edge"
    assert environment["CLOUD_DATABASE_URL"] == "postgresql://u:p@db.example/farm_cloud"
    for name in ("MQTT_URL", "AMQP_URL", "S3_ENDPOINT", "S3_ACCESS_KEY", "S3_SECRET_KEY"):
        assert environment[name] == EXTERNAL[name]
    assert variables_of(plan, "node-forwarder")["MQTT_URL"] == EXTERNAL["MQTT_URL"]


def test_a_store_from_outside_serves_both_tiers_from_one_account_and_two_buckets(home: Home) -> None:
    buckets = {"MEDIA_BUCKET": "barn-pictures", "CLOUD_MEDIA_BUCKET": "all-pictures"}
    plan = make_plan(home, EXTERNAL | buckets, SERVICES)
    edge, cloud = (variables_of(plan, name) for name in ("edge-media-store", "cloud-media-store"))
    assert (edge["MEDIA_BUCKET"], cloud["MEDIA_BUCKET"]) == ("barn-pictures", "all-pictures")
    for name in ("S3_ENDPOINT", "S3_ACCESS_KEY", "S3_SECRET_KEY"):
        assert edge[name] == cloud[name] == EXTERNAL[name]


def test_one_database_from_outside_leaves_the_other_embedded(home: Home) -> None:
    plan = make_plan(home, {"CLOUD_DATABASE_URL": "postgresql://u:p@db.example/c"}, SERVICES)
    assert plan.servers.postgres is not None
    assert plan.environment()["CLOUD_DATABASE_URL"] == "postgresql://u:p@db.example/c"
    assert "127.0.0.1" in plan.environment()["EDGE_DATABASE_URL"]


def test_a_variable_of_the_shell_reaches_a_service_but_not_one_that_the_stack_decides(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYNC_INTERVAL_MS", "1500")
    monkeypatch.setenv("DATABASE_URL", "postgresql://somewhere/else")
    monkeypatch.setenv("PORT", "1")
    service = next(
        service for service in make_plan(home, {}, SERVICES).services if service.name == "edge-sync-forwarder"
    )
    given = service.environment()
    assert given["SYNC_INTERVAL_MS"] == "1500"
    assert given["DATABASE_URL"] == service.variables["DATABASE_URL"]
    assert given["PORT"] == str(service.port)
