from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from farmiq.cloud.dead_letters.letters import letter_of, replayed
from farmiq.kit import bus_headers
from farmiq.kit.amqp import Delivery
from farmiq.kit.bus_headers import as_first_published, failed_headers

AT = datetime(2026, 1, 1, 10, tzinfo=UTC)
ENVELOPE = {
    "event_id": "e-1",
    "event_type": "telemetry.ingested",
    "tenant_id": "demo",
    "device_id": "d-1",
    "trace_id": "t-1",
}


def delivery(body: bytes = msgspec.json.encode(ENVELOPE), **headers: Any) -> Delivery:
    return Delivery(
        body, "farmiq.telemetry.exchange", "telemetry.ingested", "m-1", headers, False, 7, 1, {"priority": 3}
    )


def failed(one: Delivery, **changes: Any) -> Delivery:
    """As it lies in the dead-letter queue."""
    told: dict[str, Any] = {"queue": "work", "code": "schema", "detail": "no", "attempts": 1, "failed_at": AT} | changes
    headers = failed_headers(one, **told)
    return msgspec.structs.replace(one, exchange="", routing_key="dlq", headers=headers)


def test_what_we_wrote_on_it_is_read() -> None:
    letter = letter_of(failed(delivery(), attempts=4))

    assert msgspec.to_builtins(letter) == {
        "message_id": "m-1",
        "reason": "schema",
        "detail": "no",
        "failed_at": "2026-01-01T10:00:00Z",
        "attempts": 4,
        "replays": 0,
        "exchange": "farmiq.telemetry.exchange",
        "routing_key": "telemetry.ingested",
        "event_type": "telemetry.ingested",
        "event_id": "e-1",
        "tenant_id": "demo",
        "device_id": "d-1",
        "trace_id": "t-1",
        "body_bytes": len(msgspec.json.encode(ENVELOPE)),
    }


def test_what_rabbitmq_moved_by_itself_says_so_with_its_latest_death() -> None:
    deaths = [
        {
            "reason": "delivery_limit",
            "queue": "work",
            "time": AT,
            "exchange": "farmiq.media.exchange",
            "routing-keys": ["media.stored"],
        },
        {"reason": "expired", "queue": "work-retry-5s", "routing-keys": ["work-retry-5s"]},
    ]
    letter = letter_of(delivery(b"rubbish", **{"x-death": deaths}))

    assert (letter.reason, letter.failed_at, letter.exchange) == ("delivery_limit", AT, "farmiq.media.exchange")
    assert (letter.routing_key, letter.event_type, letter.tenant_id) == ("media.stored", "media.stored", None)


@pytest.mark.parametrize(
    "body", [b"", b"rubbish", b"[]", b"\xff", b'{"event_type": 7, "tenant_id": []}', b"[" * 100_000]
)
@pytest.mark.parametrize("deaths", [None, 7, [], ["x"], [{"time": "yesterday", "routing-keys": 3}]])
def test_whatever_is_there_a_letter_can_be_shown(body: bytes, deaths: Any) -> None:
    letter = letter_of(delivery(body, **{"x-death": deaths, bus_headers.ATTEMPTS: "many", bus_headers.FAILED_AT: 3}))

    assert (letter.reason, letter.event_type, letter.attempts, letter.failed_at) == ("unknown", "unknown", 0, None)


def test_a_replayed_message_is_as_it_was_but_for_how_often_it_was_brought_back() -> None:
    original = delivery(own="kept")
    once = replayed(failed(original), "work")

    assert once is not None
    assert (once.exchange, once.routing_key, once.body, once.message_id) == ("", "work", original.body, "m-1")
    assert once.properties == {"priority": 3}
    arrived = msgspec.structs.replace(original, exchange="", routing_key="work", headers=once.headers)
    assert as_first_published(arrived).routing_key == original.routing_key
    assert as_first_published(arrived).exchange == original.exchange
    assert {name for name in once.headers if not name.startswith("x-farmiq-")} == {"own"}
    assert bus_headers.attempts_of(once.headers) == 0
    twice = replayed(failed(as_first_published(arrived)), "work")
    assert twice is not None
    assert bus_headers.replays_of(twice.headers) == 2
    assert letter_of(failed(as_first_published(arrived))).replays == 1


def test_what_rabbitmq_noted_is_left_behind_or_it_would_take_the_next_retry_for_a_circle_and_drop_it() -> None:
    noted: dict[str, Any] = {
        "x-death": [{"queue": "work", "reason": "delivery_limit"}],
        "x-first-death-queue": "work",
        "x-delivery-count": 3,
    }
    message = replayed(failed(delivery(**noted)), "work")

    assert message is not None
    assert not {name for name in message.headers if name.startswith(("x-death", "x-first", "x-delivery"))}


@pytest.mark.parametrize("value", [1735725600.125, b"\xff", Decimal("1e300"), 1 << 70])
def test_headers_that_would_be_changed_on_the_way_are_not_sent(value: Any) -> None:
    assert replayed(failed(delivery(exact=value)), "work") is None


def test_a_detail_with_half_a_character_can_be_sent() -> None:
    headers = failed_headers(delivery(), queue="q", code="c", detail="\ud800" + "x" * 999, attempts=1, failed_at=AT)

    assert bus_headers.can_be_sent(headers)
    assert len(headers[bus_headers.DETAIL]) == bus_headers.DETAIL_LENGTH_MAX
