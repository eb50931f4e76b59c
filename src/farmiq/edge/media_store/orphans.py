"""An object that no row speaks of: whose picture it is can be read from its key, because every key was made by us."""

from datetime import UTC, datetime

from farmiq.contracts.media import read_object_key
from farmiq.edge.media_store.picture import NewPicture
from farmiq.kit.s3 import StoredObject
from farmiq.timeseries.stream import Origin


def picture_behind(found: StoredObject, bucket: str, trace_id: str) -> NewPicture | None:
    """The picture as it was when its URL was signed, as far as the key tells. None: no key of ours."""
    name = read_object_key(found.key)
    if name is None:
        return None
    return NewPicture(
        media_id=name.media_id,
        origin=Origin(name.tenant_id, name.farm_id, name.barn_id, name.device_id),
        station_id=None,
        session_id=None,
        bucket=bucket,
        object_key=found.key,
        mime_type=name.mime_type,
        size_bytes=None,
        sha256=None,
        captured_at=_captured_at(name.captured_on, found.modified_at),
        expires_at=found.modified_at,
        trace_id=trace_id,
    )


def _captured_at(captured_on: datetime, modified_at: datetime) -> datetime:
    """The key has the day. When the object is of that day too, it was taken not long before."""
    uploaded_at = modified_at.astimezone(UTC)
    return uploaded_at if uploaded_at.date() == captured_on.date() else captured_on
