"""A farm's servers without its services, and where its tiers are."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from farmiq.backup.manifest import Tier
from farmiq.backup.tiers import Place
from farmiq.kit.s3_settings import ObjectStoreSettings
from farmiq.stack import control
from farmiq.stack.home import Home


@contextmanager
def servers_only(home: Home, environ: Mapping[str, str]) -> Iterator[None]:
    """For as long as the block lasts. Nothing else of this home may run."""
    control.start(home, environ, ())
    try:
        control.wait_until_healthy(home, lambda _: None)
        yield
    finally:
        control.stop(home)


def place_of(home: Home, tier: Tier) -> Place:
    known = control.environment(home)
    prefix = "CLOUD_" if tier == "cloud" else ""
    store = ObjectStoreSettings(
        s3_endpoint=known[f"{prefix}S3_ENDPOINT"],
        s3_access_key=known[f"{prefix}S3_ACCESS_KEY"],
        s3_secret_key=known[f"{prefix}S3_SECRET_KEY"],
        media_bucket=known[f"{prefix}MEDIA_BUCKET"],
    )
    return Place(tier, known[f"{tier.upper()}_DATABASE_URL"], store)
