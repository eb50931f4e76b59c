"""What the cloud holds: devices and weigh sessions that belong to another edge until a person moves them.

Their events wait outside the claim. Every few seconds one event of each comes back and asks again; when it is taken, the others
follow at once. So a backlog that is held costs neither the uplink nor anybody else's events. Which events are held is in their
rows: what is in memory here only keeps them off the uplink."""

import random
from collections.abc import Sequence
from typing import Final

from farmiq.edge.alerts import Kind, close_alert, open_alerts, raise_alert
from farmiq.kit.clock import Clock
from farmiq.kit.postgres import Connection
from farmiq.outbox.event import ClaimedEvent
from farmiq.outbox.held import HELD_CODES, SUBJECTS_MAX, HeldRows, Subject, subject_of
from farmiq.outbox.verdicts import Held

PROBE_SECONDS: Final = 10.0
WAIT_SECONDS_MIN: Final = 1_200.0
WAIT_SECONDS_MAX: Final = 3_600.0
"""Should nobody bring them back, they come by themselves, spread over a time in which others' events are hardly delayed."""

ALERTS_MAX: Final = 100
ALERT: Final[Kind] = "device_of_another_edge"
GRANT_ALERT: Final[Kind] = "tenant_not_granted"
_ALERT_KEY: Final = "held:"


class HeldSubjects:
    """As this replica knows them; every replica learns from the rows what the others have met."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng
        self._probe_at: dict[Subject, float] = {}
        self._whys: dict[Subject, Held] = {}

    def learn(self, rows: Sequence[HeldRows]) -> None:
        """After a restart, or from another replica. What no row is about any more is forgotten."""
        known = {subject: row for row in rows if (subject := row.subject) is not None}
        if len(rows) < SUBJECTS_MAX:
            for subject in self._probe_at.keys() - known.keys():
                self._forget(subject)
        for subject in known.keys() - self._probe_at.keys():
            # Rows that are in flight may be on their way into the cloud.
            if known[subject].parked:
                self._probe_at[subject] = self._clock.monotonic()
                self._whys[subject] = Held(subject.code, known[subject].message or "")

    def hold_of(self, event: ClaimedEvent) -> Held | None:
        """Why this event is not sent now, or None: then it goes out, and if its subject is held, it is the one that asks."""
        now = self._clock.monotonic()
        for subject in self._subjects(event):
            if now < self._probe_at[subject]:
                return self._whys[subject]
            self._probe_at[subject] = now + PROBE_SECONDS
        return None

    def seconds_until_retry(self, event: ClaimedEvent, why: Held) -> float:
        """How long the cloud's answer makes the event wait. From now on the others of its subject wait with it."""
        subject = subject_of(why.code, event.tenant_id, event.device_id, event.session_id)
        if subject is not None:
            self._probe_at.setdefault(subject, self._clock.monotonic() + PROBE_SECONDS)
            self._whys[subject] = why
        return self.wait_seconds()

    def wait_seconds(self) -> float:
        return self._rng.uniform(WAIT_SECONDS_MIN, WAIT_SECONDS_MAX)

    def freed_by(self, accepted: Sequence[ClaimedEvent]) -> list[Subject]:
        """Subjects of which the cloud has taken something. They are no longer held here."""
        freed = {subject for event in accepted for subject in self._subjects(event)}
        for subject in freed:
            self._forget(subject)
        return list(freed)

    def _subjects(self, event: ClaimedEvent) -> list[Subject]:
        if not self._probe_at:
            return []
        named = (subject_of(code, event.tenant_id, event.device_id, event.session_id) for code in HELD_CODES)
        return [subject for subject in named if subject is not None and subject in self._probe_at]

    def _forget(self, subject: Subject) -> None:
        del self._probe_at[subject]
        del self._whys[subject]


async def keep_alerts(connection: Connection, rows: Sequence[HeldRows]) -> None:
    """One alert for a device or session for as long as something of it is held: of many, those that have waited longest."""
    longest = sorted(rows, key=lambda row: row.since)[:ALERTS_MAX]
    current = {(row.tenant_id, _key(row)) for row in longest}
    for row in longest:
        subject = (row.message or f"{row.device_id} belongs to another edge")[:300]
        evidence = {"device_id": row.device_id, "code": row.code, "reason": row.message, "events": row.events}
        await raise_alert(connection, ALERT, subject, _key(row), evidence, row.tenant_id)
    for tenant_id, key in await open_alerts(connection, ALERT):
        if (tenant_id, key) not in current:
            await close_alert(connection, key, tenant_id)


async def keep_grant_alerts(connection: Connection, refused_tenants: Sequence[str], edge_cluster_id: str) -> None:
    """One alert for a tenant for as long as the cloud refuses its batches with 403: this edge may not deliver for it."""
    for tenant_id in refused_tenants:
        command = f"farmiq edge grant {edge_cluster_id} --tenant {tenant_id}"
        subject = f"the cloud takes nothing of tenant {tenant_id} from edge {edge_cluster_id}: {command}"
        await raise_alert(connection, GRANT_ALERT, subject, GRANT_ALERT, {"command": command}, tenant_id)
    for refused, key in await open_alerts(connection, GRANT_ALERT):
        if refused not in refused_tenants:
            await close_alert(connection, key, refused)


def _key(row: HeldRows) -> str:
    return f"{_ALERT_KEY}{row.code}:{row.session_id or row.device_id}"
