"""What a picture is called: the same each time that the same device sends the same picture, as far as it says which one it is.

A station sends a picture again when a restored edge has forgotten it. The cloud may have it from before, and knows it by this id.
"""

import hashlib
from collections.abc import Iterator
from uuid import UUID

from farmiq.contracts.media import PresignRequest
from farmiq.contracts.timestamps import to_us
from farmiq.kit.ids import new_id, uuid7_of
from farmiq.timeseries.stream import Origin


def names_for(origin: Origin, asked: PresignRequest) -> Iterator[UUID]:
    """To be tried in this order: a name that is taken is that of an upload which came to nothing, or which is under way."""
    if asked.sha256 is not None and asked.content_length is not None:
        yield name_of(origin, asked)
    yield new_id()


def name_of(origin: Origin, asked: PresignRequest) -> UUID:
    """A UUID v7 like any other: the time is that of the capture, and what would be random is a digest of what was said."""
    who = (origin.tenant_id, origin.farm_id, origin.barn_id, origin.device_id, asked.session_id)
    said = (*who, to_us(asked.captured_at), asked.content_type, asked.content_length, asked.sha256)
    digest = hashlib.sha256("\n".join(map(str, said)).lower().encode()).digest()
    return uuid7_of(asked.captured_at, digest)
