"""What a dead-letter queue holds, counted by reason and event type. Pure."""

from datetime import datetime

import msgspec

from farmiq.cloud.dead_letters.letters import Letter


class Group(msgspec.Struct):
    reason: str
    event_type: str
    count: int = 0
    first_failed_at: datetime | None = None
    last_failed_at: datetime | None = None
    example_detail: str = ""

    def add(self, letter: Letter) -> None:
        self.count += 1
        self.example_detail = self.example_detail or letter.detail
        if letter.failed_at is not None:
            self.first_failed_at = min(self.first_failed_at or letter.failed_at, letter.failed_at)
            self.last_failed_at = max(self.last_failed_at or letter.failed_at, letter.failed_at)


class Summary(msgspec.Struct, frozen=True):
    """`seen` is less than `messages` when the queue is longer than anybody wants to wait for."""

    service: str
    queue: str
    messages: int
    seen: int
    groups: list[Group]


class Groups:
    GROUPS_MAX = 1000

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], Group] = {}

    def add(self, letter: Letter) -> None:
        """Event types come from outside: the thousandth kind and all after it are counted together."""
        key = (letter.reason, letter.event_type)
        if key not in self._groups and len(self._groups) >= self.GROUPS_MAX:
            key = (letter.reason, "*")
        self._groups.setdefault(key, Group(*key)).add(letter)

    def largest_first(self) -> list[Group]:
        return sorted(self._groups.values(), key=lambda group: (-group.count, group.reason, group.event_type))
