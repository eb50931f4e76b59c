from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest_asyncio

from farmiq.console.main import serve
from support.console_visitor import ADMIN_PASSWORD, ConsoleVisitor
from support.service_process import running


@pytest_asyncio.fixture
async def console(tmp_path: Path) -> AsyncIterator[ConsoleVisitor]:
    """A console of two tenants that knows no other service; everything about logins and rights is there nevertheless."""
    environ = {
        "CONSOLE_STATE_DIR": str(tmp_path / "console"),
        "CONSOLE_TENANTS": "north,south",
        "CONSOLE_PASSWORD": ADMIN_PASSWORD,
    }
    jar = aiohttp.CookieJar(unsafe=True)
    async with (
        running(serve, "console", environ) as url,
        aiohttp.ClientSession(url, cookie_jar=jar, headers={"accept": "text/html"}) as session,
    ):
        yield ConsoleVisitor(session)
