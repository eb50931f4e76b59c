"""`farmiq media check` and the jobs about pictures, on real databases and a real object store."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from farmiq.cli import exits
from farmiq.kit.postgres import Pool
from support.media_world import environment, objects_of, station
from support.picture_files import picture
from support.s3 import S3

FARMIQ = str(Path(sys.executable).parent / "farmiq")
JPEG = picture()


async def farmiq(environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(
        subprocess.run, [FARMIQ, *arguments], env=environ, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "FARMIQ_HOME": str(tmp_path / "home")}


async def test_check_finds_and_repairs_at_the_edge(
    edge_pool: Pool, edge_url: str, s3: S3, shell: dict[str, str]
) -> None:
    environ = shell | environment(edge_url, s3)
    async with station(edge_pool, edge_url, s3) as scale:
        gone, kept = [await scale.upload(picture(width=60 + number)) for number in range(2)]
        for media_id in (gone, kept):
            assert (await scale.complete(media_id)).status == 200
        sound = await farmiq(environ, "media", "check", "--deep")
        assert (sound.returncode, sound.stderr) == (exits.OK, "")
        assert sound.stdout.splitlines()[-1] == "2 pictures were compared: nothing is wrong."
        key = await edge_pool.fetchval("SELECT object_key FROM media_objects WHERE id = $1", gone)
        await objects_of(s3).delete(s3.bucket, key)
        told = await farmiq(environ, "media", "check")
        assert told.returncode == exits.FAILED
        assert f"the database has it, the object store does not: 1\n  {key}\n" in told.stdout
        assert "media check --tier edge --repair corrects" in told.stdout
        repaired = await farmiq(environ, "media", "check", "--repair", "--json")
        assert (repaired.returncode, json.loads(repaired.stdout)) == (
            exits.OK,
            {
                "tier": "edge",
                "pictures": 1,
                "found": {"no_object": 1},
                "repaired": {"no_object": 1},
                "examples": {"no_object": [key]},
            },
        )
        assert (await farmiq(environ, "media", "check")).returncode == exits.OK


async def test_check_looks_at_the_cloud_too(cloud_url: str, s3: S3, shell: dict[str, str]) -> None:
    told = await farmiq(shell | environment(cloud_url, s3), "media", "check", "--tier", "cloud", "--json")
    assert (told.returncode, told.stderr) == (exits.OK, "")
    assert json.loads(told.stdout) == {"tier": "cloud", "pictures": 0, "found": {}, "repaired": {}, "examples": {}}


async def test_what_cannot_be_checked_is_explained(edge_url: str, s3: S3, shell: dict[str, str]) -> None:
    whole = shell | environment(edge_url, s3)
    without_store = {name: value for name, value in whole.items() if not name.startswith("S3_")}
    for environ, arguments, code, words in (
        (shell, (), exits.BAD_SETTINGS, "which edge database?"),
        (without_store, (), exits.BAD_SETTINGS, "S3_ENDPOINT is missing"),
        (whole, ("--tier", "cloud"), exits.BAD_SETTINGS, "farmiq media check --tier edge"),
        (whole | {"S3_SECRET_KEY": "wrong"}, (), exits.FAILED, "S3_SECRET_KEY"),
        (whole | {"S3_ENDPOINT": "http://127.0.0.1:9"}, (), exits.FAILED, "does not answer"),
        (whole | {"MEDIA_BUCKET": "no-such-bucket"}, (), exits.FAILED, "no such bucket"),
    ):
        told = await farmiq(environ, "media", "check", *arguments)
        assert (told.returncode, words in told.stderr) == (code, True), (arguments, told.stderr)
        assert "Traceback" not in told.stderr


async def test_the_jobs_about_pictures_run_by_hand(
    edge_pool: Pool, edge_url: str, s3: S3, shell: dict[str, str]
) -> None:
    environ = shell | environment(edge_url, s3)
    for job, report in (
        ("media-retention", {"deleted": 0, "forced": 0, "held_for_session": 0, "held_for_sync": 0}),
        ("media-refused-cleanup", {"objects": 0}),
        ("media-integrity", {"rows": 0, "objects": 0}),
    ):
        told = await farmiq(environ, "jobs", "run", job, "--json")
        assert (told.returncode, json.loads(told.stdout)["report"]) == (exits.OK, report), told.stderr
    without_store = shell | {"DATABASE_URL": edge_url}
    told = await farmiq(without_store, "jobs", "run", "media-retention")
    assert told.returncode == exits.BAD_SETTINGS
    assert "S3_ENDPOINT is missing" in told.stderr
    assert (await farmiq(without_store, "jobs", "ls")).returncode == exits.OK
