"""Bodies on the wire: zstd, gzip or plain, and what happens with a cloud that is older than this edge."""

import pytest

from farmiq.edge.sync_forwarder.main import serve
from farmiq.kit.postgres import Pool
from support.forwarder import SERVICE, forwarder_environ
from support.outbox_rows import count_by_status, fill_outbox, outbox_row
from support.scripted_cloud import ScriptedCloud, cloud
from support.service_process import running
from support.waiting import eventually

__all__ = ["cloud"]  # a fixture


async def all_acked(pool: Pool) -> bool:
    return set(await count_by_status(pool)) == {"acked"}


@pytest.mark.parametrize(("compression", "header"), [("zstd", "zstd"), ("gzip", "gzip"), ("none", None)])
async def test_each_compression_is_understood(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud, compression: str, header: str | None
) -> None:
    ids = await fill_outbox(edge_pool, 3)
    async with running(serve, SERVICE, forwarder_environ(edge_url, cloud.url, SYNC_COMPRESSION=compression)):
        await eventually(lambda: all_acked(edge_pool))
    assert [(batch.ids, batch.headers.get("content-encoding")) for batch in cloud.received] == [(ids, header)]


async def test_a_cloud_that_does_not_know_zstd_gets_gzip_from_then_on_and_no_event_waits_for_it(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    cloud.encodings_refused = {"zstd"}
    first = await fill_outbox(edge_pool, 2)
    async with running(serve, SERVICE, forwarder_environ(edge_url, cloud.url, SYNC_INTERVAL_MS="100")):
        await eventually(lambda: all_acked(edge_pool))
        assert await edge_pool.fetchval("SELECT consecutive_failures FROM sync_state") == 0
        second = await fill_outbox(edge_pool, 2)
        await eventually(lambda: all_acked(edge_pool))
    assert [batch.ids for batch in cloud.received] == [first, second]
    assert {batch.headers["content-encoding"] for batch in cloud.received} == {"gzip"}
    assert cloud.refused == 1
    assert (await outbox_row(edge_pool, first[0]))["attempt_count"] == 0
