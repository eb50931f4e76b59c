"""Ids that we make."""

import secrets
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from hashlib import blake2b, sha256
from typing import Final
from uuid import UUID

import msgspec
import uuid_utils.compat

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_MILLISECONDS_MAX: Final = (1 << 48) - 1
_DATETIME_MILLISECONDS_MAX: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND
LOW_64: Final = (1 << 64) - 1
RUN_BITS: Final = 16
RUN_MASK: Final = (1 << RUN_BITS) - 1
_FIXED: Final = 0xF << 76 | 0xF << 60
_VERSION_8: Final = 0x8 << 76 | 0x8 << 60


def new_id() -> UUID:
    """A UUID v7: ordered by time, so that indexes grow at their right edge."""
    return uuid_utils.compat.uuid7()


def uuid7_of(at: datetime, digest: bytes) -> UUID:
    """A UUID v7 with a given time, and 74 bits of a digest where chance would be. A time outside of what 48 bits of milliseconds
    can say becomes the nearest that they can."""
    milliseconds = min(max((at - _EPOCH) // _MILLISECOND, 0), _MILLISECONDS_MAX)
    number = milliseconds << 80 | int.from_bytes(digest[:10], "big")
    return UUID(int=number & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62)


def time_of(uuid7: UUID) -> datetime:
    """What the first 48 bits say; of an id that is no v7, some time."""
    return _EPOCH + min(uuid7.int >> 80, _DATETIME_MILLISECONDS_MAX) * _MILLISECOND


def keyed_uuid7(key: bytes, at: datetime, *parts: object) -> UUID:
    """The same for the same key and parts, and for nobody to foresee who has not the key. `at` comes from what is named, so that
    the ids of an outage lie together, and in its order."""
    return uuid7_of(at, blake2b(msgspec.json.encode((at.astimezone(UTC), parts)), key=key, digest_size=10).digest())


class Naming(msgspec.Struct, frozen=True):
    """How one edge, or one cloud, names what it makes. `key` is its secret. What is about a time before `keyed_since` may have
    been named by an earlier release, and keeps that name; None: no earlier release has named anything here."""

    key: bytes
    keyed_since: datetime | None

    def name(self, at: datetime, first_name: Callable[[], UUID], *parts: object) -> UUID:
        if self.keyed_since is not None and at < self.keyed_since:
            return first_name()
        return keyed_uuid7(self.key, at, *parts)


def new_trace_id() -> str:
    """32 hex digits, the form of a W3C trace id."""
    return secrets.token_hex(16)


def sample_ids_of(tenant_id: str, stream_id: UUID, run: int) -> int:
    """The id of sequence `run << RUN_BITS` of a stream, as a number: the next ones are one more each, to the end of the run."""
    named = sha256(f"{tenant_id}/{stream_id}/{run}".encode()).digest()
    number = int.from_bytes(named[:14], "big") << RUN_BITS
    return number & ~_FIXED | _VERSION_8


def sample_id(tenant_id: str, stream_id: UUID, seq: int) -> UUID:
    """The row id of one sample, the same at every tier and on every retry.

    A hash of tenant, stream and the run of 65,536 sequences, with the place in the run as its last 16 bits: only the device that
    owns the stream gets these ids, neighbours in the stream are neighbours in the index, and a batch costs one hash. They are
    UUIDs of version 8, which no single reading is stored under (`reading_id`). `docs/decisions/0015` has the same in SQL.
    """
    return UUID(int=sample_ids_of(tenant_id, stream_id, seq >> RUN_BITS) | seq & RUN_MASK)


def first_sample_id(stream_id: UUID, seq: int) -> UUID:
    """The row id that 0.1.0 gave to a sample. Rows that were stored then keep it."""
    number = stream_id.int
    return UUID(int=(number & ~LOW_64) | ((number + seq) & LOW_64))


def reading_id(event_id: UUID) -> UUID:
    """The row id of a single reading: its event id. A device chooses that freely, so one that looks like the id of a sample
    (version 8) is stored as version 9, which nobody makes."""
    return UUID(int=event_id.int ^ 1 << 76) if event_id.int >> 76 & 0xF == 8 else event_id


def reading_event_id(row_id: UUID) -> UUID:
    """The event id of a single reading, by the id of its row."""
    return UUID(int=row_id.int ^ 1 << 76) if row_id.int >> 76 & 0xF == 9 else row_id
