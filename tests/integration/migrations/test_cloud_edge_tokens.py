"""From the revision before edges had several tokens: whoever was let in still is, and whoever was out stays out."""

import hashlib
import shutil
from importlib.resources import files
from pathlib import Path

import asyncpg
import pytest

from farmiq.cloud.ingestion import edges
from farmiq.kit.migrations import migrate
from support.postgres import NewDatabase

CLOUD = "farmiq.cloud.migrations"
TOKEN, ENDED = "a-token-from-an-older-home-0001", "a-token-from-an-older-home-0002"
# What the version before asks, with the hash of what it was given.
OLD_LOOKUP = "SELECT edge_cluster_id FROM edges WHERE token_hash = $1 AND revoked_at IS NULL"


@pytest.fixture
async def older(new_database: NewDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database at revision 0005 with two edges."""
    package = tmp_path / "older_cloud"
    shutil.copytree(
        str(files(CLOUD)), package, ignore=shutil.ignore_patterns("000[6-9]*", "001*", "002*", "003*", "__pycache__")
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    url = new_database()
    assert (await migrate(url, "older_cloud"))[-1] == "cloud_0005"
    connection = await asyncpg.connect(url)
    for edge_id, token, is_revoked in (("edge-1", TOKEN, False), ("edge-2", ENDED, True)):
        await connection.execute(
            "INSERT INTO edges (edge_cluster_id, token_hash, tenant_ids, revoked_at)"
            " VALUES ($1, $2, '{demo}', CASE WHEN $3 THEN now() END)",
            edge_id,
            hashlib.sha256(token.encode()).digest(),
            is_revoked,
        )
    await connection.close()
    return url


async def test_an_older_homes_token_opens_as_before_and_is_registered_again_without_change(older: str) -> None:
    await migrate(older, CLOUD)
    connection = await asyncpg.connect(older)
    assert await edges.find(connection, TOKEN) == edges.Edge("edge-1", frozenset({"demo"}))
    with pytest.raises(edges.TokenRefused) as refusal:
        await edges.find(connection, ENDED)
    assert refusal.value.code == "token_revoked"
    before = await edges.tokens(connection)
    await edges.register(connection, edge_cluster_id="edge-1", tenant_ids=["demo"], token=TOKEN)
    assert await edges.tokens(connection) == before
    await connection.close()


async def test_a_replica_of_the_version_before_refuses_what_is_revoked_or_rotated_away(older: str) -> None:
    await migrate(older, CLOUD)
    connection = await asyncpg.connect(older)
    digest = hashlib.sha256(TOKEN.encode()).digest()
    assert await connection.fetchval(OLD_LOOKUP, digest) == "edge-1"
    await edges.rotate(connection, "edge-1", grace_seconds=0.0)
    assert await connection.fetchval(OLD_LOOKUP, digest) is None
    await connection.close()
