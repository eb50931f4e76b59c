"""A backup of the edge and the way back, on a real PostgreSQL and a real object store."""

import json
import stat
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from farmiq.backup.create import create
from farmiq.backup.errors import BackupDamaged, NotABackup, ServicesRunning, TargetHoldsData
from farmiq.backup.manifest import MANIFEST, OBJECT_LINES, object_path, read_manifest
from farmiq.backup.restore import restore
from farmiq.backup.verify import verify
from farmiq.cli import exits
from farmiq.edge.ingress_gateway.identity import current_epoch
from farmiq.kit.postgres import RestoreUnfinished, SchemaMissing, require_schema
from farmiq.kit.tenant_reads import read_as
from farmiq.outbox.claim import claim
from integration.backup.conftest import EdgeWorld
from support.gateway import assert_exactly_once, register
from support.media_world import objects_of
from support.outbox_rows import count_by_status

Say = Callable[[str], None]


async def test_a_node_sends_again_what_the_restored_edge_lacks(edge: EdgeWorld, tmp_path: Path, quietly: Say) -> None:
    before = await edge.take(1, 100)
    keys = await edge.take_pictures(2)
    await create(edge.place, tmp_path / "backup", quietly)
    later = await edge.take(101, 150)
    assert (later.epoch, later.marks[0].acked_seq) == (before.epoch, 150)
    await edge.pool.expire_connections()
    for key in keys:
        await objects_of(edge.s3).delete(edge.s3.bucket, key)

    restored = await restore(edge.place, tmp_path / "backup", quietly, is_replacing=True)

    assert (restored.life.epoch_before, restored.pictures.stored) == (before.epoch, 2)
    for tenant_id, streams in (("demo", 1), ("other", 0)):
        async with read_as(edge.pool, tenant_id) as connection:
            assert await connection.fetchval("SELECT count(*) FROM streams") == streams, "row-level security is back"
    told = await edge.take(101, 101)
    assert (told.epoch, told.marks[0].acked_seq) == (restored.life.epoch, 101)
    assert told.epoch != before.epoch
    await edge.take(90, 150)
    await assert_exactly_once(edge.pool, edge.stream, 150)
    for key in keys:
        assert (await objects_of(edge.s3).head(edge.s3.bucket, key)).size_bytes > 0


@pytest.mark.parametrize(
    "damage",
    [lambda body: body[: len(body) // 2], lambda body: body + b"more", lambda body: body[:-1] + bytes([body[-1] ^ 1])],
    ids=["cut short", "too long", "a flipped bit"],
)
async def test_a_picture_that_is_damaged_in_the_store_comes_back_from_the_backup(
    edge: EdgeWorld, tmp_path: Path, quietly: Say, damage: Callable[[bytes], bytes]
) -> None:
    _, damaged = await edge.take_pictures(2)
    await create(edge.place, tmp_path / "backup", quietly)
    store, bucket = objects_of(edge.s3), edge.s3.bucket
    body = await store.get(bucket, damaged, bytes_max=1 << 20)
    await store.put(bucket, damaged, damage(body), content_type="image/jpeg")
    await edge.pool.expire_connections()

    restored = await restore(edge.place, tmp_path / "backup", quietly, is_replacing=True)

    assert (restored.pictures.stored, restored.pictures.kept, restored.pictures.mended) == (0, 1, 1)
    assert restored.repaired == {}
    assert await store.get(bucket, damaged, bytes_max=1 << 20) == body
    assert await edge.pool.fetchval("SELECT count(*) FROM media_objects WHERE state = 'stored'") == 2


async def test_bytes_that_the_backup_has_wrong_do_not_take_the_place_of_the_right_ones(
    edge: EdgeWorld, tmp_path: Path, quietly: Say
) -> None:
    [key] = await edge.take_pictures(1)
    store, bucket = objects_of(edge.s3), edge.s3.bucket
    body = await store.get(bucket, key, bytes_max=1 << 20)
    await store.put(bucket, key, body[:-1] + bytes([body[-1] ^ 1]), content_type="image/jpeg")
    made = await create(edge.place, tmp_path / "backup", quietly)
    assert (made.objects.damaged_count, made.objects.damaged) == (1, [key])
    await store.put(bucket, key, body, content_type="image/jpeg")
    await edge.pool.expire_connections()
    restored = await restore(edge.place, tmp_path / "backup", quietly, is_replacing=True)
    assert (restored.pictures.damaged, restored.pictures.mended) == (1, 0)
    assert await store.get(bucket, key, bytes_max=1 << 20) == body


async def test_wrong_bytes_of_a_backup_are_named_and_not_restored_into_an_empty_store(
    edge: EdgeWorld, tmp_path: Path, quietly: Say
) -> None:
    """promise-cloud 5: also of a backup by an earlier release, whose manifest does not name them."""
    [key] = await edge.take_pictures(1)
    store, bucket = objects_of(edge.s3), edge.s3.bucket
    body = await store.get(bucket, key, bytes_max=1 << 20)
    await store.put(bucket, key, body[:-1] + bytes([body[-1] ^ 1]), content_type="image/jpeg")
    await create(edge.place, tmp_path / "backup", quietly)
    assert [one for one in (await verify(tmp_path / "backup", "edge", quietly)).warnings if key in one] == [key]
    assert (await verify(tmp_path / "backup", "edge", quietly, is_deep=True)).problems == []
    manifest_file = tmp_path / "backup" / "edge" / "manifest.json"
    manifest = json.loads(manifest_file.read_text())
    del manifest["objects"]["damaged"], manifest["objects"]["damaged_count"]
    manifest_file.write_text(json.dumps(manifest))
    (problem,) = (await verify(tmp_path / "backup", "edge", quietly, is_deep=True)).problems
    assert key in problem
    await store.delete(bucket, key)
    await edge.pool.expire_connections()
    restored = await restore(edge.place, tmp_path / "backup", quietly, is_replacing=True)
    assert (restored.pictures.stored, restored.pictures.damaged, restored.repaired) == (0, 1, {"no_object": 1})
    assert await edge.pool.fetchval("SELECT state FROM media_objects") == "missing"


async def test_events_that_were_in_hand_are_pending_again_without_an_attempt(
    edge: EdgeWorld, tmp_path: Path, quietly: Say
) -> None:
    await edge.take(1, 10)
    async with edge.pool.acquire() as connection:
        claimed = await claim(connection, "demo", instance_id="gone", limit=10, lease_seconds=3600.0)
    assert len(claimed) == 1
    await create(edge.place, tmp_path / "backup", quietly)
    await edge.pool.expire_connections()
    restored = await restore(edge.place, tmp_path / "backup", quietly, is_replacing=True)
    assert restored.life.events_sent_again == 1
    assert await count_by_status(edge.pool) == {"pending": 1}
    assert await edge.pool.fetchval("SELECT attempt_count FROM sync_outbox") == 0


async def test_a_restore_asks_before_it_replaces_and_names_what_the_backup_lacks(
    edge: EdgeWorld, tmp_path: Path, quietly: Say
) -> None:
    await edge.take(1, 10)
    await create(edge.place, tmp_path / "backup", quietly)
    await edge.take(11, 15)
    await register(edge.pool, "node-2")
    asked = ("backup", "restore", str(tmp_path / "backup"))
    told = await edge.command(*asked)
    assert told.returncode == exits.FAILED
    assert "the edge database has rows in streams, telemetry_raw, sync_outbox" in told.stderr
    assert "--replace" in told.stderr
    assert (await edge.command(*asked, "--replace")).returncode == exits.USAGE
    await edge.pool.expire_connections()
    done = await edge.command(*asked, "--replace", "--yes", "--json")
    assert done.returncode == exits.OK, done.stderr
    [restored] = json.loads(done.stdout)
    assert restored["not_in_backup"] == {"samples": {"node-1": 5}, "sessions": [], "speakers": ["node-2"]}
    async with edge.pool.acquire() as connection:
        assert restored["life"]["epoch"] == str(await current_epoch(connection))


async def test_nothing_is_restored_under_a_service_that_is_connected(
    edge: EdgeWorld, tmp_path: Path, quietly: Say
) -> None:
    await edge.take(1, 10)
    await create(edge.place, tmp_path / "backup", quietly)
    gateway = await _connected_as(edge, "edge-ingress-gateway")
    with pytest.raises(ServicesRunning, match="edge-ingress-gateway is connected"):
        await restore(edge.place, tmp_path / "backup", quietly, is_replacing=True)
    await gateway.close()
    await assert_exactly_once(edge.pool, edge.stream, 10)


async def test_what_was_changed_in_the_folder_is_found_and_nothing_is_restored(
    edge: EdgeWorld, tmp_path: Path, quietly: Say
) -> None:
    await edge.take(1, 10)
    first, second = await edge.take_pictures(2)
    folder = tmp_path / "backup"
    manifest = await create(edge.place, folder, quietly)
    assert (await verify(folder, "edge", quietly)).problems == []
    dump = next(folder / "edge" / file.path for file in manifest.files if file.path.endswith(".gz"))
    sound = dump.read_bytes()
    dump.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    object_path(folder / "edge", first).unlink()
    object_path(folder / "edge", second).write_bytes(b"another picture")
    assert sorted((await verify(folder, "edge", quietly)).problems) == sorted(
        [
            f"database/{dump.name} has changed since it was written",
            f"the picture {first} is missing",
            f"the picture {second} has changed since it was written",
        ]
    )
    with pytest.raises(BackupDamaged):
        await restore(edge.place, folder, quietly, is_replacing=True)
    await assert_exactly_once(edge.pool, edge.stream, 10)


@pytest.mark.parametrize("place", [0, 2, 8, 60])
async def test_a_flipped_byte_in_the_list_of_pictures_is_a_problem_like_any_other(
    edge: EdgeWorld, tmp_path: Path, quietly: Say, place: int
) -> None:
    await edge.take_pictures(2)
    folder = tmp_path / "backup"
    await create(edge.place, folder, quietly)
    path = folder / "edge" / OBJECT_LINES
    text = bytearray(path.read_bytes())
    text[place] ^= 0x80
    path.write_bytes(text)
    told = await edge.command("backup", "verify", str(folder), "--json")
    assert (told.returncode, told.stderr) == (exits.FAILED, "")
    changed, unread = json.loads(told.stdout)[0]["problems"]
    assert changed == "objects.jsonl has changed since it was written"
    assert "line 1 of objects.jsonl cannot be read" in unread
    with pytest.raises(BackupDamaged):
        await restore(edge.place, folder, quietly, is_replacing=True)


async def test_what_the_disk_does_not_give_back_is_named_and_the_rest_is_looked_at(
    edge: EdgeWorld, tmp_path: Path, quietly: Say
) -> None:
    first, second = await edge.take_pictures(2)
    folder = tmp_path / "backup"
    manifest = await create(edge.place, folder, quietly)
    dump = next(folder / "edge" / file.path for file in manifest.files if file.path.endswith(".gz"))
    # Reading its first byte fails with EIO, whoever reads: nothing is mapped there.
    for path in (dump, object_path(folder / "edge", first)):
        path.unlink()
        path.symlink_to("/proc/self/mem")
    object_path(folder / "edge", second).unlink()
    assert sorted((await verify(folder, "edge", quietly)).problems) == sorted(
        [
            f"database/{dump.name} cannot be read: Input/output error",
            f"the picture {first} cannot be read: Input/output error",
            f"the picture {second} is missing",
        ]
    )
    lines = folder / "edge" / OBJECT_LINES
    lines.unlink()
    lines.symlink_to("/proc/self/mem")
    problems = (await verify(folder, "edge", quietly)).problems
    assert "objects.jsonl cannot be read: Input/output error" in problems
    assert any("pictures after the first 0 could not be looked for" in problem for problem in problems)


async def test_a_deep_look_restores_into_a_postgresql_of_its_own(edge: EdgeWorld, tmp_path: Path, quietly: Say) -> None:
    await edge.take(1, 1000)
    folder = tmp_path / "backup"
    made = await edge.command("backup", "create", "--to", str(folder), "--tier", "edge")
    assert (made.returncode, "rows as of" in made.stdout) == (exits.OK, True), made.stderr
    assert (await verify(folder, "edge", quietly, is_deep=True)).problems == []
    path = folder / "edge" / MANIFEST
    path.write_text(path.read_text().replace('"telemetry_agg": ', '"telemetry_agg": 7'))
    told = await edge.command("backup", "verify", str(folder), "--deep", "--json")
    assert told.returncode == exits.FAILED
    assert "telemetry_agg has" in json.loads(told.stdout)[0]["problems"][0]


async def test_a_picture_that_the_store_had_lost_is_named(edge: EdgeWorld, tmp_path: Path, quietly: Say) -> None:
    kept, lost = await edge.take_pictures(2)
    await objects_of(edge.s3).delete(edge.s3.bucket, lost)
    manifest = await create(edge.place, tmp_path / "backup", quietly)
    assert (manifest.objects.objects, manifest.objects.missing_count, manifest.objects.missing) == (1, 1, [lost])
    found = await verify(tmp_path / "backup", "edge", quietly)
    assert found.problems == []
    assert lost in found.warnings
    assert kept not in found.warnings


async def test_pictures_of_an_earlier_backup_are_linked_unless_they_are_damaged(
    edge: EdgeWorld, tmp_path: Path, quietly: Say
) -> None:
    sound, damaged = await edge.take_pictures(2)
    await create(edge.place, tmp_path / "first", quietly)
    object_path(tmp_path / "first" / "edge", damaged).write_bytes(b"rotten")
    await create(edge.place, tmp_path / "second", quietly, previous=tmp_path / "first")
    first, second = (object_path(tmp_path / name / "edge", sound) for name in ("first", "second"))
    assert first.stat().st_ino == second.stat().st_ino
    assert (await verify(tmp_path / "second", "edge", quietly)).problems == []


async def test_nobody_else_reads_a_backup_and_no_secret_is_in_it(edge: EdgeWorld, tmp_path: Path, quietly: Say) -> None:
    await edge.take(1, 10)
    await create(edge.place, tmp_path / "backup", quietly)
    below = tmp_path / "backup" / "edge"
    assert stat.S_IMODE(below.stat().st_mode) == 0o700
    text = (below / MANIFEST).read_text()
    assert edge.s3.secret_key not in text
    assert edge.url.split("@", maxsplit=1)[0].rpartition(":")[2] not in text


@pytest.mark.parametrize(
    ("target", "moment"),
    [("farmiq.backup.create:copy_objects", "after"), ("farmiq.backup.create:write_manifest", "before")],
)
async def test_a_backup_that_was_killed_is_none_and_goes_on_when_repeated(
    edge: EdgeWorld, tmp_path: Path, quietly: Say, target: str, moment: str
) -> None:
    await edge.take(1, 10)
    await edge.take_pictures(1)
    folder = tmp_path / "backup"
    killed = await edge.dying(target, moment, 1, "backup", "create", "--to", str(folder), "--tier", "edge")
    assert killed == -9
    with pytest.raises(NotABackup):
        read_manifest(folder / "edge")
    with pytest.raises(NotABackup):
        await restore(edge.place, folder, quietly)
    copied = {path.name: path.stat().st_mtime_ns for path in (folder / "edge" / "objects").rglob("*") if path.is_file()}
    assert len(copied) == 1
    await create(edge.place, folder, quietly)
    assert (await verify(folder, "edge", quietly)).problems == []
    # What had been copied was not copied again.
    again = {path.name: path.stat().st_mtime_ns for path in (folder / "edge" / "objects").rglob("*") if path.is_file()}
    assert again == copied


@pytest.mark.parametrize(
    ("target", "moment"),
    [
        ("farmiq.backup.pg_tools:restore", "before"),
        ("farmiq.backup.restore:return_objects", "after"),
        ("farmiq.backup.lives:begin", "after"),
    ],
)
async def test_no_service_starts_on_a_restore_that_was_killed_and_repeating_it_ends_it(
    edge: EdgeWorld, tmp_path: Path, quietly: Say, target: str, moment: str
) -> None:
    before = await edge.take(1, 100)
    folder = tmp_path / "backup"
    await create(edge.place, folder, quietly)
    await edge.take(101, 120)
    await edge.pool.expire_connections()
    killed = await edge.dying(target, moment, 1, "backup", "restore", str(folder), "--replace", "--yes")
    assert killed == -9
    with pytest.raises((SchemaMissing, RestoreUnfinished)):
        await require_schema(edge.pool)
    await restore(edge.place, folder, quietly)
    await require_schema(edge.pool)
    await edge.pool.expire_connections()
    told = await edge.take(101, 120)
    assert told.epoch != before.epoch
    await assert_exactly_once(edge.pool, edge.stream, 120)


@pytest.mark.parametrize(
    ("target", "moment"),
    [
        ("farmiq.backup.pg_tools:restore", "before"),
        ("farmiq.backup.lives:begin", "after"),
        ("farmiq.backup.restore:_restore", "after"),
    ],
)
async def test_a_restore_that_was_killed_still_names_what_the_backup_lacks(
    edge: EdgeWorld, tmp_path: Path, quietly: Say, target: str, moment: str
) -> None:
    await edge.take(1, 10)
    await create(edge.place, tmp_path / "backup", quietly)
    await edge.take(11, 15)
    await register(edge.pool, "node-2")
    await edge.pool.expire_connections()
    asked = ("backup", "restore", str(tmp_path / "backup"), "--replace", "--yes", "--json")
    # Twice: what was written down by the first is still there for the third.
    for _ in range(2):
        assert await edge.dying(target, moment, 1, *asked) == -9
    done = await edge.command(*asked)
    assert done.returncode == exits.OK, done.stderr
    [restored] = json.loads(done.stdout)
    assert restored["not_in_backup"] == {"samples": {"node-1": 5}, "sessions": [], "speakers": ["node-2"]}
    await require_schema(edge.pool)


async def test_a_tier_that_is_restored_stays_when_the_command_is_given_again(
    edge: EdgeWorld, tmp_path: Path, quietly: Say
) -> None:
    """As for both tiers, killed after the first: neither refused nor done again, and its report is not lost."""
    await edge.take(1, 10)
    [key] = await edge.take_pictures(1)
    folder = tmp_path / "backup"
    await create(edge.place, folder, quietly)
    await edge.take(11, 15)
    await edge.pool.expire_connections()
    first = await restore(edge.place, folder, quietly, is_replacing=True)
    await edge.pool.execute("VACUUM ANALYZE")
    await objects_of(edge.s3).delete(edge.s3.bucket, key)
    for is_replacing in (False, True):
        again = await restore(edge.place, folder, quietly, is_replacing=is_replacing)
        assert (again.was_restored, again.life, again.not_in_backup) == (True, first.life, first.not_in_backup)
    told = await edge.command("backup", "restore", str(folder))
    assert "restored by an earlier command, and unchanged since" in told.stdout, told.stderr
    assert (await objects_of(edge.s3).head(edge.s3.bucket, key)).size_bytes > 0


@pytest.mark.parametrize("change", ["UPDATE devices SET revoked_at = now()", "DELETE FROM media_objects"])
async def test_a_tier_that_has_gone_on_since_is_no_longer_restored(
    edge: EdgeWorld, tmp_path: Path, quietly: Say, change: str
) -> None:
    await edge.take(1, 10)
    await edge.take_pictures(1)
    folder = tmp_path / "backup"
    await create(edge.place, folder, quietly)
    await edge.pool.expire_connections()
    first = await restore(edge.place, folder, quietly, is_replacing=True)
    await edge.pool.expire_connections()
    await edge.pool.execute(change)
    with pytest.raises(TargetHoldsData):
        await restore(edge.place, folder, quietly)
    again = await restore(edge.place, folder, quietly, is_replacing=True)
    assert not again.was_restored
    assert again.life.epoch != first.life.epoch


async def test_another_backup_is_restored_in_the_place_of_one_that_was_just_restored(
    edge: EdgeWorld, tmp_path: Path, quietly: Say
) -> None:
    for name in ("first", "second"):
        await edge.take(1, 10)
        await create(edge.place, tmp_path / name, quietly)
    await edge.pool.expire_connections()
    await restore(edge.place, tmp_path / "first", quietly, is_replacing=True)
    with pytest.raises(TargetHoldsData):
        await restore(edge.place, tmp_path / "second", quietly)
    assert not (await restore(edge.place, tmp_path / "second", quietly, is_replacing=True)).was_restored


async def test_an_empty_edge_is_restored_without_being_told_to_replace(
    edge: EdgeWorld, tmp_path: Path, quietly: Say
) -> None:
    await create(edge.place, tmp_path / "empty", quietly)
    await restore(edge.place, tmp_path / "empty", quietly)
    await edge.pool.expire_connections()
    await edge.take(1, 10)
    with pytest.raises(TargetHoldsData):
        await restore(edge.place, tmp_path / "empty", quietly)
    await assert_exactly_once(edge.pool, edge.stream, 10)


async def _connected_as(edge: EdgeWorld, service: str) -> "asyncpg.Connection[asyncpg.Record]":
    return await asyncpg.connect(edge.url, server_settings={"application_name": service})
