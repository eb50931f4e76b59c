from datetime import UTC, datetime, timedelta

from farmiq.edge.ingress_gateway.limited import Limited
from farmiq.edge.ingress_gateway.quotas import Limit, Quotas, Throttled
from farmiq.kit.mqtt import Message

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)


def test_messages_are_counted_over_the_last_hour_and_then_forgotten() -> None:
    limited = Limited()
    limited.note([Throttled(("demo", "a"), 5, 30.0, is_shut_out=True)], NOW)
    limited.note(
        [Throttled(("demo", "a"), 2, 1.0), Throttled(("demo", "b"), 1, 300.0, reason="streams")],
        NOW + timedelta(minutes=30),
    )
    b, a = limited.of_last_hour(NOW + timedelta(minutes=31))
    assert (a.device_id, a.messages, a.reason, a.shut_until) == ("a", 7, "rate", None)
    assert (b.device_id, b.messages, b.reason, b.last_at) == ("b", 1, "streams", NOW + timedelta(minutes=30))
    assert [one.messages for one in limited.of_last_hour(NOW + timedelta(minutes=61))] == [1, 2]
    assert limited.of_last_hour(NOW + timedelta(hours=2)) == []


def test_a_device_is_shut_out_until_its_time_is_over() -> None:
    limited = Limited()
    limited.note([Throttled(("demo", "a"), 5, 30.0, is_shut_out=True)], NOW)
    assert limited.of_last_hour(NOW)[0].shut_until == NOW + timedelta(seconds=30)
    assert limited.of_last_hour(NOW + timedelta(seconds=31))[0].shut_until is None


def quotas_with(**bytes_of: int) -> Quotas:
    ample = Limit(1e6, 1e9, 1.0)
    quotas = Quotas(ample, ample, 30.0)
    for device_id, size in bytes_of.items():
        topic = f"iot/telemetry/demo/farm-1/barn-1/{device_id}/temperature"
        quotas.admit([Message(topic, b"x" * size, 1, False, False, 1, 1)], 0.0)
    return quotas


def test_the_heaviest_are_those_that_sent_clearly_more_than_the_others() -> None:
    assert quotas_with(a=1000, b=900, c=1100).heaviest(1.0) == frozenset()
    assert quotas_with(a=1000, b=10_000).heaviest(1.0) == {("demo", "b")}
    assert quotas_with(a=1000).heaviest(1.0) == frozenset()


def test_bytes_of_long_ago_count_less() -> None:
    quotas = quotas_with(a=10_000)
    topic = "iot/telemetry/demo/farm-1/barn-1/b/temperature"
    quotas.admit([Message(topic, b"x" * 1000, 1, False, False, 1, 1)], 5 * 86_400.0)
    assert quotas.heaviest(5 * 86_400.0) == {("demo", "b")}
