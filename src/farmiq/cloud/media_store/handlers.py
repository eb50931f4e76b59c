"""What happens to a picture, step by step. Each step is one transaction, and each may be repeated."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from farmiq.cloud.media_store import store
from farmiq.cloud.media_store.announcements import Announcement, last_words
from farmiq.cloud.media_store.picture import Picture
from farmiq.contracts.media import EXTENSION_OF, CloudPresignRequest, object_key
from farmiq.kit.errors import FarmiqError, reason_of
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY, Connection, DatabaseAway, Pool
from farmiq.kit.s3 import Digest, ObjectMissing, ObjectStore, ObjectTooLarge, StoreAway

READ_SECONDS_MAX: Final = 60.0

log = get_logger(__name__)


class PictureUnknown(FarmiqError):
    """No edge has asked to send this picture, or it was kept as long as it had to be. Presign it first."""

    code = "media_unknown"


class NotUploaded(FarmiqError):
    """There are no bytes of this picture. Presign it and send them."""

    code = "object_missing"


class OtherBytes(FarmiqError):
    """The stored bytes are not those that were said. They were removed: presign the picture and send it again."""

    code = "checksum_mismatch"


class OtherPicture(FarmiqError):
    """A picture with this id is stored, and it is another one. Ids of pictures are not used twice."""

    code = "media_conflict"


async def want(pool: Pool, asked: CloudPresignRequest, bucket: str) -> Picture | None:
    """The row of a picture that may be sent now; None when its bytes are here already."""
    key = object_key(
        tenant_id=asked.tenant_id,
        farm_id=asked.farm_id,
        barn_id=asked.barn_id,
        device_id=asked.device_id,
        media_id=asked.media_id,
        captured_at=asked.captured_at,
        extension=EXTENSION_OF[asked.mime_type],
    )
    async with transaction(pool) as connection:
        picture = await store.want(connection, asked, bucket, key)
        if picture is not None:
            return picture
        stored = await store.one(connection, asked.tenant_id, asked.media_id)
    if stored is not None and stored.device_id not in (None, asked.device_id):
        raise OtherPicture(f"picture {asked.media_id} is one of another device")
    if stored is not None and (stored.sha256, stored.size_bytes) != (asked.sha256.lower(), asked.size_bytes):
        raise OtherPicture(f"picture {asked.media_id} is stored with other bytes")
    return None


async def complete(
    pool: Pool, objects: ObjectStore, tenant_id: str, media_id: UUID, at: datetime
) -> Literal["stored", "was_stored"]:
    """Read back what was uploaded, and call it stored if it is what was said.

    The row is locked from before the first byte is read until the state is committed. Of two that compare at once, neither so
    removes as wrong what the other has called stored. Killed in between, nothing has changed, and the same is done again.
    """
    async with transaction(pool) as connection:
        picture = await store.lock(connection, tenant_id, media_id)
        if picture is None:
            raise PictureUnknown(f"picture {media_id} is not known here: presign it first")
        if picture.state == "stored":
            return "was_stored"
        await settle(connection, objects, picture, at)
    return "stored"


async def settle(connection: Connection, objects: ObjectStore, picture: Picture, at: datetime) -> None:
    """Inside the transaction that holds the row's lock."""
    if picture.bucket is None or picture.object_key is None:
        raise NotUploaded(f"picture {picture.media_id} was announced, and nobody has asked to send it")
    try:
        digest = await read_back(objects, picture)
    except ObjectMissing as error:
        raise NotUploaded(f"there is no object for picture {picture.media_id}") from error
    if digest is None:
        await objects.delete(picture.bucket, picture.object_key)
        raise OtherBytes(f"the bytes of picture {picture.media_id} are not those that were said, and were removed")
    await store.mark_stored(connection, picture, digest, at)


async def read_back(objects: ObjectStore, picture: Picture) -> Digest | None:
    """None: there is an object, with other bytes than the row says. `ObjectMissing`: there is none."""
    assert picture.bucket is not None  # noqa: S101 - asked by the callers
    assert picture.object_key is not None  # noqa: S101 - as above
    try:
        async with asyncio.timeout(READ_SECONDS_MAX):
            digest = await objects.digest(picture.bucket, picture.object_key, bytes_max=picture.size_bytes or 0)
    except ObjectTooLarge:
        return None
    except TimeoutError as error:
        raise StoreAway(f"the object store did not give the picture back within {READ_SECONDS_MAX:g} s") from error
    is_said = (digest.size_bytes, digest.sha256.hex()) == (picture.size_bytes, picture.sha256)
    return digest if is_said else None


async def announce(pool: Pool, announcements: Sequence[Announcement]) -> int:
    """Edges say that they have stored pictures. Answers of how many they said another checksum than they sent bytes for."""
    latest = last_words(announcements)
    async with pool.acquire() as connection, connection.transaction():
        written = await store.announce(connection, latest)
    otherwise = [one for one in latest if _contradicts(one.sha256, written.get((one.tenant_id, one.media_id)))]
    for one in otherwise:
        log.error("picture_announced_otherwise", tenant_id=one.tenant_id, media_id=str(one.media_id))
    return len(otherwise)


def _contradicts(said: str | None, known: str | None) -> bool:
    return said is not None and known is not None and said != known


@asynccontextmanager
async def transaction(pool: Pool) -> AsyncIterator[Connection]:
    """A database that is away, or a picture that somebody is just comparing, is the caller's to wait for."""
    try:
        async with pool.acquire() as connection, connection.transaction():
            await store.limit_waiting(connection)
            yield connection
    except RETRY as error:
        raise DatabaseAway(f"PostgreSQL: {reason_of(error)}") from error
