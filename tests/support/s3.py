import json
import secrets
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest

from farmiq.stack.object_store import create_bucket
from farmiq.stack.ports import free_port
from farmiq.stack.seaweedfs import PORTS, S3Identity, SeaweedFs
from support.run_folder import locked
from support.server_process import SHARED, ServerProcess

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client


@dataclass(frozen=True)
class S3:
    endpoint: str
    access_key: str
    secret_key: str
    bucket: str


def start_seaweedfs(folder: Path, home: Path, identities: tuple[S3Identity, ...] = ()) -> ServerProcess:
    """Unless `identities` says otherwise, one key opens every bucket."""
    ports = {name: free_port() for name in PORTS}
    anybody = S3Identity("test", secrets.token_hex(16), secrets.token_hex(16))
    store = SeaweedFs(folder, ports, identities or (anybody,), secrets.token_hex(16))
    process = ServerProcess(store, home, folder.with_suffix(".log"))
    process.start()
    return process


@pytest.fixture(scope="session")
def _seaweedfs(run_folder: Path) -> S3:
    """One object store for the whole run. The first worker that needs it starts it; the run's warden ends it."""
    note = run_folder / "seaweedfs.json"
    with locked(run_folder / "seaweedfs.lock"):
        if not note.exists():
            process = start_seaweedfs(run_folder / "seaweedfs", run_folder)
            SHARED.append(process)
            server = process.server
            assert isinstance(server, SeaweedFs)
            key = server.identities[0]
            note.write_text(json.dumps([server.endpoint, key.access_key, key.secret_key]))
    endpoint, access_key, secret_key = json.loads(note.read_text())
    return S3(endpoint, access_key, secret_key, bucket="")


@pytest.fixture
def s3(_seaweedfs: S3) -> Iterator[S3]:
    """A real S3 with a fresh bucket of the test's own: `.endpoint`, `.access_key`, `.secret_key`, `.bucket`."""
    bucket = f"t{secrets.token_hex(6)}"
    create_bucket(_seaweedfs.endpoint, _seaweedfs.access_key, _seaweedfs.secret_key, bucket)
    yield S3(_seaweedfs.endpoint, _seaweedfs.access_key, _seaweedfs.secret_key, bucket)
    # Each bucket has volumes of its own, with whatever is in it; the store runs out of them in the course of a whole run.
    with closing(_client(_seaweedfs)) as client:
        client.delete_bucket(Bucket=bucket)


def _client(store: S3) -> "S3Client":
    return boto3.client(
        "s3",
        endpoint_url=store.endpoint,
        aws_access_key_id=store.access_key,
        aws_secret_access_key=store.secret_key,
        region_name="us-east-1",
    )
