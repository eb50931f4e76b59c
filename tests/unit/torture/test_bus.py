from uuid import uuid4

import pytest

from farmiq.contracts import event_types
from farmiq.torture.bus import POISONED, poison_in, services_reached, waiting_queues


@pytest.mark.parametrize(
    ("event_type", "services"),
    [
        (event_types.TELEMETRY_BATCH_INGESTED, ["cloud-telemetry-service", "cloud-analytics-service"]),
        (event_types.IMAGE_CAPTURED, ["cloud-telemetry-service"]),
        (event_types.MEDIA_STORED, ["cloud-media-store"]),
    ],
)
def test_poison_reaches_whom_a_message_of_its_type_reaches(event_type: str, services: list[str]) -> None:
    assert event_type in POISONED
    assert services_reached(event_type) == services


def test_a_dead_letter_is_poison_only_when_it_says_so() -> None:
    poison = uuid4()
    assert poison_in(b"{poison " + str(poison).encode()) == poison
    assert poison_in(b'{"event_id": "' + str(poison).encode() + b'"}') is None
    assert poison_in(b"") is None


def test_messages_are_waited_for_in_every_queue_but_the_dead_letters() -> None:
    queues = waiting_queues()
    for stem in ("cloud-telemetry-service.ingest", "cloud-analytics-service.kpi", "cloud-media-store.store"):
        assert f"farmiq.{stem}.queue" in queues
        assert f"farmiq.{stem}-retry-5s.queue" in queues
        assert f"farmiq.{stem}-retry-5m.queue" in queues
    assert len(queues) == 12
    assert not any("dlq" in queue for queue in queues)
