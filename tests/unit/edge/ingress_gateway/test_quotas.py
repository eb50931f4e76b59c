from farmiq.edge.ingress_gateway import quotas
from farmiq.edge.ingress_gateway.quotas import UNKNOWN, Limit, Quotas, Throttled, sender_of
from farmiq.kit.mqtt import Message

TEN_A_SECOND = Limit(messages_per_second=10, bytes_per_second=1_000, burst_seconds=2)
AMPLE = TEN_A_SECOND.times(1_000)


def messages(count: int, device: str = "a", tenant: str = "demo", size: int = 10) -> list[Message]:
    topic = f"iot/telemetry/{tenant}/farm-1/barn-1/{device}/temperature"
    return [_message(topic, b"x" * size) for _ in range(count)]


def _message(topic: str, payload: bytes) -> Message:
    return Message(topic, payload, qos=1, is_retained=False, is_redelivered=False, mid=1, connection=1)


def limits(device: Limit = TEN_A_SECOND, tenant: Limit = AMPLE, shut_out_seconds: float = 30.0) -> Quotas:
    return Quotas(device, tenant, shut_out_seconds)


def test_a_burst_passes_and_what_is_over_it_does_not() -> None:
    admitted, throttled = limits().admit(messages(25), 100.0)
    assert len(admitted) == 20
    assert throttled == [Throttled(("demo", "a"), 5, 1.0, is_shut_out=False)]


def test_the_budget_refills_with_time_and_never_beyond_the_burst() -> None:
    several = limits()
    several.admit(messages(20), 100.0)
    assert len(several.admit(messages(20), 101.0)[0]) == 10
    assert len(several.admit(messages(30), 1_000.0)[0]) == 20


def test_bytes_count_like_messages() -> None:
    admitted, throttled = limits().admit(messages(5, size=900), 100.0)
    assert len(admitted) == 2
    assert [one.messages for one in throttled] == [3]


def test_one_that_floods_costs_the_others_nothing() -> None:
    several = limits()
    several.admit(messages(1_000), 100.0)
    mixed = [message for pair in zip(messages(15), messages(15, "b"), strict=True) for message in pair]
    admitted, throttled = several.admit(mixed, 100.0)
    assert [message.topic for message in admitted] == [messages(1, "b")[0].topic] * 15
    assert [one.sender for one in throttled] == [("demo", "a")]


def test_a_flood_is_shut_out_and_comes_back_by_itself() -> None:
    several = limits()
    throttled = several.admit(messages(1_000), 100.0)[1]
    assert throttled == [Throttled(("demo", "a"), 980, 30.0, is_shut_out=True)]
    assert several.admit(messages(1), 129.0) == ([], [Throttled(("demo", "a"), 1, 1.0, is_shut_out=True)])
    assert several.admit(messages(1), 131.0) == (messages(1), [])


def test_sending_a_little_more_than_allowed_is_not_a_flood() -> None:
    several = limits()
    taken = 0
    for second in range(100):
        admitted, throttled = several.admit(messages(15), 100.0 + second)
        taken += len(admitted)
        assert not any(one.is_shut_out for one in throttled)
    assert 1_000 <= taken <= 1_020


def test_a_tenant_has_a_limit_for_all_its_devices() -> None:
    several = limits(tenant=TEN_A_SECOND.times(2))
    many = [message for number in range(10) for message in messages(10, f"device-{number}")]
    admitted, _ = several.admit(many, 100.0)
    assert len(admitted) == 40
    other, throttled = several.admit(messages(10, tenant="other"), 100.0)
    assert (len(other), throttled) == (10, [])


def test_messages_keep_their_order() -> None:
    numbered = [_message(messages(1)[0].topic, str(number).encode()) for number in range(10)]
    assert limits().admit(numbered, 100.0)[0] == numbered


def test_who_sends_is_read_from_the_topic() -> None:
    assert sender_of("iot/telemetry/t/f/b/d/temperature") == ("t", "d")
    assert sender_of("iot/weighvision/t/f/b/s/session/x/created") == ("t", "s")
    assert sender_of("iot/status/t/f/b/d") == ("t", "d")
    assert sender_of("iot/telemetry/t") == UNKNOWN


def test_what_is_remembered_of_senders_is_bounded() -> None:
    several = limits(tenant=AMPLE.times(10))
    for number in range(quotas.SENDERS_MAX + 10):
        several.admit(messages(1, f"device-{number}"), 100.0)
    assert len(several._meters) == quotas.SENDERS_MAX
    # The one that spoke last is still known: its budget is what it was.
    assert len(several.admit(messages(20, f"device-{quotas.SENDERS_MAX + 9}"), 100.0)[0]) == 19
