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
from farmiq.cloud.ingestion.epochs import count_of, load_epoch, number_answer
from farmiq.cloud.ingestion.screening import Candidate, screen
from farmiq.cloud.restore_epoch import MARGIN
from farmiq.contracts import event_types
from farmiq.contracts.sync import CloudEpoch, HeardAnswer
from farmiq.contracts.telemetry import pack_of
from farmiq.kit.ids import new_trace_id
from farmiq.kit.postgres import Connection, Pool
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


async def answer(connection: Connection, heard: HeardAnswer | None) -> CloudEpoch:
    count = await count_of(connection, "demo", "edge-1", heard)
    return await number_answer(connection, "demo", "edge-1", count, heard)


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
    seen = _candidate()
    await store_all(cloud_pool, packs[0])
    async with cloud_pool.acquire() as connection:
        before = await load_epoch(connection)
        for _ in range(3):
            answered = await answer(connection, None)
        assert (answered.epoch, answered.answer, answered.resend_after) == (before.epoch, 3, None)
        await dedupe.add(connection, {seen.key: seen}, answered.answer)
        await answer(connection, None)
        assert not (await dedupe.known(connection, [seen.key]))[seen.key].may_be_lost
    manifest = await create(place, tmp_path / "backup", quietly)
    assert manifest.database.epoch == before.epoch
    await store_all(cloud_pool, *packs[1:])
    await cloud_pool.expire_connections()

    # promise-cloud 7: the replaced database began its epoch on a machine whose clock was ahead, after the backup was taken.
    ahead = await cloud_pool.fetchval(
        "UPDATE edge_answers SET began_at = now() + interval '5 hours' RETURNING began_at"
    )
    await cloud_pool.expire_connections()

    restored = await restore(place, tmp_path / "backup", quietly, is_replacing=True)

    async with cloud_pool.acquire() as connection:
        epoch = await load_epoch(connection)
        assert epoch.epoch == restored.life.epoch != before.epoch
        # Edges of 0.1.0 go by this time.
        assert epoch.began_at > ahead > before.began_at
        assert epoch.resend_since == manifest.database.taken_at - MARGIN
        # What the edge had heard by then, although this database never said it.
        answered = await answer(connection, HeardAnswer(epoch=before.epoch, answer=7, token=1))
        assert (answered.epoch, answered.answer, answered.resend_after) == (epoch.epoch, 8, 0)
        # It may have been on the bus and in no other table.
        assert (await dedupe.known(connection, [seen.key]))[seen.key].may_be_lost
    await store_all(cloud_pool, *packs)
    rows = await cloud_pool.fetch("SELECT seq FROM telemetry_raw WHERE stream_id = $1 ORDER BY seq", stream)
    assert [row["seq"] for row in rows] == list(range(1, 31))

    # A backup of this epoch, taken before every edge has heard of it: the earlier of both times is what an edge is told.
    await create(place, tmp_path / "second", quietly)
    await cloud_pool.expire_connections()
    again = await restore(place, tmp_path / "second", quietly, is_replacing=True)
    assert again.life.epoch != epoch.epoch
    assert again.life.resend_since == epoch.resend_since
    assert again.life.resend_since < manifest.database.taken_at - MARGIN + timedelta(seconds=1)
