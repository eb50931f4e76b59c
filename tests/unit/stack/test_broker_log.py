"""What is read in the log of Mosquitto 2.0.11, word for word as it writes it."""

from datetime import UTC, datetime

import pytest

from farmiq.kit.clock import Clock
from farmiq.stack.broker_log import CLIENTS_MAX, LogReader, Refusals

AT = "2026-11-18T20:30:35: "
DENIED_PUBLISH = [
    "New client connected from 127.0.0.1:43676 as dev1 (p2, c1, k60, u'dev1').",
    "No will message specified.",
    "Sending CONNACK to dev1 (0, 0)",
    "Denied PUBLISH from dev1 (d0, q1, r0, m1, 'iot/telemetry/t/f/b/it's/x', ... (2 bytes))",
    "Sending PUBACK to dev1 (m1, rc135)",
    "Received PUBLISH from dev1 (d0, q1, r0, m1, 'iot/telemetry/t/f/b/dev1/x', ... (2 bytes))",
    "Client dev1 disconnected.",
]
# The first and the last filter are denied.
SUBSCRIBE = [
    "Received SUBSCRIBE from dev1",
    "\t$share/g/# (QoS 0)",
    "\tiot/dev1/ack (QoS 0)",
    "dev1 0 iot/dev1/ack",
    "\t# (QoS 0)",
    "Sending SUBACK to dev1",
]
GRANTED = ["Received SUBSCRIBE from dev1", "\t# (QoS 1)", "dev1 1 #", "Sending SUBACK to dev1"]
WILL = ["Will message specified (2 bytes) (r0, q0).", "\tiot/x/ack", "Sending CONNACK to dev1 (0, 0)"]
OTHERS = [
    "Client dev1 already connected, closing old connection.",
    "Client <unknown> disconnected, not authorised.",
    "Warning: Mosquitto should not be run as root/administrator.",
]


def written(*lines: str) -> bytes:
    return "".join(f"{AT}{line}\n" for line in lines).encode()


def read(text: bytes, piece_bytes: int) -> tuple[set[tuple[str, str, int, str]], bytes]:
    refusals = Refusals(Clock())
    reader = LogReader(refusals)
    kept = b"".join(reader.read(text[start : start + piece_bytes]) for start in range(0, len(text), piece_bytes))
    return {(one.client_id, one.kind, one.count, one.topic) for one in refusals.take()}, kept


@pytest.mark.parametrize("piece_bytes", [1, 7, 100, 1 << 20])
def test_a_denied_publish_is_counted_and_packets_stay_out_of_the_file(piece_bytes: int) -> None:
    found, kept = read(written(*DENIED_PUBLISH, DENIED_PUBLISH[3]), piece_bytes)
    assert found == {("dev1", "publish_denied", 2, "iot/telemetry/t/f/b/it's/x")}
    assert kept == written(DENIED_PUBLISH[0], DENIED_PUBLISH[-1])


@pytest.mark.parametrize("piece_bytes", [1, 100, 1 << 20])
def test_a_subscription_that_is_not_granted_is_counted(piece_bytes: int) -> None:
    found, kept = read(written(*SUBSCRIBE), piece_bytes)
    assert found == {("dev1", "subscribe_denied", 2, "#")}
    assert kept == b""


def test_what_is_granted_and_a_last_will_are_nothing_to_count() -> None:
    assert read(written(*GRANTED, *WILL, *GRANTED), 100) == (set(), b"")


def test_a_connection_that_is_replaced_and_a_refused_login_are_counted_and_stay_in_the_file() -> None:
    found, kept = read(written(*OTHERS), 100)
    assert found == {("dev1", "connection_replaced", 1, ""), ("", "login_refused", 1, "")}
    assert kept == written(*OTHERS)


def test_what_is_retained_outside_the_status_is_removed_and_a_removal_is_not() -> None:
    lines = [
        f"Received PUBLISH from dev1 (d0, q1, r1, m1, '{topic}', ... ({size} bytes))"
        for topic, size in (("iot/event/t/f/b/dev1/x", 9), ("iot/status/t/f/b/dev1", 9), ("iot/event/t/f/b/dev1/y", 0))
    ]
    refusals = Refusals(Clock())
    assert LogReader(refusals).read(written(*lines, lines[0].replace("r1", "r0"))) == b""
    assert refusals.take_retained() == {"iot/event/t/f/b/dev1/x"}
    assert refusals.take_retained() == set()
    assert [(one.client_id, one.kind, one.count) for one in refusals.take()] == [("dev1", "retained_removed", 1)]


def connected(client_id: str, *will: str) -> list[str]:
    lines = will or ("No will message specified.",)
    return [
        f"New client connected from 127.0.0.1:5 as {client_id} (p2, c1, k60).",
        *lines,
        f"Sending CONNACK to {client_id} (0, 0)",
    ]


def test_a_retained_last_will_is_removed_when_the_broker_has_published_it() -> None:
    def sent(topic: str) -> str:
        return f"Sending PUBLISH to edge-ingress-gateway (d0, q1, r0, m3, '{topic}', ... (20 bytes))"

    def will(topic: str, retain: int) -> tuple[str, str]:
        return (f"Will message specified (20 bytes) (r{retain}, q1).", f"\t{topic}")

    topics = [f"iot/event/t/f/b/dev{number}/x" for number in range(4)]
    lines = [
        *connected("dev0", *will(topics[0], 1)),
        *connected("dev1", *will(topics[1], 0)),
        *connected("dev2", *will("iot/status/t/f/b/dev2", 1)),
        *connected("dev3", *will(topics[3], 1)),
        *connected("dev4", *will("iot/dev1/ack", 1)),
        *connected("dev3"),  # it came back, and has no will any more
        *(sent(topic) for topic in [*topics, "iot/status/t/f/b/dev2", "iot/dev1/ack", topics[0]]),
    ]
    refusals = Refusals(Clock())
    LogReader(refusals).read(written(*lines))
    assert refusals.take_retained() == {topics[0]}
    assert [(one.client_id, one.kind, one.count) for one in refusals.take()] == [("dev0", "retained_removed", 1)]


def test_many_names_are_counted_together_and_what_was_not_recorded_is_kept() -> None:
    refusals = Refusals(Clock())
    for number in range(CLIENTS_MAX + 5):
        refusals.note(f"dev{number}", "publish_denied", "x" * 1000)
    taken = refusals.take()
    assert len(taken) == CLIENTS_MAX + 1
    assert next(one for one in taken if one.client_id == "").count == 5
    assert {len(one.topic) for one in taken} == {200}
    first = taken[0]
    refusals.note(first.client_id, "publish_denied", "newer")
    refusals.put_back([first])
    (joined,) = refusals.take()
    assert (joined.count, joined.first_at) == (2, first.first_at)
    assert datetime.now(UTC) >= joined.last_at >= first.last_at
