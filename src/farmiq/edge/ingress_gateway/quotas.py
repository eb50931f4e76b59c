"""How much a device and a tenant may send, and who has sent the most. Pure: times are passed in.

The broker gives the gateway one queue for all devices. What is over a limit is passed over before it costs a transaction, so a
device that floods the queue delays the others by the time that it takes to read its messages, and no longer. Such a message is
neither stored nor acknowledged to its device: it stays where it is, and the device sends it again. One that goes on sending more
than twice its rate is shut out for a while, and comes back by itself.

Each replica of the gateway counts what it has received itself."""

from collections import Counter
from collections.abc import Sequence
from math import exp
from typing import Final, Literal

from msgspec import Struct

from farmiq.edge.disk import FAIR_PART
from farmiq.kit.mqtt import Message

Sender = tuple[str, str]
"""Tenant, and the device or station, as the topic names them: the broker lets a device publish under its own name only."""

UNKNOWN: Final[Sender] = ("", "")
"""Whoever published on a topic that names nobody."""
DAY_SECONDS: Final = 86_400.0
SENDERS_MAX: Final = 50_000
"""Beyond that the ones that were quiet for longest are forgotten, with what they had spent."""


class Limit(Struct, frozen=True):
    messages_per_second: float
    bytes_per_second: float
    burst_seconds: float
    """So many seconds' worth may come at once."""

    def times(self, factor: float) -> "Limit":
        return Limit(self.messages_per_second * factor, self.bytes_per_second * factor, self.burst_seconds)


class Budget:
    """Messages and bytes that are left to somebody; both refill with time."""

    def __init__(self, limit: Limit, now: float) -> None:
        self._limit = limit
        self._messages = limit.messages_per_second * limit.burst_seconds
        self._bytes = limit.bytes_per_second * limit.burst_seconds
        self._at = now

    def spend(self, size: int, now: float) -> bool:
        """False when it is used up: then nothing is spent."""
        limit, elapsed = self._limit, max(0.0, now - self._at)
        self._at = now
        full = limit.burst_seconds
        self._messages = min(limit.messages_per_second * full, self._messages + elapsed * limit.messages_per_second)
        self._bytes = min(limit.bytes_per_second * full, self._bytes + elapsed * limit.bytes_per_second)
        if self._messages < 1 or self._bytes < size:
            return False
        self._messages -= 1
        self._bytes -= size
        return True


class _Meter:
    """One sender: what it may send, and how much beyond that is still patience and not a flood."""

    def __init__(self, limit: Limit, now: float) -> None:
        self.allowed = Budget(limit, now)
        self.tolerated = Budget(limit, now)
        self.shut_until = 0.0
        self.bytes_of_day = 0.0
        self._counted_at = now

    def count(self, size: int, now: float) -> None:
        self.bytes_of_day = self.bytes_until(now) + size
        self._counted_at = now

    def bytes_until(self, now: float) -> float:
        """Older bytes count less and less: those of a day ago a third."""
        return self.bytes_of_day * exp((self._counted_at - now) / DAY_SECONDS)


Reason = Literal["rate", "streams", "disk", "not_provisioned", "stream_of_another_device"]
"""The last two: all that the device sends is put off, until a person has put the register right."""


class Throttled(Struct, frozen=True):
    """Messages of one sender that were not taken now. `retry_after_seconds`: when trying again makes sense."""

    sender: Sender
    messages: int
    retry_after_seconds: float
    is_shut_out: bool = False
    reason: Reason = "rate"


class Quotas:
    def __init__(self, device: Limit, tenant: Limit, shut_out_seconds: float) -> None:
        self._device = device
        self._tenant = tenant
        self._shut_out_seconds = shut_out_seconds
        self._meters: dict[Sender, _Meter] = {}
        self._tenants: dict[str, Budget] = {}

    def admit(self, messages: Sequence[Message], now: float) -> tuple[list[Message], list[Throttled]]:
        """Those within the limits, in their order, and what became of the others."""
        admitted: list[Message] = []
        passed_over: Counter[Sender] = Counter()
        for message in messages:
            sender = sender_of(message.topic)
            if self._is_within(sender, len(message.payload), now):
                admitted.append(message)
            else:
                passed_over[sender] += 1
        self._forget_quiet()
        return admitted, [self._throttled(sender, count, now) for sender, count in passed_over.items()]

    def _is_within(self, sender: Sender, size: int, now: float) -> bool:
        meter = self._meters.pop(sender, None) or _Meter(self._device, now)
        self._meters[sender] = (
            meter  # last in the order of the dictionary: the first is the one that was quiet for longest
        )
        if now < meter.shut_until:
            return False
        if not meter.allowed.spend(size, now):
            if not meter.tolerated.spend(size, now):
                meter.shut_until = now + self._shut_out_seconds
            return False
        tenant = self._tenants.setdefault(sender[0], Budget(self._tenant, now))
        if not tenant.spend(size, now):
            return False
        meter.count(size, now)
        return True

    def heaviest(self, now: float) -> frozenset[Sender]:
        """Who sent clearly more than its part of the bytes of the last day. Nobody, where all send alike."""
        sent = {sender: meter.bytes_until(now) for sender, meter in self._meters.items()}
        fair = FAIR_PART * sum(sent.values()) / max(1, len(sent))
        return frozenset(sender for sender, size in sent.items() if size > fair)

    def _throttled(self, sender: Sender, count: int, now: float) -> Throttled:
        shut_seconds = self._meters[sender].shut_until - now if sender in self._meters else 0.0
        return Throttled(sender, count, max(1.0, shut_seconds), is_shut_out=shut_seconds > 0)

    def _forget_quiet(self) -> None:
        while len(self._meters) > SENDERS_MAX:
            self._meters.pop(next(iter(self._meters)))
        while len(self._tenants) > SENDERS_MAX:
            self._tenants.pop(next(iter(self._tenants)))


def sender_of(topic: str) -> Sender:
    """`iot/{kind}/{tenant}/{farm}/{barn}/{device}/...`, without checking anything: a malformed topic is refused later."""
    levels = topic.split("/", 6)
    return (levels[2], levels[5]) if len(levels) > 5 else UNKNOWN
