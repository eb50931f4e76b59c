"""The edge's outbox, page by page until all of it is known."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

import pytest

from farmiq.audit.answers import Waiting, WaitingEvent
from farmiq.audit.outbox import outbox
from farmiq.audit.streams import Packs
from farmiq.console.neighbours import Neighbours, Refused

STREAM = UUID(int=7)
AT = datetime(2026, 11, 1, 12, tzinfo=UTC)


def pack(first_seq: int, *, is_dead: bool = False) -> WaitingEvent:
    return WaitingEvent(
        "telemetry.batch.ingested", is_dead, "node-1", stream_id=str(STREAM), first_seq=str(first_seq), samples=10
    )


class Pages:
    """Answers one after the other."""

    def __init__(self, pages: Sequence[Waiting]) -> None:
        self.pages = list(pages)
        self.after: list[UUID | None] = []

    async def get(self, _service: str, _path: str, _kind: type[Waiting], **parameters: Any) -> Waiting:
        self.after.append(parameters["after"])
        return self.pages.pop(0)


async def test_every_page_of_a_long_outage_is_read() -> None:
    single = WaitingEvent("telemetry.ingested", False, "node-1", occurred_at=AT - timedelta(seconds=1))
    new = WaitingEvent("telemetry.ingested", False, "node-1", occurred_at=AT)
    ended = WaitingEvent("weighvision.session.finalized", True, "station-1", session_id=UUID(int=3))
    pages = Pages(
        [
            Waiting([pack(1), single], is_complete=False, next=UUID(int=1)),
            Waiting([pack(11), new], is_complete=False, next=UUID(int=2)),
            Waiting([pack(31, is_dead=True), ended], is_complete=True),
        ]
    )
    found = await outbox(cast("Neighbours", pages), "demo", AT)
    assert pages.after == [None, UUID(int=1), UUID(int=2)]
    assert found.packs() == {STREAM: Packs([(1, 21)], [(31, 41)])}
    assert found.singles == {("node-1", False): 2}
    assert found.old_singles == {"node-1": 1}
    assert found.sessions == {UUID(int=3)}
    assert (found.others(is_dead=False), found.others(is_dead=True)) == ({}, {"weighvision.session.finalized": 1})


async def test_an_outbox_of_which_only_a_part_is_told_is_not_taken_for_the_whole() -> None:
    cut = Pages([Waiting([pack(1)], is_complete=False)])
    with pytest.raises(Refused, match="only a part of its outbox"):
        await outbox(cast("Neighbours", cut), "demo", AT)
