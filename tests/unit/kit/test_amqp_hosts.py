import pytest

from farmiq.kit.amqp_hosts import BadBusUrl, each_host, said


def test_a_url_with_several_nodes_is_one_url_for_each_with_the_same_login_and_virtual_host() -> None:
    hosts = each_host("amqp://farm%40iq:p%2Cw%3Ard@one:5672, two,[::1]:5673/v%2Fh?heartbeat=5")

    assert [(one.host, one.port) for one in hosts] == [("one", 5672), ("two", None), ("::1", 5673)]
    assert {(one.user, one.password, one.path, one.query["heartbeat"]) for one in hosts} == {
        ("farm@iq", "p,w:rd", "/v/h", "5")
    }


def test_where_the_nodes_are_is_said_without_the_login() -> None:
    assert said(each_host("amqp://user:hunter2@one,two:7000/")) == "one:5672, two:7000"
    assert said(each_host("amqps://user:hunter2@one")) == "one:5671"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "one:5672",
        "http://user:hunter2@one",
        "amqp://user:hunter2@",
        "amqp://user:hunter2@one,,two",
        "amqp://user:hunter2@one:many",
        "amqp://user:hunter2@one:99999",
    ],
)
def test_what_names_no_node_is_refused_without_showing_its_password(url: str) -> None:
    with pytest.raises(BadBusUrl, match="amqp://user:password@host:port/vhost") as refusal:
        each_host(url)
    assert "hunter2" not in str(refusal.value)
