from typing import Annotated

from msgspec import Meta

from farmiq.kit.pictures import PIXELS_MAX
from farmiq.kit.s3 import GET_SECONDS_MAX, PUT_SECONDS_MAX
from farmiq.kit.s3_settings import Url
from farmiq.kit.settings import AdminToken, AmqpUrl, DatabaseUrl, HttpSettings, Port, Positive, Settings


class MediaStoreSettings(HttpSettings, frozen=True, kw_only=True):
    port: Port = 5204
    database_url: DatabaseUrl
    amqp_url: AmqpUrl
    admin_token: AdminToken
    s3_public_endpoint: Url | None = None
    """The object store as edges and browsers reach it, when that is another address than S3_ENDPOINT. Signed into URLs."""
    media_bytes_max: Annotated[int, Meta(ge=1024, le=100 * 1024 * 1024)] = 10 * 1024 * 1024
    """Of one picture. Larger ones are refused."""
    media_pixels_max: Annotated[int, Meta(ge=1, le=PIXELS_MAX)] = PIXELS_MAX
    """Of a picture of which a thumbnail is made."""
    media_thumbnail_edge_pixels: Annotated[int, Meta(ge=16, le=1024)] = 320
    """The longer edge of a thumbnail."""
    media_url_seconds: Annotated[int, Meta(ge=1, le=PUT_SECONDS_MAX)] = PUT_SECONDS_MAX
    """How long an upload URL is good for."""
    media_view_seconds: Annotated[int, Meta(ge=1, le=GET_SECONDS_MAX)] = GET_SECONDS_MAX
    """How long a URL to look at a picture is good for."""
    media_edge_presigns_per_second: Positive = 50
    """Of one edge, in one replica, with twice as many at once after a pause. More are told to come back."""
    media_checks_at_once: Annotated[int, Meta(ge=1, le=64)] = 4
    """Pictures that are read back and compared at the same time. Each holds a database connection meanwhile."""
    media_ask_again_seconds: Positive = 3600
    """How long a picture may be announced and not here before the edges are asked for it."""
    consume_batch_messages: Positive = 200
    """At most so many messages in one transaction."""
    consume_batch_wait_ms: Annotated[int, Meta(ge=0, le=1000)] = 20
    """How long a transaction waits for more messages."""


class MediaRetentionSettings(Settings, frozen=True, kw_only=True):
    """Read by the job, in the service and in `farmiq jobs run`."""

    media_retention_days: Positive = 365
    """From the day on which the picture came here: a camera with a wrong clock, or an edge that was away, loses nothing."""
