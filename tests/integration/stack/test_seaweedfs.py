import asyncio
import contextlib
import json
import shutil
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

from farmiq.stack import binaries
from farmiq.stack.certificates import write_certificates
from farmiq.stack.object_store import BucketNotMade, create_bucket
from farmiq.stack.seaweedfs import S3Identity, SeaweedFs, keep_sync_rule
from support.s3 import start_seaweedfs
from support.server_process import ServerProcess
from support.stranger import needs_root, python_as_stranger, run_as_stranger
from support.waiting import eventually

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
    volume_door = f"http://127.0.0.1:{store.ports['volume']}/1,0123456789"
    async with aiohttp.ClientSession() as session:
        for url in (s3_door, filer_door, volume_door):
            for method in ("GET", "PUT", "DELETE"):
                async with session.request(method, url) as answer:
                    assert answer.status in (401, 403), (method, url)


def test_keys_stand_in_files_that_only_their_owner_can_read(store: SeaweedFs) -> None:
    for name in ("identities.json", "security.toml", "certificates/key.pem"):
        assert (store.folder / name).stat().st_mode & 0o777 == 0o600


def test_no_certificate_outlives_a_start(run_folder: Path, tmp_path: Path) -> None:
    process = start_seaweedfs(tmp_path / "seaweedfs", run_folder, (EDGE,))
    try:
        key = tmp_path / "seaweedfs" / "certificates" / "key.pem"
        before = key.read_text()
        process.restart()
        assert key.read_text() != before
        assert isinstance(process.server, SeaweedFs)
        asyncio.run(process.server.sync_before_answering())
    finally:
        process.stop()


@needs_root
@pytest.mark.parametrize("has_certificate", [False, True], ids=["none", "of-another-authority"])
def test_another_user_of_the_machine_cannot_use_the_shell_of_the_store(
    store: SeaweedFs, open_folder: Path, has_certificate: bool
) -> None:
    """In two lines it removed a picture and the rule by which uploads survive a power cut."""
    asyncio.run(store.sync_before_answering())
    weed = str(shutil.copy(binaries.weed(), open_folder / "weed"))
    if has_certificate:
        write_certificates(open_folder / "certificates", "stranger")
        own = SeaweedFs(open_folder, store.ports, (), "x").security()
        (open_folder / "security.toml").write_text(own)
        for path in (open_folder / "certificates", *(open_folder / "certificates").iterdir()):
            path.chmod(0o755)
    ports = store.ports
    places = [f"-{part}=127.0.0.1:{ports[part]}.{ports[f'{part}_grpc']}" for part in ("master", "filer")]
    orders = "fs.ls /buckets/pictures\nfs.rm /buckets/pictures/kept.jpg\nfs.configure -locationPrefix=/buckets/ -delete -apply\n"
    with closing(client(store)) as s3:
        s3.put_object(Bucket="pictures", Key="kept.jpg", Body=b"kept")
        with contextlib.suppress(subprocess.TimeoutExpired):  # it tries again for ever
            done = run_as_stranger(
                [weed, "shell", *places], stdin=f"{orders}exit\n", seconds=6, variables={"HOME": str(open_folder)}
            )
            assert "kept.jpg" not in done.stdout
        assert s3.get_object(Bucket="pictures", Key="kept.jpg")["Body"].read() == b"kept"
    assert asyncio.run(store.syncs_before_answering())


_KNOCK = """
import json, socket, ssl, sys
preface = b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + bytes.fromhex("000000040000000000")
request = b"GET /dir/status HTTP/1.0\\r\\n\\r\\n"
def answer(port, tls, sent):
    with socket.create_connection(("127.0.0.1", port), timeout=5) as plain:
        try:
            link = plain
            if tls:
                context = ssl._create_unverified_context()
                if sent is preface:
                    context.set_alpn_protocols(["h2"])
                link = context.wrap_socket(plain)
            link.sendall(sent)
            return link.recv(4096).hex()
        except (ssl.SSLError, ConnectionError):
            return ""
ports = json.loads(sys.argv[1])
grpc = {name: [answer(port, tls, preface) for tls in (False, True)] for name, port in ports.items() if name.endswith("_grpc")}
print(json.dumps({"grpc": grpc, "master": [answer(ports["master"], tls, request) for tls in (False, True)]}))
"""


@needs_root
def test_no_inner_port_answers_whoever_has_no_certificate(store: SeaweedFs) -> None:
    done = python_as_stranger(_KNOCK, json.dumps(store.ports))
    answers = json.loads(done.stdout)
    assert set(answers["grpc"]) == {"s3_grpc", "master_grpc", "volume_grpc", "filer_grpc"}
    for first, second in answers["grpc"].values():
        assert (first, second) == ("", "")
    plain, encrypted = (bytes.fromhex(answer) for answer in answers["master"])
    assert b"400 Bad Request" in plain
    assert encrypted == b""


_CONNECT = """
import socket, sys
for path in sys.argv[1:]:
    with socket.socket(socket.AF_UNIX) as link:
        try:
            link.connect(path)
        except PermissionError:
            print("refused")
"""


@needs_root
def test_no_unix_socket_of_the_store_lets_another_user_in(store: SeaweedFs) -> None:
    sockets = [str(path) for path in store.outside() if path.is_socket()]
    assert len(sockets) >= 5
    assert python_as_stranger(_CONNECT, *sockets).stdout.split() == ["refused"] * len(sockets)
    assert {Path(path).stat().st_mode & 0o777 for path in sockets} == {0o700}


async def test_the_rule_to_sync_is_restored_when_it_is_taken_away(store: SeaweedFs) -> None:
    await store.sync_before_answering()
    await asyncio.to_thread(remove_rule, store)
    assert not await store.syncs_before_answering()
    keeping = asyncio.create_task(keep_sync_rule(store, check_seconds=0.1))
    try:
        await eventually(store.syncs_before_answering, what="the rule, restored")
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])


def remove_rule(store: SeaweedFs) -> None:
    ports = store.ports
    places = [f"-{part}=127.0.0.1:{ports[part]}.{ports[f'{part}_grpc']}" for part in ("master", "filer")]
    subprocess.run(
        [binaries.weed(), "shell", *places],
        input=b"fs.configure -locationPrefix=/buckets/ -delete -apply\nexit\n",
        cwd=store.folder,
        env=store.environment(),
        check=True,
        capture_output=True,
    )


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
