"""Do the rows and the bucket say the same? And, when asked for, make it so again.

    report = await check(connection, objects, bucket, clock=clock, repair=True, sample=0.01)

What is found, and what repairing does, after looking once more under the row's lock:

- `no_object`: a stored picture has no object. The row becomes `missing`, and the edges are asked for it.
- `other_size`, `other_checksum`: the object is not what the row says. It is removed, and the row becomes `missing`.
- `no_row`: an object with a key of ours that no row knows, older than the grace. It is read and gets a row again: a database
  that was restored from a backup has lost rows, and the edge believes its pictures safe.
- `foreign`: an object below our prefix with a key that we do not make. It is not ours to touch.
- `not_compared`: uploaded, and nobody came to have it compared, longer ago than the grace. It is compared now.
- `stray_thumbnail`: a thumbnail without its picture, older than the grace. It is removed.
"""

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from farmiq.cloud.media_store import handlers, store
from farmiq.cloud.media_store.picture import (
    PICTURES_PREFIX,
    THUMBNAILS_PREFIX,
    Picture,
    thumbnail_key,
)
from farmiq.contracts.media import ObjectName, read_object_key
from farmiq.kit.clock import Clock
from farmiq.kit.logging import get_logger
from farmiq.kit.object_inventory import Alike, Expected, Finding, NoObject, NoRow, OtherSize, compare, walk
from farmiq.kit.postgres import Connection
from farmiq.kit.s3 import ObjectMissing, ObjectStore, StoredObject

PAGE_ROWS: Final = 1000
EXAMPLES_MAX: Final = 20
GRACE_SECONDS: Final = 24 * 3600.0
"""A URL lives for five minutes and an upload that began in time may end late. A day leaves a person time to look, too."""
KINDS: Final = ("no_object", "other_size", "other_checksum", "no_row", "not_compared", "stray_thumbnail", "foreign")

log = get_logger(__name__)


@dataclass
class IntegrityReport:
    """`found` and `repaired` count by kind; `examples` names the first keys of each. `compared` is how many were read."""

    pictures: int = 0
    bytes: int = 0
    compared: int = 0
    found: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    repaired: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    examples: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in KINDS})

    @property
    def is_sound(self) -> bool:
        return not any(self.found.values())

    def note(self, kind: str, key: str, *, is_repaired: bool) -> None:
        self.found[kind] += 1
        self.repaired[kind] += is_repaired
        if len(self.examples[kind]) < EXAMPLES_MAX:
            self.examples[kind].append(key)

    def counts(self) -> dict[str, int]:
        return {"pictures": self.pictures, "compared": self.compared, **self.found}


@dataclass(frozen=True)
class _Check:
    connection: Connection
    objects: ObjectStore
    bucket: str
    clock: Clock
    cutoff: datetime
    repair: bool
    sample: float
    report: IntegrityReport


async def check(
    connection: Connection,
    objects: ObjectStore,
    bucket: str,
    *,
    clock: Clock,
    repair: bool = False,
    sample: float = 0.0,
    grace_seconds: float = GRACE_SECONDS,
) -> IntegrityReport:
    """`sample` is the share of pictures whose bytes are read, 1 for all of them."""
    cutoff = clock.now() - timedelta(seconds=grace_seconds)
    report = IntegrityReport()
    run = _Check(connection, objects, bucket, clock, cutoff, repair, sample, report)
    async for finding in compare(_rows(run), walk(objects, bucket, PICTURES_PREFIX)):
        await _look_into(run, finding)
    async for finding in compare(_thumbnails(run), walk(objects, bucket, THUMBNAILS_PREFIX)):
        await _look_into_thumbnail(run, finding)
    return report


async def _rows(run: _Check) -> AsyncIterator[Expected]:
    after = ""
    while page := await store.inventory(run.connection, run.bucket, after, PAGE_ROWS):
        for row in page:
            yield row
        after = page[-1].key


async def _thumbnails(run: _Check) -> AsyncIterator[Expected]:
    """One may be there for each picture, and none has to."""
    async for row in _rows(run):
        yield Expected(thumbnail_key(row.key), None, row.tenant_id, row.media_id, must_exist=False)


async def _look_into(run: _Check, finding: Finding) -> None:
    match finding:
        case NoObject(expected):
            await _look_again(run, "no_object", expected)
        case OtherSize(expected, found) if expected.must_exist:
            _count(run.report, found)
            await _look_again(run, "other_size", expected)
        case OtherSize(expected, found) | Alike(expected, found) if not expected.must_exist:
            if found.modified_at < run.cutoff:
                await _compare_now(run, expected)
        case Alike(expected, found):
            _count(run.report, found)
            if is_sampled(found.key, run.sample):
                await _look_again(run, "other_checksum", expected)
        case NoRow(found) if found.modified_at < run.cutoff:
            await _take_in(run, found)


async def _look_again(run: _Check, kind: str, expected: Expected) -> None:
    """Under the row's lock, with the bytes read. What was found may have been true only for a moment."""
    async with run.connection.transaction():
        picture = await store.lock(run.connection, expected.tenant_id, expected.media_id)
        if picture is None or picture.state != "stored" or picture.object_key != expected.key:
            return
        at = run.clock.now()
        try:
            digest = await handlers.read_back(run.objects, picture)
            run.report.compared += 1
            if digest is not None:
                await store.mark_verified(run.connection, picture.tenant_id, picture.media_id, at)
                return
            has_other_bytes = True
        except ObjectMissing:
            # A store or a proxy may answer so for an instant. Nothing is removed for it: a picture that is there after all is
            # recognised when an edge sends it again, and by the next check.
            kind, has_other_bytes = "no_object", False
        if run.repair:
            if has_other_bytes:
                await run.objects.delete(run.bucket, expected.key)
            await store.mark_missing(run.connection, picture, kind, at)
    _note(run, kind, expected.key, is_repaired=run.repair)


async def _compare_now(run: _Check, expected: Expected) -> None:
    async with run.connection.transaction():
        picture = await store.lock(run.connection, expected.tenant_id, expected.media_id)
        if picture is None or picture.state == "stored" or picture.object_key != expected.key:
            return
        if run.repair:
            await _settle(run, picture)
    _note(run, "not_compared", expected.key, is_repaired=run.repair)


async def _settle(run: _Check, picture: Picture) -> None:
    try:
        await handlers.settle(run.connection, run.objects, picture, run.clock.now())
    except (handlers.OtherBytes, handlers.NotUploaded) as error:
        # Other bytes were removed, or none were there any more: either way the picture is still wanted.
        log.warning("uploaded_picture_refused", media_id=str(picture.media_id), code=error.code)


async def _take_in(run: _Check, found: StoredObject) -> None:
    name = read_object_key(found.key)
    if name is None:
        _note(run, "foreign", found.key, is_repaired=False)
    elif not await store.has_key(
        run.connection, run.bucket, found.key
    ):  # else presigned since its page of rows was read
        _note(run, "no_row", found.key, is_repaired=run.repair and await _adopt(run, name, found))


async def _adopt(run: _Check, name: ObjectName, found: StoredObject) -> bool:
    try:
        digest = await run.objects.digest(run.bucket, found.key, bytes_max=found.size_bytes)
    except ObjectMissing:
        return False
    return await store.adopt(run.connection, name, run.bucket, digest, run.clock.now())


async def _look_into_thumbnail(run: _Check, finding: Finding) -> None:
    if isinstance(finding, NoRow) and finding.found.modified_at < run.cutoff:
        if run.repair:
            await run.objects.delete(run.bucket, finding.found.key)
        _note(run, "stray_thumbnail", finding.found.key, is_repaired=run.repair)


def is_sampled(key: str, share: float) -> bool:
    """The same pictures each time for the same share, and more of the same for a larger one."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") < share * 2**64


def _count(report: IntegrityReport, found: StoredObject) -> None:
    report.pictures += 1
    report.bytes += found.size_bytes


def _note(run: _Check, kind: str, key: str, *, is_repaired: bool) -> None:
    run.report.note(kind, key, is_repaired=is_repaired)
    log.warning("picture_inconsistency_found", kind=kind, object_key=key, repaired=is_repaired)
