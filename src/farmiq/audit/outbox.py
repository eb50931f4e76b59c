"""What waits in the edge's outbox, page by page, in as few numbers as the audit needs."""

from collections import Counter
from datetime import datetime
from typing import Final
from uuid import UUID

from farmiq.audit import answers
from farmiq.audit.streams import Packs
from farmiq.console.neighbours import Neighbours, Refused
from farmiq.contracts import event_types
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
            elif event.event_type == event_types.TELEMETRY_INGESTED and event.device_id is not None:
                self.singles[event.device_id, event.is_dead] += 1
                self.old_singles[event.device_id] += event.occurred_at is None or event.occurred_at < self._asked_at
            elif event.stream_id and event.first_seq:
                first = int(event.first_seq)
                spans = self._spans.setdefault((UUID(event.stream_id), event.is_dead), [])
                spans.append((first, first + (event.samples or 0)))
        self._spans = {key: normalise(spans) for key, spans in self._spans.items()}

    @property
    def packs(self) -> dict[UUID, Packs]:
        """Which samples are in packs, by stream."""
        return {
            stream_id: Packs(*(normalise(self._spans.get((stream_id, is_dead), [])) for is_dead in (False, True)))
            for stream_id, _ in self._spans
        }

    def others(self, *, is_dead: bool) -> dict[str, int]:
        """Events that are no samples, by type."""
        return {name: count for (name, dead), count in self._others.items() if dead is is_dead}


async def outbox(neighbours: Neighbours, tenant_id: str, asked_at: datetime, device_id: str | None = None) -> Outbox:
    """All of it, or all of one device, however long an outage was: what is not on the list is not in the outbox."""
    found = Outbox(asked_at)
    after: UUID | None = None
    while True:
        page = await neighbours.get(SYNC, "/api/v1/sync/waiting", answers.Waiting, tenant_id=tenant_id, after=after)
        found.add([event for event in page.events if device_id in (None, event.device_id)])
        if page.is_complete:
            return found
        if page.next is None:
            raise Refused(SYNC, 200, "outbox_cut", f"{SYNC} lists only a part of its outbox: it needs an update")
        after = page.next
