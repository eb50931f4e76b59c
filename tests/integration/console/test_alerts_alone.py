"""A console without pages: the alerts of an edge box whose people look elsewhere."""

from pathlib import Path

import aiohttp

from farmiq.alerting import AlertStore
from farmiq.console.main import serve
from support.service_process import running
from support.waiting import eventually


async def test_alerts_are_raised_without_pages_and_without_logins(tmp_path: Path) -> None:
    environ = {
        "CONSOLE_STATE_DIR": str(tmp_path), "CONSOLE_TENANTS": "north", "CONSOLE_PAGES": "false",
        "ALERT_INTERVAL_SECONDS": "1", "ALERT_DISKS": f"{tmp_path},/dev/shm",
    }  # fmt: skip
    async with running(serve, "console", environ) as url, aiohttp.ClientSession(url) as session:
        async with session.get("/login") as answer:
            assert answer.status == 404
        async with session.get("/api/health") as answer:
            assert answer.status == 200

        async def is_watching() -> bool:
            async with session.get("/metrics") as answer:
                return 'farmiq_disk_free_ratio{path="/dev/shm"}' in await answer.text()

        await eventually(is_watching, what="both disks are watched")
    assert not (tmp_path / "console.db").exists()
    AlertStore(tmp_path).close()
