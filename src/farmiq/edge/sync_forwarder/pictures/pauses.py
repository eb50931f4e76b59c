"""Which tenants' pictures wait because the cloud or the store could not be reached. Pure; each replica has its own.

As for events: longer with every failure, then one picture as a probe. A tenant of its own, because a token that is not good for
one tenant is good for the others.
"""

from msgspec import Struct

from farmiq.edge.sync_forwarder.breaker import pause_seconds


class _Pause(Struct, frozen=True):
    failures: int
    until: float


class Pauses:
    def __init__(self, cap_seconds: float) -> None:
        self._cap_seconds = cap_seconds
        self._pauses: dict[str, _Pause] = {}

    def __len__(self) -> int:
        return len(self._pauses)

    def may_send(self, tenant_id: str, now: float, *, is_under_way: bool) -> bool:
        pause = self._pauses.get(tenant_id)
        return pause is None or (now >= pause.until and not is_under_way)

    def begin(self, tenant_id: str, now: float, retry_after_seconds: float | None, jitter: float) -> float:
        """Returns its length. Pictures that were all under way when the link went down have seen one failure, not several."""
        known = self._pauses.get(tenant_id, _Pause(0, now))
        failures = known.failures + (1 if now >= known.until else 0)
        seconds = pause_seconds(failures, retry_after_seconds, self._cap_seconds, jitter)
        self._pauses[tenant_id] = _Pause(failures, max(known.until, now + seconds))
        return seconds

    def end(self, tenant_id: str) -> None:
        self._pauses.pop(tenant_id, None)

    def cut_short(self, now: float) -> None:
        """An operator wants it tried now."""
        self._pauses = {tenant_id: _Pause(pause.failures, now) for tenant_id, pause in self._pauses.items()}

    def next_seconds(self, now: float) -> float | None:
        """How long until the first pause that is not over ends; None when there is none."""
        return min((pause.until - now for pause in self._pauses.values() if pause.until > now), default=None)
