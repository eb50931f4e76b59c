"""Where each tenant's claims have got to. Pure.

While somebody holds an old snapshot (a report, a backup, a forgotten session), nothing that was claimed can be removed from the
claim index, and a claim that begins at its head looks at every such entry. A claim with a floor begins where the last one ended.
What lies below a floor, with an older time, without one, or of a priority that was not seen yet, is found by a claim without:
`FullLook` says when.
"""

from collections.abc import Sequence
from typing import Final

from farmiq.outbox.claim import Floor
from farmiq.outbox.event import ClaimedEvent

REST_FACTOR: Final = 10
REST_SECONDS_MAX: Final = 1.0


class Floors:
    def __init__(self) -> None:
        self._floors: dict[str, dict[int, Floor]] = {}

    @property
    def tenants(self) -> list[str]:
        return sorted(self._floors)

    def of(self, tenant_id: str) -> list[Floor]:
        """The highest priority first, as a claim takes them."""
        known = self._floors.get(tenant_id, {})
        return [known[priority] for priority in sorted(known, reverse=True)]

    def claimed(self, tenant_id: str, events: Sequence[ClaimedEvent]) -> None:
        """The floors move to the last of them, in the order of the claim: down again where older ones were found."""
        known = self._floors.setdefault(tenant_id, {})
        for event in events:
            if event.is_time_known:
                known[event.priority] = Floor(event.priority, event.occurred_at)

    def forget_others(self, tenant_ids: Sequence[str]) -> None:
        """Only these have something to send: a tenant that is gone is not asked for again and again."""
        self._floors = {tenant_id: self._floors.get(tenant_id, {}) for tenant_id in tenant_ids}


class FullLook:
    """Rests ten times as long as it took, a second at most: it costs a tenth of the time, however much it has to walk over.

    One that found something may be worth another at once: what lies below the floors can be a backlog too.
    """

    def __init__(self) -> None:
        self._due_at = float("-inf")
        self.has_found = False

    def is_due(self, now: float) -> bool:
        return now >= self._due_at

    def due_in_seconds(self, now: float) -> float:
        return max(0.0, self._due_at - now)

    def done(self, now: float, took_seconds: float, *, has_found: bool) -> None:
        self._due_at = now + min(REST_SECONDS_MAX, REST_FACTOR * took_seconds)
        self.has_found = has_found

    def hurry(self) -> None:
        self._due_at = float("-inf")
