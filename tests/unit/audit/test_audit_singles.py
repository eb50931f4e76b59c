"""Single readings have no sequences: they are counted while more of them arrive, and while they move."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from msgspec import Struct

from farmiq.audit.balance import Balance, Reading, TenantReading
from farmiq.audit.device_reading import DeviceReading, Situation
from farmiq.audit.rounds import PAUSES_SECONDS, look_until_sure
from farmiq.timeseries.accounts import DeviceAccount
from farmiq.timeseries.hours import HourRow

ASKED_AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Single(Struct):
    """`sent_at` is None until it has left the outbox. A lost one was sent, and never arrives."""

    measured_at: datetime
    arrived_at: datetime
    sent_at: datetime | None = None
    is_lost: bool = False
    is_dead: bool = False


class Farm:
    """Readings arrive, leave the outbox in order, and are in the cloud a moment later. Every question takes time."""

    def __init__(self, *, arriving: float, leaving: float, question_seconds: float = 0.4) -> None:
        """So many in a second."""
        self.now = ASKED_AT - timedelta(seconds=60)
        self.arriving, self.leaving, self.question_seconds = arriving, leaving, question_seconds
        self.singles: list[Single] = []
        self.retired = 0
        self._owed = [0.0, 0.0]

    def backlog(self, readings: int) -> None:
        self.singles += [Single(self.now - HOUR, self.now) for _ in range(readings)]

    def live(self, seconds: float) -> None:
        """In steps of a hundredth of a second."""
        for _ in range(round(seconds * 100)):
            self.now += timedelta(seconds=0.01)
            self._owed = [self._owed[0] + self.arriving / 100, self._owed[1] + self.leaving / 100]
            while self._owed[0] >= 1:
                self._owed[0] -= 1
                self.singles.append(Single(self.now - timedelta(seconds=0.05), self.now))
            waiting = (
                [one for one in self.singles if one.sent_at is None and not one.is_dead] if self._owed[1] >= 1 else []
            )
            for one in waiting[: int(self._owed[1])]:
                one.sent_at = self.now
            self._owed[1] %= 1

    async def pause(self, seconds: float) -> None:
        self.live(seconds)

    async def look(self) -> Reading:
        """The bus is asked when it has just been emptied."""
        cloud = self._account(one for one in self.singles if self._is_stored(one))
        self.live(self.question_seconds)
        outbox = [one for one in self.singles if one.sent_at is None]
        self.live(self.question_seconds)
        device = DeviceReading(
            device_id="node-1",
            cloud=cloud,
            edge=self._account(self.singles, self.retired),
            single_waiting=sum(not one.is_dead for one in outbox),
            single_dead=sum(one.is_dead for one in outbox),
            single_old_in_outbox=sum(one.measured_at < ASKED_AT for one in outbox),
        )
        self.live(self.question_seconds)
        tenant = TenantReading(situation=Situation(tenant_id="demo", retired={"edge": self.retired}), devices=[device])
        return Reading(asked_at=ASKED_AT, since=ASKED_AT - 24 * HOUR, until=ASKED_AT + HOUR, tenants=[tenant])

    def _is_stored(self, one: Single) -> bool:
        return one.sent_at is not None and one.sent_at <= self.now - timedelta(seconds=0.2) and not one.is_lost

    def _account(self, singles: Iterable[Single], retired: int = 0) -> DeviceAccount:
        known = list(singles)
        hours: dict[datetime, int] = {}
        for one in known:
            hour_at = one.measured_at.replace(minute=0, second=0, microsecond=0)
            hours[hour_at] = hours.get(hour_at, 0) + 1
        rows = [HourRow("node-1", hour_at, stored) for hour_at, stored in sorted(hours.items())]
        samples = len(known) - retired
        late = sum(one.measured_at >= ASKED_AT for one in known)
        return DeviceAccount("node-1", samples, samples, [], rows, single_rows=None, single_since=late)


AT_EVERY_PACE = pytest.mark.parametrize(
    ("arriving", "question_seconds", "retired"), list(product([0.5, 7.0, 100.0], [0.05, 0.4, 1.5], [0, 40]))
)


async def audited(farm: Farm) -> tuple[Balance, dict[str, int]]:
    verdict = await look_until_sure(farm.look, farm.pause)
    parts = verdict.stored + verdict.lost + verdict.in_flight + verdict.dead_lettered + verdict.unexplained
    assert verdict.captured == parts
    return verdict, {finding.kind: finding.count for finding in verdict.findings}


@AT_EVERY_PACE
async def test_readings_that_arrive_between_the_questions_each_time_are_not_missing(
    arriving: float, question_seconds: float, retired: int
) -> None:
    farm = Farm(arriving=arriving, leaving=1000.0, question_seconds=question_seconds)
    farm.live(60)
    farm.retired = min(retired, len(farm.singles))
    assert (await audited(farm))[1] == {}


@pytest.mark.parametrize("arriving", [0.0, 20.0])
@pytest.mark.parametrize("leaving", [5.0, 30.0])
async def test_a_backlog_that_empties_while_it_is_asked_is_not_missing(arriving: float, leaving: float) -> None:
    farm = Farm(arriving=arriving, leaving=1000.0)
    farm.live(58)
    farm.leaving = leaving
    farm.backlog(2000)
    farm.live(2)
    assert (await audited(farm))[1] == {}


@AT_EVERY_PACE
async def test_one_that_is_really_missing_is_found_among_those_that_arrive(
    arriving: float, question_seconds: float, retired: int
) -> None:
    farm = Farm(arriving=arriving, leaving=1000.0, question_seconds=question_seconds)
    farm.live(60)
    farm.retired = min(retired, len(farm.singles) - 1)
    farm.singles[7].is_lost = True
    verdict, found = await audited(farm)
    assert (found, verdict.unexplained) == ({"single_missing": 1}, 1)


@pytest.mark.parametrize("retired", [0, 40])
async def test_in_an_outage_readings_wait_and_those_given_up_and_lost_before_are_told(retired: int) -> None:
    farm = Farm(arriving=10.0, leaving=1000.0)
    farm.live(50)
    farm.leaving = 0.0
    farm.live(10)
    farm.retired = retired
    verdict, found = await audited(farm)
    assert (found, verdict.in_flight_at["edge_outbox"] > 99) == ({}, True)
    farm.singles[7].is_lost = True
    dead = next(one for one in farm.singles if one.sent_at is None)
    dead.is_dead = True
    _, found = await audited(farm)
    assert found == {"single_missing": 1, "dead_letter": 1}


async def test_nobody_is_asked_longer_than_it_takes_what_was_there_at_first_to_arrive() -> None:
    farm = Farm(arriving=100.0, leaving=1000.0)
    farm.live(60)
    began = farm.now
    await audited(farm)
    assert farm.now - began < timedelta(seconds=sum(PAUSES_SECONDS))
