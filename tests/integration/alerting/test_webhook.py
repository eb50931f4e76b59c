"""The way out: real calls to a real receiver."""

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from farmiq.alerting.alert import Cause
from farmiq.alerting.changes import Change
from farmiq.alerting.counters import Counters
from farmiq.alerting.courier import WAIT_SECONDS_MAX, carry_notices, wait_seconds
from farmiq.alerting.evaluation import Firing
from farmiq.alerting.store import AlertStore
from farmiq.alerting.webhook import Webhook
from farmiq.kit.lifecycle import Lifetime
from farmiq.stack.ports import free_port
from support.alert_world import MovedClock, receiving
from support.waiting import eventually

DOWN = Firing(Cause("FarmiqServiceDown", (("job", "edge-media-store"),)), "critical", 0.0, False)


class Out:
    """An alert that was raised, and what carries it out."""

    def __init__(self, folder: Path, runbook: str | None = None) -> None:
        self.clock = MovedClock()
        self.life = Lifetime("console", self.clock)
        self.store = AlertStore(folder, runbook=runbook)
        self.counters = Counters(self.life.registry)
        self.store.apply([Change(what="raised", firing=DOWN)], self.clock.now(), is_told=True)

    def count(self, outcome: str) -> float | None:
        return self.life.registry.get_sample_value("farmiq_alert_notices_total", {"outcome": outcome})

    @asynccontextmanager
    async def carrying(self, webhook: Webhook) -> AsyncIterator[None]:
        task = asyncio.create_task(carry_notices(self.life, self.store, webhook, self.counters, look_seconds=0.01))
        try:
            yield
        finally:
            self.life.stopping.set()
            await task

    async def was_put_off(self) -> bool:
        return self.count("put_off") == 1

    async def is_empty(self) -> bool:
        return self.store.notices_waiting() == 0


@pytest.fixture
def out(tmp_path: Path) -> Iterator[Out]:
    out = Out(tmp_path)
    yield out
    out.store.close()


async def test_an_alert_is_told_with_a_signature_that_the_receiver_can_check(out: Out) -> None:
    async with receiving() as receiver, out.carrying(Webhook(receiver.url, "known to both")):
        await eventually(out.is_empty)
    ((headers, body),) = receiver.calls
    signed = hmac.new(b"known to both", headers["x-farmiq-timestamp"].encode() + b"." + body, hashlib.sha256)
    assert headers["x-farmiq-signature"] == f"sha256={signed.hexdigest()}"
    (notice,) = receiver.notices
    assert headers["x-farmiq-notice-id"] == notice.id
    assert (notice.what, notice.alert.name, notice.alert.severity) == ("raised", "FarmiqServiceDown", "critical")
    assert notice.alert.labels == {"job": "edge-media-store"}
    assert notice.alert.runbook_url == "docs/operations/runbook.md#farmiqservicedown"
    assert out.count("taken") == 1


async def test_a_published_runbook_is_what_a_notice_leads_to(tmp_path: Path) -> None:
    out = Out(tmp_path, "https://docs.example/operations/runbook/")
    async with receiving() as receiver, out.carrying(Webhook(receiver.url)):
        await eventually(out.is_empty)
    out.store.close()
    (notice,) = receiver.notices
    assert notice.alert.runbook_url == "https://docs.example/operations/runbook/#farmiqservicedown"


async def test_a_receiver_that_fails_is_told_the_same_again(out: Out) -> None:
    async with receiving(web.Response(status=503)) as receiver, out.carrying(Webhook(receiver.url)):
        await eventually(out.was_put_off)
        assert out.store.due_notice(out.clock.now()) is None, "not at once"
        out.clock.move(seconds=wait_seconds(0))
        await eventually(out.is_empty)
    first, second = receiver.notices
    assert first == second
    assert "x-farmiq-signature" not in receiver.calls[0][0]


async def test_a_redirect_is_not_followed(out: Out) -> None:
    async with (
        receiving() as elsewhere,
        receiving(web.Response(status=307, headers={"location": elsewhere.url})) as receiver,
        out.carrying(Webhook(receiver.url, "a secret")),
    ):
        await eventually(out.was_put_off)
    assert elsewhere.calls == []
    assert out.store.notices_waiting() == 1


async def test_a_receiver_that_is_away_for_a_day_is_given_up_and_the_alert_stays(out: Out) -> None:
    async with out.carrying(Webhook(f"http://127.0.0.1:{free_port()}/told")):
        await eventually(out.was_put_off)
        out.clock.move(days=1)
        await eventually(out.is_empty)
    assert out.count("given_up") == 1
    assert [alert.status for alert in out.store.not_closed()] == ["open"]


def test_the_waits_grow_to_ten_minutes() -> None:
    waits = [wait_seconds(attempts) for attempts in range(12)]
    assert waits == sorted(waits)
    assert (waits[0], waits[-1], wait_seconds(10_000)) == (5.0, WAIT_SECONDS_MAX, WAIT_SECONDS_MAX)
