"""Where the object store is, and who we are there. The same variables at both tiers."""

from typing import Annotated

from msgspec import Meta

from farmiq.kit.s3 import ObjectStore
from farmiq.kit.settings import Secret, Settings

Url = Annotated[str, Meta(pattern=r"^https?://[^\s]+\Z", description="an http:// or https:// address")]
Bucket = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\Z", description="the name of an S3 bucket")]


class ObjectStoreSettings(Settings, frozen=True, kw_only=True):
    """Read by the services, by their jobs and by `farmiq media check`."""

    s3_endpoint: Url
    """Where the object store is."""
    s3_access_key: Secret
    """Who we are there."""
    s3_secret_key: Secret
    """The other half of the key."""
    media_bucket: Bucket
    """Where the pictures lie. It has to exist."""
    s3_region: str = "us-east-1"
    """Signed into every request; stores of your own mostly take any."""


def open_store(settings: ObjectStoreSettings, endpoint: str | None = None) -> ObjectStore:
    """`endpoint` is for a second one that only signs: the store's address as callers outside know it."""
    return ObjectStore(
        endpoint or settings.s3_endpoint,
        access_key=settings.s3_access_key,
        secret_key=settings.s3_secret_key,
        region=settings.s3_region,
    )
