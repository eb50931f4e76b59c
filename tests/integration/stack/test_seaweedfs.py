from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import boto3
import pytest
from botocore.exceptions import ClientError

from farmiq.stack.object_store import BucketNotMade, create_bucket
from farmiq.stack.seaweedfs import SeaweedFs
from support.s3 import start_seaweedfs
from support.server_process import ServerProcess

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client


@pytest.fixture(scope="module")
def process(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    process = start_seaweedfs(tmp_path_factory.mktemp("store") / "seaweedfs", run_folder)
    yield process
    process.stop()


@pytest.fixture
def store(process: ServerProcess) -> SeaweedFs:
    assert isinstance(process.server, SeaweedFs)
    create_bucket(process.server.endpoint, process.server.access_key, process.server.secret_key, "pictures")
    return process.server


def client(store: SeaweedFs, access_key: str, secret_key: str) -> "S3Client":
    return boto3.client(
        "s3",
        endpoint_url=store.endpoint,
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        region_name="us-east-1",
    )


def test_what_was_acknowledged_survives_kill_9(process: ServerProcess, store: SeaweedFs) -> None:
    bodies = {f"{number}.jpg": bytes([number]) * 50_000 for number in range(20)}
    with closing(client(store, store.access_key, store.secret_key)) as s3:
        for key, body in bodies.items():
            s3.put_object(Bucket="pictures", Key=key, Body=body)
        process.kill()
        process.start()
        create_bucket(store.endpoint, store.access_key, store.secret_key, "pictures")
        assert {key: s3.get_object(Bucket="pictures", Key=key)["Body"].read() for key in bodies} == bodies
        s3.put_object(Bucket="pictures", Key="after.jpg", Body=b"x")


def test_a_wrong_key_opens_nothing(store: SeaweedFs) -> None:
    for access_key, secret_key in ((store.access_key, "wrong"), ("wrong", store.secret_key)):
        with (
            closing(client(store, access_key, secret_key)) as s3,
            pytest.raises(ClientError, match=r"SignatureDoesNotMatch|InvalidAccessKeyId"),
        ):
            s3.list_objects_v2(Bucket="pictures")
    with pytest.raises(BucketNotMade):
        create_bucket(store.endpoint, store.access_key, "wrong", "others", patience_seconds=0)


async def test_a_neighbour_on_the_machine_gets_nothing_without_a_key(store: SeaweedFs) -> None:
    with closing(client(store, store.access_key, store.secret_key)) as s3:
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
