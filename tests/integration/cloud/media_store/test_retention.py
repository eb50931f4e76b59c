"""Pictures go when they were kept long enough: bytes, thumbnail and row, never half of it."""

from datetime import datetime, timedelta
from functools import partial

import pytest

from farmiq.cloud.media_store import cleanup
from farmiq.cloud.media_store.cleanup import expire
from farmiq.cloud.media_store.jobs import jobs
from farmiq.cloud.media_store.settings import MediaRetentionSettings
from farmiq.kit.clock import Clock
from farmiq.kit.jobs import Job, Report, run_now
from farmiq.kit.object_inventory import walk
from farmiq.kit.s3 import ObjectStore, StoreAway
from support.cloud_media import MediaCloud, shot

YEAR = MediaRetentionSettings(media_retention_days=365)


class Later(Clock):
    def now(self) -> datetime:
        return super().now() + timedelta(days=366)


async def retention(cloud: MediaCloud, objects: ObjectStore, clock: Clock, is_dry_run: bool = False) -> Report:
    job = Job("cloud-media-retention", 3600.0, "", partial(expire, YEAR, objects))
    async with cloud.pool.acquire() as connection:
        return await run_now(connection, job, clock=clock, instance_id="test", is_dry_run=is_dry_run)


async def keys_of(cloud: MediaCloud, media_id: object) -> list[str]:
    return [one.key async for one in walk(cloud.store, cloud.bucket) if str(media_id) in one.key]


async def test_a_picture_goes_with_its_thumbnail_and_its_row(cloud: MediaCloud) -> None:
    old, never_came = shot(), shot()
    await cloud.send(old)
    assert (await cloud.read(f"/{old.media_id}/thumbnail"))[0] == 200
    assert len(await keys_of(cloud, old.media_id)) == 2
    await cloud.presign(never_came)

    assert await retention(cloud, cloud.store, Clock()) == {"pictures": 0}
    assert await retention(cloud, cloud.store, Later(), is_dry_run=True) == {"pictures": 1}
    assert (await cloud.row(old))["state"] == "stored"
    assert await retention(cloud, cloud.store, Later()) == {"pictures": 1}

    assert await keys_of(cloud, old.media_id) == []
    left = await cloud.pool.fetch("SELECT id FROM media_objects")
    assert [row["id"] for row in left] == [never_came.media_id], "what never came is still known"


async def test_a_picture_is_kept_from_the_day_on_which_it_came(cloud: MediaCloud) -> None:
    """The camera's clock stood in another century, or the edge was away for a year."""
    one = shot(captured_at=datetime.fromisoformat("1990-01-01T00:00:00+00:00"))
    await cloud.send(one)

    assert await retention(cloud, cloud.store, Clock()) == {"pictures": 0}


async def test_more_than_one_step_is_taken(cloud: MediaCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "STEP_PICTURES", 2)
    shots = [shot() for _ in range(5)]
    for one in shots:
        await cloud.send(one)

    assert await retention(cloud, cloud.store, Later()) == {"pictures": 5}
    assert await cloud.pool.fetchval("SELECT count(*) FROM media_objects") == 0


class Unwilling(ObjectStore):
    """Deletes, and then says that it did not."""

    async def delete_many(self, bucket: str, keys: object) -> None:
        await super().delete_many(bucket, keys)  # type: ignore[arg-type]  # as it came
        raise StoreAway("cut off")


async def test_a_run_that_was_cut_between_bytes_and_row_is_ended_by_the_next(
    cloud: MediaCloud, variables: dict[str, str]
) -> None:
    one = shot()
    await cloud.send(one)
    cut = Unwilling(
        variables["S3_ENDPOINT"], access_key=variables["S3_ACCESS_KEY"], secret_key=variables["S3_SECRET_KEY"]
    )
    try:
        with pytest.raises(StoreAway):
            await retention(cloud, cut, Later())
    finally:
        cut.close()
    assert await keys_of(cloud, one.media_id) == []
    assert (await cloud.row(one))["state"] == "stored", "not forgotten before its bytes are known to be gone"

    assert await retention(cloud, cloud.store, Later()) == {"pictures": 1}

    assert await cloud.pool.fetchval("SELECT count(*) FROM media_objects") == 0


async def test_a_picture_that_is_sent_again_after_its_time_begins_anew(cloud: MediaCloud) -> None:
    one = shot()
    await cloud.send(one)
    await retention(cloud, cloud.store, Later())

    await cloud.send(one)

    assert (await cloud.row(one))["state"] == "stored"


async def test_the_jobs_run_by_name_with_the_settings_of_the_environment(
    cloud: MediaCloud, variables: dict[str, str]
) -> None:
    one = shot()
    await cloud.send(one)
    await cloud.pool.execute("UPDATE media_objects SET stored_at = now() - interval '8 days'")
    by_name = {job.name: job for job in jobs({**variables, "MEDIA_RETENTION_DAYS": "7"})}

    async with cloud.pool.acquire() as connection:
        kept = await run_now(connection, by_name["cloud-media-integrity"], clock=Clock(), instance_id="test")
        gone = await run_now(connection, by_name["cloud-media-retention"], clock=Clock(), instance_id="test")

    assert (kept["pictures"], kept["no_object"]) == (1, 0)
    assert gone == {"pictures": 1}


def test_the_jobs_can_be_listed_without_an_object_store() -> None:
    assert {job.name for job in jobs({})} == {"cloud-media-retention", "cloud-media-integrity"}
