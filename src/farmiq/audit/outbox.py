"""What waits in the edge's outbox and what has just left it, page by page, in as few numbers as the audit needs."""

from collections import Counter
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from farmiq.audit import answers
from farmiq.audit.streams import Packs
from farmiq.console.neighbours import Neighbours, Refused
from farmiq.contracts import event_types
from farmiq.kit.ids import reading_id
from farmiq.timeseries.coverage import Span, normalise

SYNC: Final = "edge-sync-forwarder"
SAMPLES: Final = (event_types.TELEMETRY_INGESTED, event_types.TELEMETRY_BATCH_INGESTED)


class Outbox:
    """`is_dead` in the keys: given up, and waiting for a person."""

    def __init__(self, asked_at: datetime) -> None:
        self.singles: Counter[tuple[str, bool]] = Counter()
        """Single readings, by device."""
        self.old_singles: Counter[str] = Counter()
        """Those of them that were measured before it was first asked, given up or not."""
        self._asked_at = asked_at
        self.sessions: set[UUID] = set()
        """Those that an event waits of, given up or not."""
        self.records: set[UUID] = set()
        """What the other events are about: the ids of their rows, at both tiers."""
        self.aggregated: dict[str, list[datetime]] = {}
        """By device, when the aggregates begin that are told of."""
        self.losses: set[UUID] = set()
        """Streams of which a loss is declared."""
        self.waiting = 0
        """Events that were not given up."""
        self._others: Counter[tuple[str, bool]] = Counter()
        self._spans: dict[tuple[UUID, bool], list[Span]] = {}

    def add(self, events: list[answers.WaitingEvent]) -> None:
        for event in events:
            self.waiting += not event.is_dead
            if event.session_id is not None:
                self.sessions.add(event.session_id)
            if event.event_type not in SAMPLES:
                self._others[event.event_type, event.is_dead] += 1
                self.records |= {one for one in (event.id, event.record_id) if one is not None}
                if event.event_type == event_types.TELEMETRY_LOSS and event.stream_id:
                    self.losses.add(UUID(event.stream_id))
                if event.event_type == event_types.TELEMETRY_AGGREGATED and event.device_id and event.occurred_at:
                    self.aggregated.setdefault(event.device_id, []).append(event.occurred_at)
            elif event.event_type == event_types.TELEMETRY_INGESTED and event.device_id is not None:
                self.singles[event.device_id, event.is_dead] += 1
                self.old_singles[event.device_id] += event.occurred_at is None or event.occurred_at < self._asked_at
                if event.id is not None:
                    self.records.add(reading_id(event.id))
            elif event.stream_id and event.first_seq:
                first = int(event.first_seq)
                spans = self._spans.setdefault((UUID(event.stream_id), event.is_dead), [])
                spans.append((first, first + (event.samples or 0)))

    def packs(self, recent: "Outbox | None" = None) -> dict[UUID, Packs]:
        """Which samples are in packs, by stream; and those that have just left, pack by pack."""
        left = recent._spans if recent is not None else {}
        losses = self.losses | (recent.losses if recent is not None else set())
        return {
            stream_id: Packs(
                normalise(self._spans.get((stream_id, False), [])),
                normalise(self._spans.get((stream_id, True), [])),
                sorted(left.get((stream_id, False), [])),
                stream_id in losses,
            )
            for stream_id in {*losses, *(name for name, _ in {**self._spans, **left})}
        }

    def others(self, *, is_dead: bool) -> dict[str, int]:
        """Events that are no samples, by type."""
        return {name: count for (name, dead), count in self._others.items() if dead is is_dead}


async def outbox(neighbours: Neighbours, tenant_id: str, asked_at: datetime, device_id: str | None = None) -> Outbox:
    """All of it, or all of one device, however long an outage was: what is not on the list is not in the outbox."""
    found = Outbox(asked_at)
    async for events in _pages(neighbours, "/api/v1/sync/waiting", tenant_id=tenant_id):
        found.add([event for event in events if device_id in (None, event.device_id)])
    return found


async def acknowledged(
    neighbours: Neighbours, tenant_id: str, asked_at: datetime, seconds: float | None, device_id: str | None = None
) -> Outbox | None:
    """What the cloud has acknowledged in that time, or as far back as the edge knows. None: the edge does not tell."""
    found = Outbox(asked_at)
    try:
        async for events in _pages(neighbours, "/api/v1/sync/acknowledged", tenant_id=tenant_id, seconds=seconds):
            found.add([event for event in events if device_id in (None, event.device_id)])
    except Refused as error:
        if error.status != 404:
            raise
        return None
    return found


async def _pages(neighbours: Neighbours, path: str, **query: Any) -> AsyncIterator[list[answers.WaitingEvent]]:
    after: UUID | None = None
    while True:
        page = await neighbours.get(SYNC, path, answers.Waiting, **query, after=after)
        yield page.events
        if page.is_complete:
            return
        if page.next is None:
            raise Refused(SYNC, 200, "outbox_cut", f"{SYNC} lists only a part of its outbox: it needs an update")
        after = page.next
