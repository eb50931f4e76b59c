"""A cloud that goes back to a backup tells its edges so, and takes again what they send."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import msgspec
from msgspec import Raw

from farmiq.backup.create import create
from farmiq.backup.restore import restore
from farmiq.backup.tiers import Place
from farmiq.cloud.ingestion import store as dedupe
from farmiq.cloud.ingestion.edges import Edge
from farmiq.cloud.ingestion.identity import current_life
from farmiq.cloud.ingestion.screening import Candidate, screen
from farmiq.cloud.new_life import MARGIN
from farmiq.contracts import event_types
from farmiq.contracts.telemetry import pack_of
from farmiq.kit.ids import new_trace_id
from farmiq.kit.postgres import Pool
from support.cloud_storing import delivery, store_all
from support.entrance import event
from support.media_world import store_settings
from support.s3 import S3
from support.telemetry import batch_of, bus_body

Say = Callable[[str], None]


def _candidate() -> Candidate:
    (item,) = screen(Edge("edge-1", frozenset({"demo"})), [Raw(msgspec.json.encode(event()))], new_trace_id)
    assert isinstance(item, Candidate)
    return item


async def test_a_restored_cloud_takes_again_what_it_had_seen_since_the_backup(
    cloud_pool: Pool, cloud_url: str, s3: S3, tmp_path: Path, quietly: Say
) -> None:
    place = Place("cloud", cloud_url, store_settings(s3))
    stream = uuid4()
    packs = [
        delivery(
            bus_body(
                event_types.TELEMETRY_BATCH_INGESTED, pack_of(batch_of(stream, first, first + 9), first, first + 9)
            )
        )
        for first in (1, 11, 21)
    ]
    recent, old = _candidate(), _candidate()
    both = {one.key: one for one in (recent, old)}
    await store_all(cloud_pool, packs[0])
    async with cloud_pool.acquire() as connection:
        before = await current_life(connection)
        await dedupe.add(connection, both)
        await connection.execute(
            "UPDATE ingest_dedupe SET first_seen_at = first_seen_at - $2::interval WHERE event_id = $1",
            old.key[1],
            2 * MARGIN,
        )
    manifest = await create(place, tmp_path / "backup", quietly)
    assert manifest.database.epoch == before.epoch
    await store_all(cloud_pool, *packs[1:])
    await cloud_pool.expire_connections()

    restored = await restore(place, tmp_path / "backup", quietly, is_replacing=True)

    async with cloud_pool.acquire() as connection:
        life = await current_life(connection)
        assert life.epoch == restored.life.epoch != before.epoch
        assert life.began_at > before.began_at
        assert life.resend_since == manifest.database.taken_at - MARGIN
        # What may have been on the bus and in no other table is new again; what is older is not.
        assert await dedupe.add(connection, both) == {recent.key}
    await store_all(cloud_pool, *packs)
    rows = await cloud_pool.fetch("SELECT seq FROM telemetry_raw WHERE stream_id = $1 ORDER BY seq", stream)
    assert [row["seq"] for row in rows] == list(range(1, 31))

    # A backup of this life, taken before every edge has heard of it: the earlier of both times is what an edge is told.
    await create(place, tmp_path / "second", quietly)
    await cloud_pool.expire_connections()
    again = await restore(place, tmp_path / "second", quietly, is_replacing=True)
    assert again.life.epoch != life.epoch
    assert again.life.resend_since == life.resend_since
    assert again.life.resend_since < manifest.database.taken_at - MARGIN + timedelta(seconds=1)
