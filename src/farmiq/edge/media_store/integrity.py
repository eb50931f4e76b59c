"""Rows and objects side by side: `farmiq media check`, and a job that looks once a day.

What is found while both change is looked at once more before it counts. A repair loses nothing: an object that no row speaks of
(the database was restored, or it came too late) becomes a picture that is verified like any other; a row without its object says
so from then on; bytes that are no longer those that were verified are refused, and kept as long as other refused ones.
"""

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final, Literal, TypeVar
from uuid import UUID

from msgspec import Struct

from farmiq.edge.alerts import Kind as AlertKind
from farmiq.edge.alerts import about_picture, raise_alert
from farmiq.edge.media_store import losses, store
from farmiq.edge.media_store.handlers import MISSING_ALERT, REFUSED_ALERT
from farmiq.edge.media_store.orphans import picture_behind
from farmiq.edge.media_store.picture import Picture
from farmiq.edge.media_store.verdicts import CHECKSUM_MISMATCH, SIZE_MISMATCH, Unfit
from farmiq.edge.weighvision_session import intake as sessions
from farmiq.kit.clock import Clock
from farmiq.kit.ids import new_trace_id
from farmiq.kit.logging import get_logger
from farmiq.kit.object_inventory import Alike, Expected, Finding, NoObject, NoRow, OtherSize, compare, walk
from farmiq.kit.postgres import Connection
from farmiq.kit.s3 import ObjectMissing, ObjectStore, StoredObject

ROOT: Final = "tenants/"
READ_BYTES_MAX: Final = 100 * 1024 * 1024

Kind = Literal["no_object", "no_row", "other_size", "other_checksum", "returned", "foreign"]

Item = TypeVar("Item")

log = get_logger(__name__)


class Problem(Struct, frozen=True):
    """`returned`: a picture that was given up and is there after all. `foreign`: an object that is none of ours, left alone."""

    kind: Kind
    object_key: str
    media_id: UUID | None = None
    tenant_id: str | None = None
    is_repaired: bool = False


@dataclass(frozen=True)
class Check:
    """One walk through one bucket."""

    connection: Connection
    objects: ObjectStore
    bucket: str
    is_deep: bool = False
    is_repairing: bool = False
    clock: Clock = field(default_factory=Clock)
    adopted_wait_seconds: float = 0.0
    """How long an adopted picture is not looked at, so that its station can announce it with its time and session before."""

    async def problems(self, counts: Counter[str]) -> AsyncIterator[Problem]:
        """What is wrong, as it is found. `counts` has afterwards how much was looked at."""
        given_up = await store.missing_ids(self.connection, self.bucket)
        rows = store.expected(self.connection, self.bucket)
        objects = _without_folders(walk(self.objects, self.bucket, ROOT))
        async for finding in compare(_counted(rows, counts, "rows"), _counted(objects, counts, "objects")):
            problem = await self._look_again(finding, given_up)
            if problem is not None:
                counts[problem.kind] += 1
                yield problem

    async def _look_again(self, finding: Finding, given_up: set[UUID]) -> Problem | None:
        match finding:
            case NoObject(expected):
                return await self._gone(expected)
            case NoRow(found):
                return await self._orphan(found)
            case OtherSize(expected):
                return await self._changed(expected, "other_size", SIZE_MISMATCH)
            case Alike(expected) if expected.media_id in given_up:
                return await self._returned(expected)
            case Alike(expected) if self.is_deep and expected.must_exist:
                return await self._deeply(expected)
        return None

    async def _gone(self, expected: Expected) -> Problem | None:
        async with self.connection.transaction():
            picture = await self._still_stored(expected)
            if picture is None or await self._is_there(expected.key):
                return None
            if self.is_repairing:
                await losses.mark_missing(self.connection, picture.media_id)
                await sessions.picture_lost(self.connection, picture.tenant_id, picture.media_id, self.clock.now())
                await self._tell(picture, "picture_missing", MISSING_ALERT, "is no longer in the object store")
        return self._problem("no_object", expected)

    async def _deeply(self, expected: Expected) -> Problem | None:
        """Nearly all of them are as they were: no row is locked for as long as reading takes."""
        picture = await store.of_tenant(self.connection, expected.media_id, expected.tenant_id)
        if picture is None or await self._is_unchanged(picture):
            return None
        return await self._changed(expected, "other_checksum", CHECKSUM_MISMATCH)

    async def _changed(self, expected: Expected, kind: Kind, code: str) -> Problem | None:
        async with self.connection.transaction():
            picture = await self._still_stored(expected)
            if picture is None or await self._is_unchanged(picture):
                return None
            if self.is_repairing:
                unfit = Unfit(code, "changed after it was stored")
                await losses.mark_refused(self.connection, picture.media_id, unfit, may_come_again=True)
                await sessions.picture_lost(self.connection, picture.tenant_id, picture.media_id, self.clock.now())
                await self._tell(picture, "picture_refused", REFUSED_ALERT, "changed after it was stored")
        return self._problem(kind, expected)

    async def _orphan(self, found: StoredObject) -> Problem | None:
        new = picture_behind(found, self.bucket, new_trace_id())
        if new is None:
            return Problem("foreign", found.key)
        async with self.connection.transaction():
            known = await store.lock(self.connection, new.media_id)
            if known is not None and known.object_key != found.key:
                return Problem("foreign", found.key)  # another picture has this id
            if known is not None or not await self._is_there(found.key):
                return None
            if self.is_repairing:
                await store.add(self.connection, new, first_check_seconds=0.0)
                await store.mark_adopted(self.connection, new.media_id)
                await store.announce(self.connection, new.media_id, check_in_seconds=self.adopted_wait_seconds)
        return Problem("no_row", found.key, new.media_id, new.origin.tenant_id, self.is_repairing)

    async def _returned(self, expected: Expected) -> Problem:
        if self.is_repairing:
            await store.announce(self.connection, expected.media_id)
        return self._problem("returned", expected)

    async def _still_stored(self, expected: Expected) -> Picture | None:
        """Locked: whoever deletes it, or sends it, waits until this is over."""
        picture = await store.lock(self.connection, expected.media_id)
        return picture if picture is not None and picture.state == "stored" else None

    async def _is_there(self, key: str) -> bool:
        try:
            await self.objects.head(self.bucket, key)
        except ObjectMissing:
            return False
        return True

    async def _is_unchanged(self, picture: Picture) -> bool:
        try:
            digest = await self.objects.digest(self.bucket, picture.object_key, bytes_max=READ_BYTES_MAX)
        except ObjectMissing:
            return True  # gone since it was listed: the next walk says so
        return (digest.size_bytes, digest.sha256.hex()) == (picture.size_bytes, picture.sha256)

    async def _tell(self, picture: Picture, kind: AlertKind, alert: str, what: str) -> None:
        log.error("picture_lost", media_id=str(picture.media_id), object_key=picture.object_key, reason=what)
        evidence = about_picture(picture.media_id, picture.device_id, picture.session_id, object_key=picture.object_key)
        subject = f"A picture of {picture.device_id} {what}"
        await raise_alert(self.connection, kind, subject, alert, evidence, picture.tenant_id)

    def _problem(self, kind: Kind, expected: Expected) -> Problem:
        return Problem(kind, expected.key, expected.media_id, expected.tenant_id, self.is_repairing)


async def _counted(items: AsyncIterator[Item], counts: Counter[str], name: str) -> AsyncIterator[Item]:
    async for item in items:
        counts[name] += 1
        yield item


async def _without_folders(objects: AsyncIterator[StoredObject]) -> AsyncIterator[StoredObject]:
    """SeaweedFS shows a folder that has become empty as an object without bytes."""
    async for found in objects:
        if found.size_bytes or not found.key.endswith("/"):
            yield found
