"""What is left to send of one claim, and who is to blame when the cloud refuses a request. Pure.

A refused request is sent again in halves until an event fails alone: that one is charged an attempt. When three have failed
alone and nothing was answered in between, it is the cloud that fails and not an event, and looking further would only add
requests: from then on a refused request costs each of its events an attempt. Even then nobody is given up for what was said
about his neighbours: an event that has one attempt left is sent alone.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from farmiq.edge.sync_forwarder.answers import Refused
from farmiq.edge.sync_forwarder.envelopes import Sealed, split

LONE_FAILURES_MAX: Final = 3


class Requests:
    def __init__(self, sealed: Sequence[Sealed], *, bytes_max: int, attempts_max: int) -> None:
        self._queue = deque(split(sealed, bytes_max))
        self._attempts_max = attempts_max
        self._lone_failures = 0

    @property
    def left(self) -> list[Sealed]:
        return [item for request in self._queue for item in request]

    def take(self) -> list[Sealed] | None:
        """The next request, None when there is nothing left."""
        return self._queue.popleft() if self._queue else None

    def answered(self) -> None:
        """The cloud judged a request event by event: it is well."""
        self._lone_failures = 0

    def refused(self, request: Sequence[Sealed], answer: Refused) -> list[Sealed]:
        """The events that are charged for it now. What else was in the request stands at the front of the queue again."""
        if len(request) == 1:
            self._lone_failures += not answer.is_too_large
            return list(request)
        if answer.is_too_large or self._lone_failures < LONE_FAILURES_MAX:
            self._queue.extendleft(reversed(halves(request)))
            return []
        is_last = [item.event.attempt_count + 1 >= self._attempts_max for item in request]
        self._queue.extendleft([item] for item, last in reversed(list(zip(request, is_last, strict=True))) if last)
        return [item for item, last in zip(request, is_last, strict=True) if not last]


def halves(request: Sequence[Sealed]) -> tuple[list[Sealed], list[Sealed]]:
    """By bytes, so that halving also ends what is too large. Neither half is empty."""
    total = sum(len(item.body) for item in request)
    size, cut = 0, 0
    while cut < len(request) - 1 and 2 * size < total:
        size += len(request[cut].body)
        cut += 1
    return list(request[:cut]), list(request[cut:])
