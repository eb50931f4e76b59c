import pytest

from farmiq.edge.ingress_gateway.settings import GatewaySettings
from farmiq.kit.settings import BadSettings, load

NEEDED = {"DATABASE_URL": "postgresql://edge", "MQTT_URL": "mqtt://edge", "ADMIN_TOKEN": "for-this-test-only"}


def test_a_micro_batch_is_closed_after_20_ms_by_default() -> None:
    settings = load(GatewaySettings, NEEDED)
    assert (settings.ingress_batch_messages, settings.ingress_batch_wait_ms) == (500, 20)


def test_an_active_stream_cannot_be_left_without_an_acknowledgement_for_more_than_five_seconds() -> None:
    assert load(GatewaySettings, NEEDED | {"INGRESS_ACK_INTERVAL_MS": "5000"}).ingress_ack_interval_ms == 5000
    with pytest.raises(BadSettings):
        load(GatewaySettings, NEEDED | {"INGRESS_ACK_INTERVAL_MS": "5001"})
