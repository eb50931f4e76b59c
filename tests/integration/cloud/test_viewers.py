"""Tokens of readers: which tenant each may read, on a real service, and until when."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest
from litestar import get
from litestar.params import FromQuery

from farmiq.cloud import viewers
from farmiq.cloud.tokens import TokenRefused
from farmiq.cloud.viewers import viewer_guard
from farmiq.contracts.ids import InvalidId
from farmiq.kit.http_server import serve_http
from farmiq.kit.postgres import Pool, open_pool
from farmiq.kit.settings import HttpSettings, load
from support.service_process import running

ADMIN = "admin-token-of-this-test"
ENDED = datetime.now(UTC) - timedelta(seconds=1)


@asynccontextmanager
async def guarded(cloud_url: str) -> AsyncIterator[str]:
    """A service with one guarded route that says which tenant it would read."""

    async def serve(environ: Any, life: Any) -> None:
        async with await open_pool(cloud_url, service=life.service) as pool:

            @get("/api/v1/which", guards=[viewer_guard(pool, ADMIN)])
            async def which(tenant_id: FromQuery[str] = "none") -> dict[str, str]:
                return {"tenant_id": tenant_id}

            await serve_http(life, load(HttpSettings, environ), [which])

    async with running(serve, "guarded", {}) as url:
        yield url


async def ask(url: str, query: str, authorization: str | None) -> tuple[int, str]:
    headers = {} if authorization is None else {"authorization": authorization}
    async with aiohttp.ClientSession() as session, session.get(f"{url}/api/v1/which{query}", headers=headers) as answer:
        told = await answer.json()
        return answer.status, told.get("tenant_id") or told["error"]["code"]


async def issue(pool: Pool, *tenant_ids: str, expires_at: datetime | None = None) -> viewers.IssuedToken:
    async with pool.acquire() as connection:
        return await viewers.add(connection, "ann", tenant_ids, expires_at)


async def test_a_token_reads_its_tenants_and_no_other(cloud_url: str, cloud_pool: Pool) -> None:
    token = (await issue(cloud_pool, "demo", "second")).token
    async with guarded(cloud_url) as url:
        for tenant_id in ("demo", "second"):
            assert await ask(url, f"?tenant_id={tenant_id}", f"Bearer {token}") == (200, tenant_id)
        for query in (
            "",
            "?tenant_id=",
            "?tenant_id=other",
            "?tenant_id=Demo",
            "?tenant_id=demo&tenant_id=other",
            "?tenant_id=other&tenant_id=demo",
            "?tenant_id=demo&tenant%5fid=other",
            "?tenant_id=demo%00",
            "?Tenant_id=demo",
        ):
            assert await ask(url, query, f"Bearer {token}") == (403, "tenant_forbidden"), query


async def test_the_admin_token_reads_every_tenant_and_nothing_else_is_let_in(cloud_url: str, cloud_pool: Pool) -> None:
    token = (await issue(cloud_pool, "demo")).token
    async with guarded(cloud_url) as url:
        assert await ask(url, "?tenant_id=anything", f"Bearer {ADMIN}") == (200, "anything")
        assert await ask(url, "", f"Bearer {ADMIN}") == (200, "none")
        for given in (
            None,
            "",
            "Bearer",
            "Bearer ",
            token,
            f"Basic {token}",
            f"Bearer {token}x",
            f"Bearer {token[:-1]}",
            f"Bearer  {token}",
            f"Bearer {ADMIN}x",
            "Bearer \xe9",
        ):
            assert await ask(url, "?tenant_id=demo", given) == (401, "unauthorized"), given
        assert await ask(url, "?tenant_id=demo", f"bearer {token}") == (200, "demo")


async def test_a_revoked_token_is_refused_from_the_next_request_on(cloud_url: str, cloud_pool: Pool) -> None:
    old, new = await issue(cloud_pool, "demo"), await issue(cloud_pool, "demo", "second")
    ended = await issue(cloud_pool, "demo", expires_at=ENDED)
    async with guarded(cloud_url) as url, cloud_pool.acquire() as connection:
        assert await ask(url, "?tenant_id=demo", f"Bearer {old.token}") == (200, "demo")
        assert await ask(url, "?tenant_id=demo", f"Bearer {ended.token}") == (401, "token_expired")
        left = await viewers.revoke(connection, "ann", old.row.token_id)
        assert [one.state for one in left] == ["revoked", "live", "expired"]
        assert await ask(url, "?tenant_id=demo", f"Bearer {old.token}") == (401, "token_revoked")
        assert await ask(url, "?tenant_id=second", f"Bearer {new.token}") == (200, "second")
        await viewers.revoke(connection, "ann")
        assert await ask(url, "?tenant_id=demo", f"Bearer {new.token}") == (401, "token_revoked")


async def test_only_the_hash_of_a_token_is_kept_and_its_use_is_noted(cloud_pool: Pool) -> None:
    issued = await issue(cloud_pool, "second", "demo", "demo")
    assert issued.token not in repr(issued)
    async with cloud_pool.acquire() as connection:
        assert await viewers.find(connection, issued.token) == viewers.Viewer("ann", frozenset({"demo", "second"}))
        (line,) = await connection.fetch("SELECT viewer_tokens::text AS line FROM viewer_tokens")
        assert issued.token.rpartition("_")[2] not in line["line"]
        (row,) = await viewers.all_tokens(connection)
        assert (row.tenant_ids, row.last_used_at is not None) == (["demo", "second"], True)


async def test_what_cannot_be_a_viewer_or_an_edges_token_is_refused(cloud_pool: Pool) -> None:
    async with cloud_pool.acquire() as connection:
        for name, tenant_id in (("an n", "demo"), ("ann", "de/mo")):
            with pytest.raises(InvalidId):
                await viewers.add(connection, name, [tenant_id])
        token = (await viewers.add(connection, "ann", ["demo"])).token
        with pytest.raises(TokenRefused):
            await viewers.find(connection, token.replace("viewer", "edge"))
        for name, token_id in (("bob", None), ("ann", "000000000000")):
            with pytest.raises(viewers.ViewerUnknown):
                await viewers.revoke(connection, name, token_id)
