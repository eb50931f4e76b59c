import re

import pytest

from farmiq.contracts.bus import (
    BINDINGS,
    EVENT_EXCHANGE,
    EXCHANGES,
    TELEMETRY_EXCHANGE,
    TELEMETRY_INGEST_QUEUE,
    bindings_of,
    dlq_for,
    exchange_for,
)
from farmiq.contracts.envelope import BUS_PAYLOADS


def matches(pattern: str, routing_key: str) -> bool:
    """A topic exchange's rule: `*` is one word, `#` any number of them."""
    words = [
        {"#": r"(?:[^.]+(?:\.|$))*", "*": r"[^.]+(?:\.|$)"}.get(w, re.escape(w) + r"(?:\.|$)")
        for w in pattern.split(".")
    ]
    return re.fullmatch("".join(words), routing_key) is not None


def queues_reached(event_type: str) -> set[str]:
    return {
        binding.queue
        for binding in BINDINGS
        if binding.exchange == exchange_for(event_type) and matches(binding.routing_key, event_type)
    }


def test_the_names_are_those_of_the_document() -> None:
    assert {
        "farmiq.telemetry.exchange",
        "farmiq.weighvision.exchange",
        "farmiq.media.exchange",
        "farmiq.sync.exchange",
    } < set(EXCHANGES)
    assert {binding.queue for binding in BINDINGS} == {
        "farmiq.cloud-telemetry-service.ingest.queue",
        "farmiq.cloud-analytics-service.kpi.queue",
        "farmiq.cloud-media-store.store.queue",
    }
    assert dlq_for("cloud-telemetry-service") == "farmiq.cloud-telemetry-service.dlq.queue"


def test_every_name_follows_the_naming_rule() -> None:
    assert all(re.fullmatch(r"farmiq\.[a-z]+\.exchange", exchange) for exchange in EXCHANGES)
    assert all(re.fullmatch(r"farmiq\.[a-z-]+\.[a-z]+\.queue", binding.queue) for binding in BINDINGS)
    assert {binding.exchange for binding in BINDINGS} == set(EXCHANGES)
    assert len(set(BINDINGS)) == len(BINDINGS)


@pytest.mark.parametrize("event_type", [*sorted(BUS_PAYLOADS), "test.event", "door", "device.status"])
def test_every_event_reaches_a_queue_so_that_no_publish_is_returned(event_type: str) -> None:
    assert queues_reached(event_type)


@pytest.mark.parametrize(
    ("event_type", "services"),
    [
        ("telemetry.ingested", {"cloud-telemetry-service", "cloud-analytics-service"}),
        ("telemetry.batch.ingested", {"cloud-telemetry-service", "cloud-analytics-service"}),
        # Besides the document's consumer: an edge may send aggregates instead of samples.
        ("telemetry.aggregated", {"cloud-telemetry-service", "cloud-analytics-service"}),
        (
            "weighvision.session.created",
            {"cloud-telemetry-service", "cloud-analytics-service"},
        ),
        ("weighvision.session.finalized", {"cloud-telemetry-service", "cloud-analytics-service"}),
        ("inference.completed", {"cloud-telemetry-service", "cloud-analytics-service"}),
        ("sync.batch.sent", {"cloud-telemetry-service"}),
        ("weighvision.image.captured", {"cloud-telemetry-service"}),
        ("media.moved", {"cloud-media-store"}),
        ("media.stored", {"cloud-media-store"}),
    ],
)
def test_an_event_reaches_the_consumers_that_the_document_names(event_type: str, services: set[str]) -> None:
    assert {queue.split(".")[1] for queue in queues_reached(event_type)} == services


@pytest.mark.parametrize(
    ("event_type", "exchange"),
    [
        ("telemetry.ingested", TELEMETRY_EXCHANGE),
        ("telemetry.loss", TELEMETRY_EXCHANGE),
        ("inference.completed", "farmiq.inference.exchange"),
        ("test.event", EVENT_EXCHANGE),
        ("telemetryx.ingested", EVENT_EXCHANGE),
        ("", EVENT_EXCHANGE),
    ],
)
def test_the_first_word_chooses_the_exchange(event_type: str, exchange: str) -> None:
    assert exchange_for(event_type) == exchange


def test_a_service_declares_its_own_queue_only() -> None:
    assert {binding.queue for binding in bindings_of(TELEMETRY_INGEST_QUEUE)} == {TELEMETRY_INGEST_QUEUE}
    assert bindings_of("farmiq.nobody.x.queue") == ()
