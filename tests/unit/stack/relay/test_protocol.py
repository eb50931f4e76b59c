import msgspec
import pytest

from farmiq.stack.relay.faults import Faults, Latency, LimitData, RouteFaults
from farmiq.stack.relay.protocol import Change, Heal, Look, Order, as_line, read_order


@pytest.mark.parametrize(
    ("line", "order"),
    [
        (b'{"do": "look"}', Look()),
        (b'{"do": "change", "route": "wan", "faults": {"down": true}}', Change("wan", RouteFaults(down=True))),
        (
            b'{"do": "change", "route": "wan", "faults": {"upstream": {"latency": {"seconds": 0.2}}}}',
            Change("wan", RouteFaults(upstream=Faults(latency=Latency(seconds=0.2)))),
        ),
        (b'{"do": "heal"}', Heal()),
        (b'{"do": "heal", "route": "wan"}', Heal("wan")),
    ],
)
def test_every_documented_order_is_read_and_written(line: bytes, order: Order) -> None:
    assert read_order(line) == order
    assert read_order(as_line(order)) == order


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b'{"do": "stop"}',
        b'{"do": "change", "route": "wan", "faults": {"downn": true}}',
        b'{"do": "change", "route": "wan", "faults": {"upstream": {"latency": {"seconds": -1}}}}',
        b'{"do": "change", "route": "wan", "faults": {"upstream": {"bandwidth": {"bytes_per_second": 0}}}}',
    ],
)
def test_an_order_that_is_not_understood_is_refused(line: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        read_order(line)


def test_what_is_wrong_with_a_route_is_named_once() -> None:
    bad = RouteFaults(
        down=True, upstream=Faults(limit_data=LimitData(bytes=1)), downstream=Faults(latency=Latency(seconds=1))
    )
    assert bad.names == ["down", "latency", "limit_data"]
    assert not bad.is_healthy
    assert RouteFaults().names == []
    assert RouteFaults().is_healthy
