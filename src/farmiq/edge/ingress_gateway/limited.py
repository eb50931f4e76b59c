"""Who was limited in the last hour, for the console, `farmiq status` and whoever asks. Pure: times are passed in.

In memory, and of this replica: it is a view of what goes on, and after a restart it begins anew."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from farmiq.edge.disk import State
from farmiq.edge.ingress_gateway.quotas import Reason, Sender, Throttled

KEPT: Final = timedelta(hours=1)
SENDERS_MAX: Final = 1_000
"""Beyond that the ones that were limited longest ago are forgotten."""


class LimitedDevice(Struct, frozen=True):
    """`messages` were not taken in the last hour; the device has kept them. `shut_until`: until then nothing of it is taken."""

    tenant_id: str
    device_id: str
    messages: int
    reason: Reason
    last_at: datetime
    shut_until: datetime | None


class Limits(Struct, frozen=True):
    """`disk` is `low` when devices that sent more than their part are stopped, and `full` when all are."""

    disk: State
    limited: list[LimitedDevice]


class _Record(Struct):
    minutes: dict[datetime, int]
    reason: Reason
    last_at: datetime
    shut_until: datetime | None


class Limited:
    def __init__(self) -> None:
        self._records: dict[Sender, _Record] = {}

    def note(self, put_off: Sequence[Throttled], now: datetime) -> None:
        minute = now.replace(second=0, microsecond=0)
        for one in put_off:
            record = self._records.pop(one.sender, None) or _Record({}, one.reason, now, None)
            self._records[one.sender] = record
            record.minutes[minute] = record.minutes.get(minute, 0) + one.messages
            record.reason, record.last_at = one.reason, now
            record.shut_until = now + timedelta(seconds=one.retry_after_seconds) if one.is_shut_out else None
        while len(self._records) > SENDERS_MAX:
            self._records.pop(next(iter(self._records)))

    def of_last_hour(self, now: datetime) -> list[LimitedDevice]:
        """The ones that were limited last come first."""
        self._forget_before(now - KEPT)
        return [
            LimitedDevice(
                *sender,
                sum(record.minutes.values()),
                record.reason,
                record.last_at,
                record.shut_until if record.shut_until is not None and record.shut_until > now else None,
            )
            for sender, record in reversed(self._records.items())
        ]

    def _forget_before(self, moment: datetime) -> None:
        for sender, record in list(self._records.items()):
            record.minutes = {minute: count for minute, count in record.minutes.items() if minute >= moment}
            if not record.minutes:
                del self._records[sender]
