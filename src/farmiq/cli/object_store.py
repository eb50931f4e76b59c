"""Which object store a command is about, found as the database is: named in the environment, else the running farm's."""

from collections.abc import Mapping

from farmiq.cli.errors import NotRunning
from farmiq.contracts.services import Tier

NAMES = ("S3_ENDPOINT", "S3_ACCESS_KEY", "S3_SECRET_KEY", "MEDIA_BUCKET")
DATABASE = ("DATABASE_URL", "DATABASE_URL_FILE")


def with_object_store(environ: Mapping[str, str], tier: Tier) -> Mapping[str, str]:
    """The environment, with the running farm's object store where the database is the running farm's.

    The two go together: rows of one farm, or tier, must never be compared with pictures of another. So S3_ENDPOINT counts only
    beside a DATABASE_URL; a shell after `eval "$(farmiq env)"` has the edge's, whichever tier it asks for.
    """
    if any(environ.get(name) for name in DATABASE):
        return environ

    from farmiq.cli.running import running_environment

    try:
        farm = running_environment(environ)
    except NotRunning:
        return environ
    prefix = "CLOUD_" if tier == "cloud" else ""
    return {**environ, **{name: farm[prefix + name] for name in NAMES}}
