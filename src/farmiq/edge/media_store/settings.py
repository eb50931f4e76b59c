from typing import Annotated

from msgspec import Meta

from farmiq.edge.disk import DiskSettings
from farmiq.edge.media_store.screening import DayLimit
from farmiq.kit.pictures import PIXELS_MAX
from farmiq.kit.s3 import PUT_SECONDS_MAX
from farmiq.kit.s3_settings import Url
from farmiq.kit.settings import AdminToken, DatabaseUrl, Port, Positive, Settings


class MediaStoreSettings(DiskSettings, frozen=True, kw_only=True):
    port: Port = 5106
    database_url: DatabaseUrl
    admin_token: AdminToken
    s3_public_endpoint: Url | None = None
    """The object store as devices and browsers reach it, when that is another address than S3_ENDPOINT. Signed into URLs."""
    media_public_url: Url | None = None
    """This service as devices reach it. Needed only behind a proxy that changes scheme or host."""
    media_bytes_max: Annotated[int, Meta(ge=1024, le=100 * 1024 * 1024)] = 10 * 1024 * 1024
    """Of one picture. Larger ones are refused."""
    media_pixels_max: Annotated[int, Meta(ge=1, le=PIXELS_MAX)] = PIXELS_MAX
    """Of one picture. Larger ones are refused."""
    media_presigns_per_minute: Annotated[int, Meta(ge=1, le=100_000)] = 300
    """Of one device, over all replicas. A station that was offline for a day sends its pictures at this pace."""
    media_device_bytes_per_day: Positive = 20_000_000_000
    """Picture bytes that one device may ask URLs for, from midnight UTC. What is refused later has counted too."""
    media_tenant_bytes_per_day: Positive = 200_000_000_000
    """Picture bytes that all devices of one tenant together may ask URLs for, from midnight UTC."""
    media_url_seconds: Annotated[int, Meta(ge=1, le=PUT_SECONDS_MAX)] = PUT_SECONDS_MAX
    """How long an upload URL is good for."""
    media_upload_grace_seconds: Positive = 3600
    """After its URL has expired, until an upload that never came is given up: one that began in time may end late."""
    media_sweep_seconds: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    """How often an upload that nobody announced is looked for."""
    media_uploads_at_once: Annotated[int, Meta(ge=1, le=64)] = 8
    """Of those that come through this service. Each holds up to MEDIA_BYTES_MAX of memory."""
    media_checks_at_once: Annotated[int, Meta(ge=1, le=64)] = 4
    """Pictures that are read back at the same time. Each holds up to MEDIA_BYTES_MAX of memory."""

    @property
    def day_limit(self) -> DayLimit:
        return DayLimit(self.media_device_bytes_per_day, self.media_tenant_bytes_per_day)


class MediaRetentionSettings(Settings, frozen=True, kw_only=True):
    """Read by the jobs, in the service and in `farmiq jobs run`."""

    media_retention_days: Positive = 90
    """From the day on which the picture was taken."""
    media_delete_unfinalized: bool = False
    """True deletes pictures past their retention although their weigh session was never finalized."""
    retention_require_sync: bool = True
    """False deletes pictures past their retention although the cloud does not have them: logged, counted, alerted."""
    media_refused_keep_hours: Annotated[int, Meta(ge=0, le=24 * 365)] = 72
    """How long the bytes of a refused picture can still be looked at. Its row stays until MEDIA_RETENTION_DAYS."""
    media_refused_bytes_per_device_max: Annotated[int, Meta(ge=0)] = 500_000_000
    """Of one device. The newest refused pictures keep their bytes up to this sum, the others only their rows."""
