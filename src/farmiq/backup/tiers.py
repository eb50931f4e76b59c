"""A tier as a backup sees it: its database, its pictures, and the words of their owners."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from farmiq.backup.manifest import Tier
from farmiq.cloud.ingestion.epochs import current_epoch as cloud_epoch
from farmiq.cloud.media_store import store as cloud_pictures
from farmiq.edge.ingress_gateway.identity import current_epoch as edge_epoch
from farmiq.edge.media_store import store as edge_pictures
from farmiq.kit.object_inventory import Expected
from farmiq.kit.postgres import Connection
from farmiq.kit.s3_settings import ObjectStoreSettings

PAGE_ROWS: Final = 1000

Say = Callable[[str], None]
"""Told what is under way, for whoever waits."""


@dataclass(frozen=True)
class Place:
    """Where one tier keeps what it has. `database_url` and the store's settings carry secrets."""

    tier: Tier
    database_url: str = field(repr=False)
    store: ObjectStoreSettings


async def epoch_of(connection: Connection, tier: Tier) -> UUID | None:
    return await (edge_epoch if tier == "edge" else cloud_epoch)(connection)


def expected_pictures(connection: Connection, place: Place) -> AsyncIterator[Expected]:
    """What the database says is in the store, in byte order of the keys."""
    rows = edge_pictures.expected if place.tier == "edge" else _expected_in_cloud
    return rows(connection, place.store.media_bucket)


async def _expected_in_cloud(connection: Connection, bucket: str) -> AsyncIterator[Expected]:
    after = ""
    while page := await cloud_pictures.inventory(connection, bucket, after, PAGE_ROWS):
        for row in page:
            yield row
        after = page[-1].key
