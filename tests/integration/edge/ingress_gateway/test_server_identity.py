"""An edge database that turns up on another server begins a new epoch (promise-device-edge 4)."""

import asyncio

from farmiq.edge.ingress_gateway.identity import current_epoch, follow_server, rotate_epoch
from farmiq.kit.postgres import Pool


async def epoch_of(pool: Pool) -> object:
    async with pool.acquire() as connection:
        return await current_epoch(connection)


async def test_the_server_is_noted_at_the_first_look_and_changes_nothing(edge_pool: Pool) -> None:
    before = await epoch_of(edge_pool)
    assert [await follow_server(edge_pool) for _ in range(3)] == [None] * 3
    assert await epoch_of(edge_pool) == before
    known = await edge_pool.fetchrow("SELECT system_identifier, timeline FROM edge_identity")
    assert known is not None
    assert known["system_identifier"] != 0
    assert known["timeline"] >= 1


async def test_another_timeline_or_server_begins_a_new_epoch_once(edge_pool: Pool) -> None:
    """promise-device-edge 4: a restore to a point in time and a failover kept the epoch, and nobody sent anything again."""
    await follow_server(edge_pool)
    for change in ("timeline = timeline - 1", "system_identifier = system_identifier + 1"):
        before = await epoch_of(edge_pool)
        await edge_pool.execute(f"UPDATE edge_identity SET {change}")  # noqa: S608 - two constants
        found = [one for one in await asyncio.gather(*(follow_server(edge_pool) for _ in range(4))) if one is not None]
        assert [one.epoch_before for one in found] == [before]
        assert await epoch_of(edge_pool) == found[0].epoch != before
    alerts = await edge_pool.fetch("SELECT kind, tenant_id, status FROM ops_alerts")
    assert [tuple(row) for row in alerts] == [("edge_database_replaced", None, "open")] * 2


async def test_a_restored_backup_that_began_an_epoch_begins_no_other(edge_pool: Pool) -> None:
    await edge_pool.execute("UPDATE edge_identity SET system_identifier = 1, timeline = 1")
    async with edge_pool.acquire() as connection:
        epoch = await rotate_epoch(connection)
    assert await follow_server(edge_pool) is None
    assert await epoch_of(edge_pool) == epoch
