"""Tokens of edges: who is let in, with what, and until when."""

import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest
import pytest_asyncio

from farmiq.cloud.ingestion import edges
from farmiq.cloud.ingestion.main import serve
from farmiq.contracts.ids import InvalidId
from farmiq.kit.postgres import Connection, Pool
from support.rabbitmq import NewVirtualHost
from support.service_process import running

GRACE_SECONDS = 3600.0
ENDED = datetime.now(UTC) - timedelta(seconds=1)


@pytest_asyncio.fixture
async def database(cloud_pool: Pool) -> AsyncIterator[Connection]:
    async with cloud_pool.acquire() as connection:
        yield connection


async def refusal(database: Connection, token: str) -> str | None:
    """Why the token is refused, or None when it is not."""
    try:
        await edges.find(database, token)
    except edges.TokenRefused as error:
        return error.code
    return None


async def states(database: Connection, edge_id: str = "edge-1") -> list[str]:
    return [token.state for token in await edges.tokens(database, edge_id)]


async def test_a_new_edge_is_let_in_for_its_tenants_with_a_token_that_is_not_kept(database: Connection) -> None:
    issued = await edges.add(database, "edge-1", ["second", "demo", "demo"])
    assert await edges.find(database, issued.token) == edges.Edge("edge-1", frozenset({"demo", "second"}))
    assert issued.row.token_id in issued.token
    assert issued.token not in repr(issued)
    for table in ("edges", "edge_tokens"):
        rows = await database.fetch(f"SELECT {table}::text AS line FROM {table}")  # noqa: S608 - ours
        assert rows
        assert all(issued.token.rpartition("_")[2] not in row["line"] for row in rows)
    ((used,),) = await database.fetch("SELECT last_used_at FROM edge_tokens")
    assert used is not None


async def test_every_character_of_a_token_counts(database: Connection) -> None:
    token = (await edges.add(database, "edge-1", ["demo"])).token
    for place in (0, 15, 30, len(token) - 1):
        changed = token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :]
        assert await refusal(database, changed) == "unauthorized"
    for other in ("", token + "x", token[:-1], " " + token, "\x00", "é" * 40):
        assert await refusal(database, other) == "unauthorized"
    assert await refusal(database, token) is None


async def test_adding_an_edge_twice_takes_no_token_away(database: Connection) -> None:
    token = (await edges.add(database, "edge-1", ["demo"])).token
    with pytest.raises(edges.EdgeKnown):
        await edges.add(database, "edge-1", ["stranger"])
    assert await edges.find(database, token) == edges.Edge("edge-1", frozenset({"demo"}))
    for edge_id, tenant_id in (("edge 2", "demo"), ("edge-2", "de/mo")):
        with pytest.raises(InvalidId):
            await edges.add(database, edge_id, [tenant_id])


async def test_rotated_both_tokens_work_until_the_old_one_is_revoked(database: Connection) -> None:
    old = await edges.add(database, "edge-1", ["demo"])
    new = await edges.rotate(database, "edge-1", grace_seconds=GRACE_SECONDS)
    assert [await refusal(database, one.token) for one in (old, new)] == [None, None]
    (limited, unlimited) = await edges.tokens(database, "edge-1")
    assert (limited.token_id, unlimited.token_id) == (old.row.token_id, new.row.token_id)
    assert limited.expires_at is not None
    assert unlimited.expires_at is None
    await edges.revoke(database, "edge-1", old.row.token_id)
    assert [await refusal(database, one.token) for one in (old, new)] == ["token_revoked", None]


async def test_rotated_the_old_token_ends_with_its_grace_and_never_later_than_before(database: Connection) -> None:
    old = await edges.add(database, "edge-1", ["demo"])
    new = await edges.rotate(database, "edge-1", grace_seconds=0.0)
    assert [await refusal(database, one.token) for one in (old, new)] == ["token_expired", None]
    soon = datetime.now(UTC) + timedelta(seconds=60)
    short = await edges.rotate(database, "edge-1", grace_seconds=0.0, expires_at=soon)
    await edges.rotate(database, "edge-1", grace_seconds=GRACE_SECONDS)
    ends = {token.token_id: token.expires_at for token in await edges.tokens(database)}
    assert ends[short.row.token_id] == soon
    with pytest.raises(edges.EdgeUnknown):
        await edges.rotate(database, "edge-2", grace_seconds=0.0)


async def test_a_token_with_an_end_is_refused_after_it(database: Connection) -> None:
    issued = await edges.add(database, "edge-1", ["demo"], expires_at=ENDED)
    assert await refusal(database, issued.token) == "token_expired"
    assert await states(database) == ["expired"]


async def test_revoked_an_edge_is_out_until_it_is_added_again_with_a_new_token(database: Connection) -> None:
    first = await edges.add(database, "edge-1", ["demo"])
    second = await edges.rotate(database, "edge-1", grace_seconds=GRACE_SECONDS)
    other = await edges.add(database, "edge-2", ["demo"])
    assert [one.state for one in await edges.revoke(database, "edge-1")] == ["revoked", "revoked"]
    assert [await refusal(database, one.token) for one in (first, second, other)] == ["token_revoked"] * 2 + [None]
    again = await edges.add(database, "edge-1", ["second"])
    assert await edges.find(database, again.token) == edges.Edge("edge-1", frozenset({"second"}))
    assert await refusal(database, first.token) == "token_revoked"
    for edge_id, token_id in (("edge-9", None), ("edge-1", other.row.token_id)):
        with pytest.raises(edges.EdgeUnknown):
            await edges.revoke(database, edge_id, token_id)
    assert await refusal(database, other.token) is None


async def test_registering_an_edge_again_changes_its_token_and_tenants(database: Connection) -> None:
    first, newer, newest = (secrets.token_urlsafe(24) for _ in range(3))

    async def register(token: str, *tenant_ids: str, edge_cluster_id: str = "edge-1") -> None:
        await edges.register(database, edge_cluster_id=edge_cluster_id, tenant_ids=tenant_ids, token=token)

    for _ in range(2):
        await register(first, "demo")
        assert await edges.find(database, first) == edges.Edge("edge-1", frozenset({"demo"}))
    await register(newer, "demo", "second")
    assert await refusal(database, first) == "token_revoked"
    await edges.revoke(database, "edge-1")
    await register(newer, "demo")
    assert await refusal(database, newer) == "token_revoked"
    await register(newest, "demo", "second")
    assert await edges.find(database, newest) == edges.Edge("edge-1", frozenset({"demo", "second"}))
    with pytest.raises(edges.WeakToken):
        await register("short", "demo")
    with pytest.raises(edges.TokenTaken):
        await register(newest, "demo", edge_cluster_id="edge-2")
    assert await refusal(database, newest) is None


async def test_a_revoked_token_is_refused_by_every_replica_from_the_next_request_on(
    database: Connection, cloud_url: str, new_vhost: NewVirtualHost
) -> None:
    old = await edges.add(database, "edge-1", ["demo"])
    new = await edges.rotate(database, "edge-1", grace_seconds=GRACE_SECONDS)
    environ = {"DATABASE_URL": cloud_url, "AMQP_URL": new_vhost()}
    async with (
        running(serve, "cloud-ingestion", environ) as one,
        running(serve, "cloud-ingestion", environ) as another,
        aiohttp.ClientSession() as session,
    ):

        async def knock(replica: str, token: str) -> tuple[int, str | None]:
            headers = {"authorization": f"Bearer {token}"}
            async with session.post(f"{replica}/api/v1/edge/batch", json=[], headers=headers) as answer:
                return answer.status, (await answer.json()).get("error", {}).get("code")

        replicas = (one, another)
        assert [await knock(replica, token) for replica in replicas for token in (old.token, new.token)] == [
            (200, None)
        ] * 4
        await edges.revoke(database, "edge-1", old.row.token_id)
        assert [await knock(replica, old.token) for replica in replicas] == [(401, "token_revoked")] * 2
        assert [await knock(replica, new.token) for replica in replicas] == [(200, None)] * 2
