"""Object storage: presigned URLs that allow one upload of exactly one body, and the few calls that services make themselves.

boto3 blocks, so its calls run in a small thread pool of their own: a slow store can't take the threads of anybody else.
"""

import asyncio
import base64
import hashlib
import re
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import boto3
import msgspec
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from farmiq.kit.clock import Clock
from farmiq.kit.errors import FarmiqError, Rejected, Transient
from farmiq.kit.s3_signing import Signer

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

PUT_SECONDS_MAX = 300
GET_SECONDS_MAX = 300
DELETE_KEYS_MAX = 1000
READ_BYTES = 256 * 1024

_FILENAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,99}")

T = TypeVar("T")


class StoreAway(Transient):
    """The object store does not answer, or asks for patience. Nothing was stored; try again later."""

    code = "object_store_away"


class StoreRefused(FarmiqError):
    """The object store refused the request. Check S3_ACCESS_KEY and S3_SECRET_KEY, and this machine's clock."""

    code = "object_store_refused"


class BucketMissing(StoreAway):
    """There is no such bucket, which says nothing about any object. Make it, or correct MEDIA_BUCKET."""

    code = "bucket_missing"


class ObjectMissing(FarmiqError):
    """There is no object under this key: never uploaded, or removed by retention."""

    code = "object_missing"


class ObjectExists(FarmiqError):
    """An object is there already, and is not overwritten."""

    code = "object_exists"


class ObjectTooLarge(Rejected):
    """The object is larger than the caller is willing to read."""

    code = "object_too_large"


class PresignedPut(msgspec.Struct, frozen=True):
    """The URL works only together with exactly these headers."""

    url: str
    headers: dict[str, str]


class StoredObject(msgspec.Struct, frozen=True):
    key: str
    size_bytes: int
    modified_at: datetime


class Digest(msgspec.Struct, frozen=True):
    """What an object's bytes are, as they were read back."""

    size_bytes: int
    sha256: bytes
    etag: str | None = None


class Fetched(msgspec.Struct, frozen=True):
    """An object whose bytes are in a file now."""

    size_bytes: int
    sha256: bytes
    content_type: str


class ObjectStore:
    """One account at one endpoint. `region` matters to signatures even where the store itself knows none."""

    def __init__(
        self,
        endpoint: str,
        *,
        access_key: str,
        secret_key: str,
        region: str = "us-east-1",
        threads_max: int = 8,
        clock: Clock | None = None,
    ) -> None:
        self._region = region
        self._endpoint = endpoint
        self._clock = clock or Clock()
        self._signer = Signer(endpoint, access_key=access_key, secret_key=secret_key, region=region)
        self._threads = ThreadPoolExecutor(threads_max, thread_name_prefix="s3")
        self._client: S3Client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            aws_access_key_id=access_key,
            aws_secret_access_key=secret_key,
            region_name=region,
            config=Config(
                signature_version="s3v4",
                s3={"addressing_style": "path"},
                connect_timeout=5,
                read_timeout=30,
                retries={"mode": "standard", "total_max_attempts": 3},
                max_pool_connections=threads_max,
                # Ours are SHA-256, where they are wanted: not every store knows the CRC32 that boto3 adds by itself.
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    def presign_put(
        self, bucket: str, key: str, *, content_type: str, size_bytes: int, sha256: bytes, expires_seconds: int
    ) -> PresignedPut:
        """A URL that stores this very body, once. Size, type, checksum and "not yet there" are part of the signature."""
        _require(1 <= expires_seconds <= PUT_SECONDS_MAX, f"expires_seconds must be 1 to {PUT_SECONDS_MAX}")
        _require(len(sha256) == hashlib.sha256().digest_size, "sha256 must be 32 bytes")
        headers = {
            "content-type": content_type,
            "content-length": str(size_bytes),
            "x-amz-checksum-sha256": base64.b64encode(sha256).decode(),
            "if-none-match": "*",
        }
        now = self._clock.now()
        url = self._signer.presign("PUT", bucket, key, now, expires_seconds, headers=headers)
        return PresignedPut(url, headers)

    def presign_get(
        self,
        bucket: str,
        key: str,
        *,
        expires_seconds: int,
        content_type: str | None = None,
        filename: str | None = None,
    ) -> str:
        """`content_type` and `filename` are signed in: a browser takes the body for that and for nothing else, and saves it."""
        _require(1 <= expires_seconds <= GET_SECONDS_MAX, f"expires_seconds must be 1 to {GET_SECONDS_MAX}")
        said = {}
        if content_type is not None:
            said["response-content-type"] = content_type
        if filename is not None:
            _require(_FILENAME.fullmatch(filename) is not None, "a file name is letters, digits, dots and hyphens")
            said["response-content-disposition"] = f'attachment; filename="{filename}"'
        return self._signer.presign("GET", bucket, key, self._clock.now(), expires_seconds, query=said)

    async def put(self, bucket: str, key: str, body: bytes, *, content_type: str, must_be_new: bool = False) -> None:
        """Store a body; the store compares its checksum. ObjectExists when it must be new and is not."""
        checksum = base64.b64encode(hashlib.sha256(body).digest()).decode()
        condition: dict[str, Any] = {"IfNoneMatch": "*"} if must_be_new else {}
        await self._call(
            partial(
                self._client.put_object,
                Bucket=bucket,
                Key=key,
                Body=body,
                ContentType=content_type,
                ChecksumSHA256=checksum,
                **condition,
            )
        )

    async def get(self, bucket: str, key: str, *, bytes_max: int) -> bytes:
        """The body, unless it is larger than `bytes_max`: then nothing of it is read."""
        return await self._call(partial(self._read, bucket, key, bytes_max))

    async def digest(self, bucket: str, key: str, *, bytes_max: int) -> Digest:
        """Size and SHA-256 of what the store gives back now, in flat memory. ObjectTooLarge before a byte of more is read."""
        return await self._call(partial(self._hash, bucket, key, bytes_max))

    async def fetch(self, bucket: str, key: str, path: Path) -> Fetched:
        """The body into a file, in flat memory. Whoever needs it to survive a power cut has to sync it."""
        return await self._call(partial(self._save, bucket, key, path))

    async def put_file(self, bucket: str, key: str, path: Path, *, content_type: str, sha256: bytes) -> None:
        """Store a file's bytes, in flat memory; the store compares the checksum. ObjectExists when the key is taken."""
        await self._call(partial(self._send_file, bucket, key, path, content_type, sha256))

    async def head(self, bucket: str, key: str) -> StoredObject:
        found = await self._call(partial(self._client.head_object, Bucket=bucket, Key=key))
        return StoredObject(key, found["ContentLength"], found["LastModified"])

    async def delete(self, bucket: str, key: str) -> None:
        """An object that is not there counts as deleted."""
        await self._call(partial(self._client.delete_object, Bucket=bucket, Key=key))

    async def delete_many(self, bucket: str, keys: Sequence[str]) -> None:
        """Objects that are not there count as deleted. Raises unless all of them are gone."""
        for first in range(0, len(keys), DELETE_KEYS_MAX):
            named: Any = [{"Key": key} for key in keys[first : first + DELETE_KEYS_MAX]]
            answer = await self._call(
                partial(self._client.delete_objects, Bucket=bucket, Delete={"Objects": named, "Quiet": True})
            )
            if kept := answer.get("Errors"):
                raise StoreAway(f"{len(kept)} objects were not deleted, the first because: {kept[0].get('Message')}")

    async def list_objects(
        self, bucket: str, prefix: str = "", *, page_size: int = 1000
    ) -> AsyncIterator[StoredObject]:
        """A page at a time, in an order that is the store's own: `object_inventory.walk` has one that all stores share."""
        async for page in self._pages(bucket, prefix, page_size):
            for item in page.get("Contents", []):
                yield StoredObject(item["Key"], item["Size"], item["LastModified"])

    async def list_folder(
        self, bucket: str, prefix: str = "", *, page_size: int = 1000
    ) -> AsyncIterator[tuple[list[str], list[StoredObject]]]:
        """One level: pages of the prefixes below it, each ending in a slash, and of the objects that lie in it.

        A key that itself ends in a slash is the mark of a folder, which some stores show for one that was emptied: no object.
        """
        async for page in self._pages(bucket, prefix, page_size, Delimiter="/"):
            folders = [part["Prefix"] for part in page.get("CommonPrefixes", [])]
            objects = [
                StoredObject(item["Key"], item["Size"], item["LastModified"])
                for item in page.get("Contents", [])
                if not item["Key"].endswith("/")
            ]
            yield folders, objects

    async def _pages(self, bucket: str, prefix: str, page_size: int, **more: Any) -> AsyncIterator[Any]:
        position: dict[str, Any] = {}
        while True:
            asked = {"Bucket": bucket, "Prefix": prefix, "MaxKeys": page_size, **more, **position}
            page = await self._call(partial(self._client.list_objects_v2, **asked))
            yield page
            if not page["IsTruncated"]:
                return
            position = {"ContinuationToken": page["NextContinuationToken"]}

    async def require_bucket(self, bucket: str) -> None:
        """`BucketMissing` unless it is there. For readiness: an object that is asked for may be missing with its bucket."""
        try:
            await self._call(partial(self._client.head_bucket, Bucket=bucket))
        except ObjectMissing as error:
            raise BucketMissing(f"The object store at {self._endpoint} has no bucket {bucket}") from error

    async def ensure_bucket(self, bucket: str) -> None:
        """Make the bucket unless it is there. Several replicas may do this at once."""
        try:
            await self.require_bucket(bucket)
        except BucketMissing:
            await self._call(partial(self._create_bucket, bucket))

    def _create_bucket(self, bucket: str) -> None:
        # AWS wants the region named, except for the one where naming it is an error.
        place: Any = (
            {} if self._region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": self._region}}
        )
        try:
            self._client.create_bucket(Bucket=bucket, **place)
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") != "BucketAlreadyOwnedByYou":
                self._client.head_bucket(Bucket=bucket)  # a neighbour may have been faster: is it ours to use?

    def _read(self, bucket: str, key: str, bytes_max: int) -> bytes:
        found = self._client.get_object(Bucket=bucket, Key=key)
        # Closed by us: used as a context by itself, it gives the bare response, which does not notice that it was cut short.
        with closing(found["Body"]) as stream:
            _refuse_larger(bucket, key, found["ContentLength"], bytes_max)
            return stream.read()

    def _hash(self, bucket: str, key: str, bytes_max: int) -> Digest:
        found = self._client.get_object(Bucket=bucket, Key=key)
        with closing(found["Body"]) as stream:
            _refuse_larger(bucket, key, found["ContentLength"], bytes_max)
            hashed, size_bytes = hashlib.sha256(), 0
            for chunk in stream.iter_chunks(READ_BYTES):
                hashed.update(chunk)
                size_bytes += len(chunk)
        return Digest(size_bytes, hashed.digest(), found.get("ETag"))

    def _save(self, bucket: str, key: str, path: Path) -> Fetched:
        found = self._client.get_object(Bucket=bucket, Key=key)
        with closing(found["Body"]) as stream, path.open("wb") as file:
            hashed, size_bytes = hashlib.sha256(), 0
            for chunk in stream.iter_chunks(READ_BYTES):
                file.write(chunk)
                hashed.update(chunk)
                size_bytes += len(chunk)
        return Fetched(size_bytes, hashed.digest(), found["ContentType"])

    def _send_file(self, bucket: str, key: str, path: Path, content_type: str, sha256: bytes) -> None:
        with path.open("rb") as body:
            self._client.put_object(
                Bucket=bucket,
                Key=key,
                Body=body,
                ContentType=content_type,
                ChecksumSHA256=base64.b64encode(sha256).decode(),
                IfNoneMatch="*",
            )

    async def _call(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except ClientError as error:
            raise self._name(error) from error
        except BotoCoreError as error:
            raise StoreAway(f"The object store at {self._endpoint} does not answer: {error}") from error

    def _name(self, error: ClientError) -> FarmiqError:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if error.response.get("Error", {}).get("Code") == "NoSuchBucket":
            return BucketMissing(f"The object store at {self._endpoint} has no such bucket: {error}")
        if status == 404:
            return ObjectMissing(str(error))
        if status == 412:
            return ObjectExists(str(error))
        if status in (408, 409, 429) or status >= 500:
            return StoreAway(f"The object store at {self._endpoint} asks for patience: {error}")
        return StoreRefused(
            f"The object store at {self._endpoint} refused: {error}. "
            "Check S3_ACCESS_KEY and S3_SECRET_KEY, and this machine's clock"
        )


def _refuse_larger(bucket: str, key: str, size_bytes: int, bytes_max: int) -> None:
    if size_bytes > bytes_max:
        raise ObjectTooLarge(f"{bucket}/{key} has {size_bytes} bytes, more than {bytes_max}")


def _require(is_met: bool, what: str) -> None:
    if not is_met:
        raise ValueError(what)
