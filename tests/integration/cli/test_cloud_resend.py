"""`farmiq cloud resend` on a real database."""

import asyncio
import json
import os
import secrets
import subprocess
import sys
from pathlib import Path
from uuid import UUID

from farmiq.cli import exits
from farmiq.cloud.ingestion import edges
from farmiq.kit.postgres import Pool

FARMIQ = Path(sys.executable).parent / "farmiq"


async def resend(database_url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {
        "PATH": os.environ["PATH"],
        "FARMIQ_HOME": "/nonexistent",
        "AMQP_URL": "amqp://nobody:nothing@127.0.0.1:1/",
        "CLOUD_DATABASE_URL": database_url,
    }
    return await asyncio.to_thread(
        subprocess.run, [str(FARMIQ), "cloud", "resend", *arguments],
        env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


async def epochs(pool: Pool) -> dict[tuple[str, str], tuple[UUID, int | None]]:
    rows = await pool.fetch("SELECT tenant_id, edge_cluster_id, epoch, resend_after FROM edge_answers")
    return {(row["tenant_id"], row["edge_cluster_id"]): (row["epoch"], row["resend_after"]) for row in rows}


async def test_every_edge_of_a_tenant_or_of_all_is_asked_to_send_again(cloud_url: str, cloud_pool: Pool) -> None:
    """promise-cloud 11: RabbitMQ lost its disk, and PostgreSQL did not."""
    async with cloud_pool.acquire() as connection:
        for edge, tenants in (("edge-1", ["demo", "other"]), ("edge-2", ["demo"])):
            await edges.register(connection, edge_cluster_id=edge, tenant_ids=tenants, token=secrets.token_urlsafe(24))
    asked = await resend(cloud_url, "--since", "2h")
    assert (asked.returncode, await epochs(cloud_pool)) == (exits.OK, {}), asked.stderr
    assert "--yes" in asked.stdout

    done = await resend(cloud_url, "--since", "2h", "--tenant", "demo", "--yes", "--json")
    assert done.returncode == exits.OK, done.stderr
    said = json.loads(done.stdout)
    assert said["edges"] == 2
    known = await epochs(cloud_pool)
    assert known["demo", "edge-1"] == known["demo", "edge-2"] == (UUID(said["epoch"]), 0)
    assert known["other", "edge-1"][1] is None

    assert (await resend(cloud_url, "--since", "2026-01-01T10:00:00Z", "--yes")).returncode == exits.OK
    after = await epochs(cloud_pool)
    assert {answer for _, answer in after.values()} == {0}
    assert all(after[key][0] != known[key][0] for key in known)

    wrong = await resend(cloud_url, "--since", "yesterday", "--yes")
    assert wrong.returncode == exits.USAGE
    assert await epochs(cloud_pool) == after
