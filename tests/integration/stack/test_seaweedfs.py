import asyncio
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import boto3
import pytest
from botocore.exceptions import ClientError

from farmiq.stack.object_store import BucketNotMade, create_bucket
from farmiq.stack.seaweedfs import S3Identity, SeaweedFs
from support.s3 import start_seaweedfs
from support.server_process import ServerProcess

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client


EDGE = S3Identity("edge", "edge-key", "edge-secret-of-this-test", bucket="pictures")
CLOUD = S3Identity("cloud", "cloud-key", "cloud-secret-of-this-test", bucket="pictures-of-the-cloud")


@pytest.fixture(scope="module")
def process(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    process = start_seaweedfs(tmp_path_factory.mktemp("store") / "seaweedfs", run_folder, (EDGE, CLOUD))
    yield process
    process.stop()


@pytest.fixture
def store(process: ServerProcess) -> SeaweedFs:
    assert isinstance(process.server, SeaweedFs)
    for tier in (EDGE, CLOUD):
        create_bucket(process.server.endpoint, tier.access_key, tier.secret_key, tier.bucket or "")
    return process.server


def client(store: SeaweedFs, identity: S3Identity = EDGE) -> "S3Client":
    return boto3.client(
        "s3",
        endpoint_url=store.endpoint,
        aws_access_key_id=identity.access_key,
        aws_secret_access_key=identity.secret_key,
        region_name="us-east-1",
    )


def test_what_was_acknowledged_survives_kill_9(process: ServerProcess, store: SeaweedFs) -> None:
    bodies = {f"{number}.jpg": bytes([number]) * 50_000 for number in range(20)}
    with closing(client(store)) as s3:
        for key, body in bodies.items():
            s3.put_object(Bucket="pictures", Key=key, Body=body)
        process.kill()
        process.start()
        create_bucket(store.endpoint, EDGE.access_key, EDGE.secret_key, "pictures")
        assert {key: s3.get_object(Bucket="pictures", Key=key)["Body"].read() for key in bodies} == bodies
        s3.put_object(Bucket="pictures", Key="after.jpg", Body=b"x")


def test_the_bytes_and_the_listing_of_an_upload_are_synced_before_it_is_answered(
    process: ServerProcess, store: SeaweedFs, tmp_path: Path
) -> None:
    asyncio.run(store.sync_before_answering())
    trace = tmp_path / "trace"
    watching = ["strace", "-f", "-y", "-e", "trace=fsync,fdatasync", "-o", str(trace), "-p", str(process.pid)]
    with closing(client(store)) as s3, subprocess.Popen(watching, stderr=subprocess.PIPE, text=True) as strace:
        assert strace.stderr is not None
        assert "attached" in strace.stderr.readline()
        s3.put_object(Bucket="pictures", Key="synced.jpg", Body=b"x" * 300_000)
        strace.send_signal(signal.SIGINT)
        strace.wait(timeout=30)
    synced = trace.read_text()
    assert ".dat>" in synced
    assert "filer.db" in synced


def test_a_wrong_key_opens_nothing(store: SeaweedFs) -> None:
    for wrong in (S3Identity("", EDGE.access_key, "wrong"), S3Identity("", "wrong", EDGE.secret_key)):
        with (
            closing(client(store, wrong)) as s3,
            pytest.raises(ClientError, match=r"SignatureDoesNotMatch|InvalidAccessKeyId"),
        ):
            s3.list_objects_v2(Bucket="pictures")
    with pytest.raises(BucketNotMade):
        create_bucket(store.endpoint, EDGE.access_key, "wrong", "others", patience_seconds=0)


@pytest.mark.parametrize(("who", "others"), [(EDGE, CLOUD), (CLOUD, EDGE)], ids=["edge", "cloud"])
def test_a_tier_cannot_touch_the_pictures_of_the_other(store: SeaweedFs, who: S3Identity, others: S3Identity) -> None:
    own, foreign = who.bucket or "", others.bucket or ""
    with closing(client(store, others)) as s3:
        s3.put_object(Bucket=foreign, Key="theirs.jpg", Body=b"theirs")
    with closing(client(store, who)) as s3:
        s3.put_object(Bucket=own, Key="ours.jpg", Body=b"ours")
        attempts: list[Callable[[], object]] = [
            lambda: s3.get_object(Bucket=foreign, Key="theirs.jpg"),
            lambda: s3.put_object(Bucket=foreign, Key="ours.jpg", Body=b"x"),
            lambda: s3.copy_object(Bucket=own, Key="theirs.jpg", CopySource={"Bucket": foreign, "Key": "theirs.jpg"}),
            lambda: s3.delete_object(Bucket=foreign, Key="theirs.jpg"),
            lambda: s3.list_objects_v2(Bucket=foreign),
            lambda: s3.delete_bucket(Bucket=foreign),
            lambda: s3.create_bucket(Bucket="one-more"),
        ]
        for attempt in attempts:
            with pytest.raises(ClientError, match="AccessDenied"):
                attempt()
        assert [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]] == [own]


async def test_a_neighbour_on_the_machine_gets_nothing_without_a_key(store: SeaweedFs) -> None:
    with closing(client(store)) as s3:
        s3.put_object(Bucket="pictures", Key="private.jpg", Body=b"x")
    s3_door = f"{store.endpoint}/pictures/private.jpg"
    filer_door = f"http://127.0.0.1:{store.ports['filer']}/buckets/pictures/private.jpg"
    async with aiohttp.ClientSession() as session:
        for url in (s3_door, filer_door):
            for method in ("GET", "PUT", "DELETE"):
                async with session.request(method, url) as answer:
                    assert answer.status in (401, 403), (method, url)


def test_keys_stand_in_files_that_only_their_owner_can_read(store: SeaweedFs) -> None:
    for name in ("identities.json", ".seaweedfs/security.toml"):
        assert (store.folder / name).stat().st_mode & 0o777 == 0o600


def test_a_store_from_before_the_tiers_had_keys_of_their_own_goes_on_serving_the_edge(
    run_folder: Path, tmp_path: Path
) -> None:
    before = S3Identity("farmiq", EDGE.access_key, EDGE.secret_key)
    process = start_seaweedfs(tmp_path / "seaweedfs", run_folder, (before,))
    try:
        assert isinstance(process.server, SeaweedFs)
        create_bucket(process.server.endpoint, before.access_key, before.secret_key, "pictures")
        with closing(client(process.server, before)) as s3:
            s3.put_object(Bucket="pictures", Key="old.jpg", Body=b"old")
        process.stop()
        process.server = replace(process.server, identities=(EDGE, CLOUD))
        process.start()
        for tier in (EDGE, CLOUD):
            create_bucket(process.server.endpoint, tier.access_key, tier.secret_key, tier.bucket or "")
        with closing(client(process.server, EDGE)) as s3:
            assert s3.get_object(Bucket="pictures", Key="old.jpg")["Body"].read() == b"old"
            s3.put_object(Bucket="pictures", Key="new.jpg", Body=b"new")
            assert s3.list_objects_v2(Bucket="pictures")["KeyCount"] == 2
            s3.delete_object(Bucket="pictures", Key="old.jpg")
    finally:
        process.stop()
