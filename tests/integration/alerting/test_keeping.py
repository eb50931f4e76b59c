"""From the metrics of real services to alerts in the file."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from prometheus_client import CollectorRegistry, Counter, Gauge

from farmiq.alerting.counters import Counters
from farmiq.alerting.keeping import Watch, keep_alerts
from farmiq.alerting.store import FILE, AlertStore
from farmiq.kit.lifecycle import Lifetime
from farmiq.stack.ports import free_port
from support.alert_world import MovedClock, showing
from support.waiting import eventually

SYNC = "edge-sync-forwarder"


class Shown:
    """What the service under watch shows."""

    def declare(self, registry: CollectorRegistry) -> None:
        self.oldest = Gauge("oldest_pending_age_seconds", "x", registry=registry)
        self.dead = Gauge("outbox_dlq_total", "x", registry=registry)
        self.lost = Counter("farmiq_samples_lost", "x", ["cause"], registry=registry)
        self.lost.labels("damaged").inc(40)


class Console:
    """What watches: as often killed and started as the test wants."""

    def __init__(self, folder: Path, targets: dict[str, str]) -> None:
        self.clock = MovedClock()
        self._folder = folder
        self.targets = targets
        self.store = AlertStore(folder)
        self._begin()

    def _begin(self) -> None:
        self.life = Lifetime("console", self.clock)
        self.counters = Counters(self.life.registry)
        self.watch = Watch(self.life, self.targets, self.store, self.counters, is_told=True)

    def start_again(self) -> None:
        self.store.close()
        self.store = AlertStore(self._folder)
        self._begin()

    async def look(self, session: aiohttp.ClientSession, **later: float) -> dict[str, str]:
        """The status of every alert that is not closed, after a look that much later."""
        self.clock.move(**later)
        await self.watch.look(session)
        return {alert.rule: f"{alert.severity} {alert.status}" for alert in self.store.not_closed()}


@pytest.fixture
def shown() -> Shown:
    return Shown()


@pytest_asyncio.fixture
async def url(shown: Shown) -> AsyncIterator[str]:
    async with showing(SYNC, shown.declare) as url:
        yield url


@pytest_asyncio.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def console(tmp_path: Path, url: str) -> Iterator[Console]:
    console = Console(tmp_path, {SYNC: url})
    yield console
    console.store.close()


async def test_an_alert_opens_gets_worse_and_closes_with_its_cause(
    console: Console, shown: Shown, session: aiohttp.ClientSession
) -> None:
    assert await console.look(session) == {}
    shown.oldest.set(3601)
    assert await console.look(session) == {"FarmiqDataDelayed": "warning open"}
    (alert,) = console.store.not_closed()
    console.store.acknowledge(alert.id, "ann", "uplink is being repaired", console.clock.now())
    assert await console.look(session) == {"FarmiqDataDelayed": "warning acknowledged"}
    shown.oldest.set(90_000)
    assert await console.look(session) == {"FarmiqDataDelayed": "critical open"}
    shown.oldest.set(0)
    assert await console.look(session) == {}
    assert [one.status for one in console.store.alerts()] == ["closed"], "one cause, one alert"
    value = console.life.registry.get_sample_value("farmiq_alerts", {"status": "open", "severity": "critical"})
    assert value == 0


async def test_a_service_that_does_not_answer_is_an_alert_and_closes_nothing_else(
    console: Console, shown: Shown, session: aiohttp.ClientSession
) -> None:
    shown.dead.set(3)
    assert await console.look(session) == {"FarmiqOutboxDeadLetters": "critical open"}
    there = console.targets[SYNC]
    console.targets[SYNC] = f"http://127.0.0.1:{free_port()}"
    assert await console.look(session) == {"FarmiqOutboxDeadLetters": "critical open"}
    away = {"FarmiqOutboxDeadLetters": "critical open", "FarmiqServiceDown": "critical open"}
    assert await console.look(session, seconds=121) == away
    (down,) = [alert for alert in console.store.not_closed() if alert.rule == "FarmiqServiceDown"]
    assert down.summary == "edge-sync-forwarder does not answer"
    shown.dead.set(0)
    console.targets[SYNC] = there
    assert await console.look(session, seconds=15) == {}


async def test_a_restart_neither_closes_an_alert_nor_raises_it_twice(
    console: Console, shown: Shown, session: aiohttp.ClientSession
) -> None:
    shown.oldest.set(3601)
    await console.look(session)
    (before,) = console.store.not_closed()
    console.start_again()
    assert await console.look(session) == {"FarmiqDataDelayed": "warning open"}
    assert [alert.id for alert in console.store.alerts()] == [before.id]


async def test_what_was_lost_while_nobody_watched_is_an_alert_that_stays_until_somebody_knows(
    console: Console, shown: Shown, session: aiohttp.ClientSession
) -> None:
    assert await console.look(session) == {}, "what was lost before the first look is in the ledger"
    shown.lost.labels("damaged").inc(2)
    console.start_again()
    assert await console.look(session, hours=5) == {"FarmiqDataLost": "critical open"}
    assert await console.look(session, hours=2) == {"FarmiqDataLost": "critical open"}
    (alert,) = console.store.not_closed()
    assert (alert.labels, alert.value) == ({"cause": "damaged"}, 2.0)
    console.store.acknowledge(alert.id, "ann", "the node's disk was replaced", console.clock.now())
    assert await console.look(session) == {}


async def test_a_file_that_can_not_be_written_stops_nothing_and_is_made_up_for(
    tmp_path: Path, url: str, shown: Shown, capsys: pytest.CaptureFixture[str]
) -> None:
    store, life = AlertStore(tmp_path), Lifetime("console")
    store._connection.execute("PRAGMA busy_timeout = 0")
    other = sqlite3.connect(tmp_path / FILE)
    other.execute("BEGIN IMMEDIATE")
    shown.dead.set(1)
    keeping = asyncio.create_task(keep_alerts(life, {SYNC: url}, store, disks=[tmp_path], interval_seconds=0.02))

    async def was_refused() -> bool:
        return "alerts_not_written" in capsys.readouterr().out

    async def is_raised() -> bool:
        return [alert.rule for alert in store.not_closed()] == ["FarmiqOutboxDeadLetters"]

    await eventually(was_refused)
    assert store.not_closed() == []
    other.rollback()
    other.close()
    await eventually(is_raised)
    life.stopping.set()
    await keeping
    store.close()


async def test_more_that_is_lost_after_somebody_knew_is_told_again(
    console: Console, shown: Shown, session: aiohttp.ClientSession
) -> None:
    await console.look(session)
    shown.lost.labels("damaged").inc()
    await console.look(session)
    (alert,) = console.store.not_closed()
    console.store.acknowledge(alert.id, "ann", "seen", console.clock.now())
    assert await console.look(session, seconds=15) == {"FarmiqDataLost": "critical acknowledged"}
    shown.lost.labels("damaged").inc()
    assert await console.look(session, seconds=15) == {"FarmiqDataLost": "critical open"}
    assert [one.id for one in console.store.alerts()] == [alert.id]
