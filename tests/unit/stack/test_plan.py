from pathlib import Path

import msgspec
import pytest

from farmiq.contracts.services import SERVICES
from farmiq.stack.home import Home
from farmiq.stack.plan import Plan, make_plan

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


def test_the_edge_sends_its_batches_to_where_the_cloud_listens(home: Home) -> None:
    plan = make_plan(home, {}, SERVICES)
    assert variables_of(plan, "edge-sync-forwarder")["CLOUD_INGESTION_URL"] == (
        plan.environment()["CLOUD_INGESTION_URL"] + "/api/v1/edge/batch"
    )


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
    assert forwarder["CLOUD_MEDIA_URL"] == plan.environment()["CLOUD_MEDIA_STORE_URL"]


def test_a_home_from_before_the_cloud_had_pictures_keeps_the_key_of_the_edge(home: Home) -> None:
    before = msgspec.structs.asdict(make_plan(home, {}, SERVICES).secrets)
    older = {name: value for name, value in before.items() if not name.startswith("s3_cloud")}
    home.secrets_file.write_bytes(msgspec.json.encode(older))
    after = make_plan(home, {}, SERVICES)
    assert {name: getattr(after.secrets, name) for name in older} == older
    assert variables_of(after, "edge-media-store")["S3_ACCESS_KEY"] == before["s3_access_key"]
    assert variables_of(after, "cloud-media-store")["S3_ACCESS_KEY"] not in before.values()


def test_the_environment_names_everything_that_is_promised(home: Home) -> None:
    promised = {
        "EDGE_DATABASE_URL", "CLOUD_DATABASE_URL", "MQTT_URL", "AMQP_URL", "S3_ENDPOINT", "S3_ACCESS_KEY",
        "S3_SECRET_KEY", "MEDIA_BUCKET", "CLOUD_S3_ENDPOINT", "CLOUD_S3_ACCESS_KEY", "CLOUD_S3_SECRET_KEY",
        "CLOUD_MEDIA_BUCKET", "ADMIN_TOKEN",
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
