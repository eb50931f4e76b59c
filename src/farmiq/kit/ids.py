"""Ids that we make."""

import secrets
from uuid import UUID

import uuid_utils.compat

LOW_64 = (1 << 64) - 1


def new_id() -> UUID:
    """A UUID v7: ordered by time, so that indexes grow at their right edge."""
    return uuid_utils.compat.uuid7()


def new_trace_id() -> str:
    """32 hex digits, the form of a W3C trace id."""
    return secrets.token_hex(16)


def sample_id(stream_id: UUID, seq: int) -> UUID:
    """The row id of one sample, the same at every tier and on every retry.

    The stream's upper half stays and the sequence is added to the lower half: neighbours in the stream are neighbours in
    the index, and making half a million of them costs an addition each.
    """
    number = stream_id.int
    return UUID(int=(number & ~LOW_64) | ((number + seq) & LOW_64))
