from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from farmiq.cli.dlq_filters import filter_of, service_of, services_of
from farmiq.cli.errors import BadUsage
from farmiq.cloud.dead_letters.filters import Filter
from farmiq.cloud.topology import WORK_QUEUES

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
TELEMETRY = "cloud-telemetry-service"
QUEUE = "farmiq.cloud-telemetry-service.dlq.queue"


def wanted(**given: Any) -> Filter:
    nothing: dict[str, Any] = dict.fromkeys(("reason", "event_type", "tenant", "since", "until"))
    return filter_of(**nothing | {"ids": ()} | given, now=NOW)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-01-01T10:00:00Z", datetime(2026, 1, 1, 10, tzinfo=UTC)),
        ("2026-01-01T10:00:00+02:00", datetime(2026, 1, 1, 8, tzinfo=UTC)),
        ("2026-01-01", datetime(2026, 1, 1, tzinfo=UTC)),
        ("90s", NOW - timedelta(seconds=90)),
        ("2h", NOW - timedelta(hours=2)),
        ("7d", NOW - timedelta(days=7)),
    ],
)
def test_a_time_is_a_moment_or_how_long_ago(text: str, at: datetime) -> None:
    assert wanted(since=text).since == wanted(until=text).until == at


@pytest.mark.parametrize("text", ["yesterday", "2 h", "-2h", "", "2026-13-01"])
def test_what_is_no_time_is_told_with_two_that_are(text: str) -> None:
    with pytest.raises(BadUsage, match="is no time") as refused:
        wanted(since=text)
    assert refused.value.fix == "--since 2026-01-01T10:00:00Z, or --since 2h"


def test_nothing_said_is_everything() -> None:
    assert wanted() == Filter()
    assert services_of(None, None) == list(WORK_QUEUES)


def test_a_queue_is_its_service() -> None:
    assert services_of(None, QUEUE) == services_of(TELEMETRY, None) == services_of(TELEMETRY, QUEUE) == [TELEMETRY]
    assert services_of("cloud-media-store", QUEUE) == []


def test_who_changes_something_says_whose() -> None:
    assert service_of(TELEMETRY, None, "replay") == TELEMETRY
    for service, queue, words in (
        (None, None, "whose dead letters"),
        ("cloud-media-store", QUEUE, "whose dead letters"),
        ("cloud-ingestion", None, "has no dead letters"),
        (None, "farmiq.cloud-telemetry-service.ingest.queue", "is no dead-letter queue"),
    ):
        with pytest.raises(BadUsage, match=words) as refused:
            service_of(service, queue, "replay")
        assert TELEMETRY in refused.value.why
