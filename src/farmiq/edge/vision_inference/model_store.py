"""Every SQL statement about models."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import asyncpg
import msgspec
from msgspec import Struct

from farmiq.edge.vision_inference.card import Model
from farmiq.kit.postgres import Connection

# Held until the commit: two who activate at once do so one after the other.
_ONE_AT_A_TIME: Final = "SELECT pg_advisory_xact_lock(hashtextextended('farmiq inference_models', 0))"
_COLUMNS: Final = "model_version, generation, source, sha256, size_bytes, card, registered_at, activated_at"
_ALL: Final = f"SELECT {_COLUMNS} FROM inference_models ORDER BY generation DESC LIMIT $1"  # noqa: S608 - our own constants
_ONE: Final = f"SELECT {_COLUMNS} FROM inference_models WHERE model_version = $1"  # noqa: S608 - our own constants
_PUT_TO_WORK: Final = f"""
INSERT INTO inference_models (model_version, generation, source, sha256, size_bytes, card)
VALUES ($1, (SELECT coalesce(max(generation), 0) + 1 FROM inference_models), $2, $3, $4, $5)
ON CONFLICT (model_version) DO UPDATE SET
  generation = excluded.generation, source = excluded.source, activated_at = now()
RETURNING {_COLUMNS}
"""  # noqa: S608 - our own constants


class Registered(Struct, frozen=True, kw_only=True):
    model_version: str
    generation: int
    source: str
    sha256: str
    size_bytes: int
    card: msgspec.Raw
    registered_at: datetime
    activated_at: datetime


async def lock(connection: Connection) -> None:
    await connection.execute(_ONE_AT_A_TIME)


async def newest(connection: Connection) -> Registered | None:
    """The model that is to be at work."""
    found = await newest_first(connection, 1)
    return found[0] if found else None


async def newest_first(connection: Connection, limit: int) -> Sequence[Registered]:
    return [_registered(row) for row in await connection.fetch(_ALL, limit)]


async def of_version(connection: Connection, model_version: str) -> Registered | None:
    row = await connection.fetchrow(_ONE, model_version)
    return None if row is None else _registered(row)


async def put_to_work(connection: Connection, model: Model) -> Registered:
    """With the next generation. The caller holds the lock and has made sure that the version's file is this one."""
    row = await connection.fetchrow(
        _PUT_TO_WORK, model.version, model.source, model.sha256, len(model.content), model.stated
    )
    assert row is not None  # noqa: S101 - it was inserted or updated
    return _registered(row)


def _registered(row: asyncpg.Record) -> Registered:
    return Registered(**dict(row.items()))
