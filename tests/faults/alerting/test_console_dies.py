"""The console is killed with -9 between raising an alert and calling the webhook, on either side of the call."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Gauge

from farmiq.alerting.store import AlertStore
from support.alert_world import Receiver, receiving, showing
from support.service_process import Death, ServiceProcess
from support.waiting import eventually

SYNC = "edge-sync-forwarder"
DEATHS: list[tuple[Death, int]] = [
    (("farmiq.alerting.store:AlertStore.apply", "after", 1), 1),
    (("farmiq.alerting.courier:_tell", "before", 1), 1),
    (("farmiq.alerting.courier:_tell", "after", 1), 2),
    (("farmiq.alerting.store:AlertStore.end_notice", "after", 1), 1),
]


def declare(registry: CollectorRegistry) -> None:
    Gauge("outbox_dlq_total", "x", registry=registry).set(1)
    Gauge("oldest_pending_age_seconds", "x", registry=registry)


def console(folder: Path, url: str, receiver: Receiver, run_folder: Path, dies: Death | None = None) -> ServiceProcess:
    environ = {
        "CONSOLE_STATE_DIR": str(folder), "CONSOLE_TENANTS": "demo", "EDGE_SYNC_FORWARDER_URL": url,
        "ALERT_INTERVAL_SECONDS": "1", "ALERT_WEBHOOK_URL": receiver.url,
    }  # fmt: skip
    return ServiceProcess("console", environ, run_folder, folder / "console.log", dies)


async def die(doomed: ServiceProcess) -> None:
    with suppress(AssertionError):  # it may be dead before it answers, which is what it is for
        await asyncio.to_thread(doomed.start)
    await asyncio.to_thread(doomed.wait_for_death)


@pytest.mark.parametrize(("death", "calls"), DEATHS, ids=lambda value: value[0] if isinstance(value, tuple) else None)
async def test_an_alert_that_was_raised_is_told_although_the_console_died_in_between(
    death: Death, calls: int, tmp_path: Path, run_folder: Path
) -> None:
    async with receiving() as receiver, showing(SYNC, declare) as url:
        await die(console(tmp_path, url, receiver, run_folder, death))
        again = console(tmp_path, url, receiver, run_folder)
        await asyncio.to_thread(again.start)

        async def everything_is_told() -> bool:
            if len(receiver.calls) < calls:
                return False
            store = AlertStore(tmp_path)
            try:
                return store.notices_waiting() == 0
            finally:
                store.close()

        try:
            await eventually(everything_is_told, what="the webhook to be called")
        finally:
            await asyncio.to_thread(again.stop)
    assert len(receiver.calls) == calls
    assert len({notice.id for notice in receiver.notices}) == 1, "told twice, it has the same id"
    assert {(notice.what, notice.alert.name) for notice in receiver.notices} == {("raised", "FarmiqOutboxDeadLetters")}
    store = AlertStore(tmp_path)
    assert [alert.rule for alert in store.alerts()] == ["FarmiqOutboxDeadLetters"], "one cause, one alert"
    store.close()
