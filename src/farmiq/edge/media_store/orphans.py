"""An object that no row speaks of: whose picture it is can be read from its key, because every key was made by us."""

import re
from datetime import UTC, datetime
from typing import Final, get_args
from uuid import UUID

from farmiq.contracts.media import EXTENSION_OF, Extension, object_key
from farmiq.edge.media_store.picture import NewPicture
from farmiq.kit.s3 import StoredObject
from farmiq.timeseries.stream import Origin

_KEY: Final = re.compile(
    r"tenants/(?P<tenant_id>[^/]+)/farms/(?P<farm_id>[^/]+)/barns/(?P<barn_id>[^/]+)/devices/(?P<device_id>[^/]+)"
    rf"/images/(?P<day>\d{{4}}/\d\d/\d\d)/(?P<media_id>[0-9a-f-]{{36}})\.(?P<extension>{'|'.join(get_args(Extension))})"
)
_MIME_OF: Final = {extension: mime for mime, extension in EXTENSION_OF.items()}


def picture_behind(found: StoredObject, bucket: str, trace_id: str) -> NewPicture | None:
    """The picture as it was when its URL was signed, as far as the key tells. None: no key of ours."""
    parts = _KEY.fullmatch(found.key)
    if parts is None:
        return None
    try:
        media_id = UUID(parts["media_id"])
        captured_at = _captured_at(parts["day"], found.modified_at)
        origin = Origin(*(parts[name] for name in Origin.__struct_fields__))
        key = object_key(
            tenant_id=origin.tenant_id,
            farm_id=origin.farm_id,
            barn_id=origin.barn_id,
            device_id=origin.device_id,
            media_id=media_id,
            captured_at=captured_at,
            extension=_extension(parts["extension"]),
        )
    except ValueError:
        return None
    if key != found.key:
        return None
    return NewPicture(
        media_id=media_id,
        origin=origin,
        station_id=None,
        session_id=None,
        bucket=bucket,
        object_key=key,
        mime_type=_MIME_OF[_extension(parts["extension"])],
        size_bytes=None,
        sha256=None,
        captured_at=captured_at,
        expires_at=found.modified_at,
        trace_id=trace_id,
    )


def _captured_at(day: str, modified_at: datetime) -> datetime:
    """The key has the day. When the object is of that day too, it was taken not long before."""
    start = datetime.strptime(day, "%Y/%m/%d").replace(tzinfo=UTC)
    uploaded_at = modified_at.astimezone(UTC)
    return uploaded_at if uploaded_at.date() == start.date() else start


def _extension(text: str) -> Extension:
    for extension in _MIME_OF:
        if extension == text:
            return extension
    raise ValueError(f"{text!r} is no extension of ours")
