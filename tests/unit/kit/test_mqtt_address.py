import pytest

from farmiq.kit.mqtt import BadBrokerUrl, MqttClient, parse_url


@pytest.mark.parametrize(
    ("url", "host", "port", "username", "password", "is_tls"),
    [
        ("mqtt://broker", "broker", 1883, None, None, False),
        ("mqtts://broker", "broker", 8883, None, None, True),
        ("mqtt://node-1:pass@10.0.0.1:18830", "10.0.0.1", 18830, "node-1", "pass", False),
        ("mqtt://node%201:p%40ss%2Fw%3Ard@broker/", "broker", 1883, "node 1", "p@ss/w:rd", False),
        ("mqtts://node-1@[::1]:8884", "::1", 8884, "node-1", None, True),
    ],
)
def test_a_url_says_where_who_and_how(
    url: str, host: str, port: int, username: str | None, password: str | None, is_tls: bool
) -> None:
    address = parse_url(url)

    assert (address.host, address.port, address.is_tls) == (host, port, is_tls)
    assert (address.username, address.password) == (username, password)


@pytest.mark.parametrize(
    "url", ["", "broker:1883", "http://user:hunter2@broker", "mqtt://user:hunter2@", "mqtt://user:hunter2@broker:many"]
)
async def test_what_is_no_broker_url_is_refused_without_showing_its_password(url: str) -> None:
    with pytest.raises(BadBrokerUrl, match="mqtt://user:password@host:port") as refusal:
        MqttClient(url, client_id="node-1")

    assert "hunter2" not in str(refusal.value)


def test_an_address_does_not_show_its_password() -> None:
    assert repr(parse_url("mqtt://node-1:hunter2@broker")) == "Address(broker:1883)"
