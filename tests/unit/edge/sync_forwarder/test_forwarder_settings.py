import pytest

from farmiq.edge.sync_forwarder.settings import OutboxRetentionSettings, SyncForwarderSettings
from farmiq.kit.settings import BadSettings, load

REQUIRED = {
    "DATABASE_URL": "postgresql://u:p@db/x",
    "CLOUD_INGESTION_URL": "http://cloud/api/v1/edge/batch",
    "CLOUD_INGESTION_TOKEN": "hush",
    "EDGE_CLUSTER_ID": "edge-1",
}


def test_the_defaults_are_the_documented_ones() -> None:
    settings = load(SyncForwarderSettings, REQUIRED)
    assert (settings.outbox_batch_size, settings.outbox_lease_seconds, settings.outbox_max_attempts) == (100, 120, 10)
    assert (settings.outbox_backoff_cap_seconds, settings.sync_interval_ms) == (300, 60_000)
    assert settings.port == 5108
    assert (settings.sync_requests_in_flight, settings.sync_request_seconds) == (4, 30)
    assert (settings.sync_request_bytes_max, settings.sync_batch_events_seconds) == (4 * 1024 * 1024, 60)
    assert load(OutboxRetentionSettings, {}).outbox_retention_days == 30
    assert not settings.internal_admin_enabled


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("http://cloud:3000/api/v1/edge/batch", "http://cloud:3000/api/v1/edge/batch"),
        ("https://cloud/behind/a/proxy", "https://cloud/behind/a/proxy"),
        ("http://cloud:5201", "http://cloud:5201/api/v1/edge/batch"),
        ("http://cloud:5201/", "http://cloud:5201/api/v1/edge/batch"),
    ],
)
def test_the_route_and_the_service_alone_both_name_the_cloud(given: str, used: str) -> None:
    assert load(SyncForwarderSettings, REQUIRED | {"CLOUD_INGESTION_URL": given}).batch_url == used


def test_every_missing_variable_is_named() -> None:
    with pytest.raises(BadSettings, match=r"DATABASE_URL.*CLOUD_INGESTION_URL.*CLOUD_INGESTION_TOKEN.*EDGE_CLUSTER_ID"):
        load(SyncForwarderSettings, {})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CLOUD_INGESTION_URL", "cloud:5201"),
        ("OUTBOX_BATCH_SIZE", "0"),
        ("OUTBOX_BATCH_SIZE", "5001"),
        ("OUTBOX_LEASE_SECONDS", "soon"),
        ("SYNC_REQUESTS_IN_FLIGHT", "0"),
        ("SYNC_REQUEST_BYTES_MAX", "9000000"),
        ("SYNC_BATCH_EVENTS_SECONDS", "-1"),
        ("INTERNAL_ADMIN_ENABLED", "perhaps"),
    ],
)
def test_a_wrong_value_stops_the_start_and_is_named(name: str, value: str) -> None:
    with pytest.raises(BadSettings, match=name):
        load(SyncForwarderSettings, REQUIRED | {name: value})


def test_admin_routes_need_a_token() -> None:
    with pytest.raises(BadSettings, match="ADMIN_TOKEN"):
        load(SyncForwarderSettings, REQUIRED | {"INTERNAL_ADMIN_ENABLED": "true"})
    assert load(
        SyncForwarderSettings, REQUIRED | {"INTERNAL_ADMIN_ENABLED": "true", "ADMIN_TOKEN": "t"}
    ).internal_admin_enabled


def test_no_secret_is_shown() -> None:
    shown = repr(load(SyncForwarderSettings, REQUIRED | {"ADMIN_TOKEN": "also-hush"}))
    assert "hush" not in shown
    assert "u:p" not in shown
