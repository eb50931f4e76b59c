import pytest

from farmiq.device.node_forwarder.throttle import Throttle


def test_the_throttle_lets_a_seconds_worth_pass_and_then_holds_the_rate() -> None:
    throttle = Throttle(messages_per_second=10, bytes_per_second=1_000_000, now=0.0)
    assert [throttle.spend(1, 0.0) for _ in range(10)] == [0.0] * 10
    assert throttle.spend(1, 0.0) == pytest.approx(0.1)
    assert throttle.spend(1, 1.0) == 0.0


def test_the_throttle_counts_bytes_too() -> None:
    throttle = Throttle(messages_per_second=1000, bytes_per_second=100, now=0.0)
    assert throttle.spend(300, 0.0) == pytest.approx(2.0)
