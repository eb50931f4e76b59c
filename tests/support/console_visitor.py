"""A person at the console without a browser: follows no redirect, so that a test sees each answer as it was given."""

import re
from typing import Any

import aiohttp

ADMIN_PASSWORD = "correct horse battery"
OTHER_PASSWORD = "another long password"


class ConsoleVisitor:
    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session

    async def get(self, path: str, **headers: str) -> tuple[int, str, dict[str, str]]:
        async with self.session.get(path, allow_redirects=False, headers=headers) as answer:
            return answer.status, await answer.text(), _small(answer.headers)

    async def post(self, path: str, form: dict[str, Any], **headers: str) -> tuple[int, str, dict[str, str]]:
        async with self.session.post(path, data=form, allow_redirects=False, headers=headers) as answer:
            return answer.status, await answer.text(), _small(answer.headers)

    async def log_in(self, name: str = "admin", password: str = ADMIN_PASSWORD) -> int:
        status, _, _ = await self.post("/login", {"name": name, "password": password})
        return status

    async def csrf(self) -> str:
        _, page, _ = await self.get("/me")
        found = re.search(r'name="csrf" value="([^"]+)"', page)
        assert found is not None, page
        return found[1]

    async def act(self, path: str, **form: Any) -> tuple[int, str, dict[str, str]]:
        """A form that was on a page of ours."""
        return await self.post(path, {"csrf": await self.csrf(), **form})

    async def become(self, role: str, tenants: str = "") -> None:
        """Somebody with that role is let in, and logs in."""
        form = {"name": f"some-{role}", "role": role, "tenants": tenants, "password": OTHER_PASSWORD}
        assert await self.log_in() == 303
        status, page, _ = await self.act("/people/add", **form)
        assert status == 303, page
        await self.act("/logout")
        assert await self.log_in(form["name"], OTHER_PASSWORD) == 303


def _small(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
