"""Ids that we make."""

import secrets
from hashlib import sha256
from typing import Final
from uuid import UUID

import uuid_utils.compat

LOW_64: Final = (1 << 64) - 1
RUN_BITS: Final = 16
RUN_MASK: Final = (1 << RUN_BITS) - 1
_FIXED: Final = 0xF << 76 | 0xF << 60
_VERSION_8: Final = 0x8 << 76 | 0x8 << 60


def new_id() -> UUID:
    """A UUID v7: ordered by time, so that indexes grow at their right edge."""
    return uuid_utils.compat.uuid7()


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
