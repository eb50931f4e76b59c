"""What of the dead letters a command is about, as it was typed. Pure but for the time of day."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from farmiq.cli.errors import BadUsage
from farmiq.cloud.dead_letters.filters import Filter
from farmiq.cloud.topology import WORK_QUEUES

_AGO = re.compile(r"(\d{1,6})(s|m|h|d)")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def services_of(service: str | None, queue: str | None) -> list[str]:
    """Those that are meant; all when nothing is said."""
    by_queue = {known.dead_letter_queue: name for name, known in WORK_QUEUES.items()}
    if service is not None and service not in WORK_QUEUES:
        raise BadUsage(f"{service[:80]!r} has no dead letters", why=_known(WORK_QUEUES), fix="farmiq dlq ls")
    if queue is not None and queue not in by_queue:
        raise BadUsage(f"{queue[:80]!r} is no dead-letter queue", why=_known(by_queue), fix="farmiq dlq ls")
    if queue is not None:
        return [by_queue[queue]] if service in (None, by_queue[queue]) else []
    return [service] if service is not None else list(WORK_QUEUES)


def service_of(service: str | None, queue: str | None, command: str) -> str:
    """For a command that changes something: exactly one, and said by name."""
    meant = services_of(service, queue)
    if len(meant) == 1:
        return meant[0]
    raise BadUsage(
        "whose dead letters?", why=_known(WORK_QUEUES), fix=f"farmiq dlq {command} --service {next(iter(WORK_QUEUES))}"
    )


def filter_of(
    *,
    reason: str | None,
    event_type: str | None,
    tenant: str | None,
    since: str | None,
    until: str | None,
    ids: Sequence[str],
    now: datetime,
) -> Filter:
    return Filter(
        reason=reason,
        event_type=event_type,
        tenant_id=tenant,
        since=moment_of("--since", since, now),
        until=moment_of("--until", until, now),
        ids=tuple(ids),
    )


def moment_of(option: str, text: str | None, now: datetime) -> datetime | None:
    if text is None:
        return None
    if ago := _AGO.fullmatch(text):
        return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadUsage(
            f"{option} {text[:80]!r} is no time", why=str(error), fix=f"{option} 2026-01-01T10:00:00Z, or {option} 2h"
        ) from error
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _known(names: Iterable[str]) -> str:
    return f"There are {', '.join(names)}."
