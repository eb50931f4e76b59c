"""Which cloud an edge delivers to: its database, and the address of its entrance."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from farmiq.cli.errors import BadSetting, NotRunning


@dataclass(frozen=True)
class Cloud:
    database_url: str = field(repr=False)
    is_of_a_home: bool
    ingestion_url: str | None = None


def find_cloud(environ: Mapping[str, str] = os.environ) -> Cloud:
    """What was asked for by name wins over what happens to run here."""
    from farmiq.kit.settings import Secret, Settings, load

    class Given(Settings, frozen=True, kw_only=True):
        cloud_database_url: Secret = ""
        cloud_ingestion_url: str = ""

    given = load(Given, environ)
    if given.cloud_database_url:
        return Cloud(given.cloud_database_url, is_of_a_home=False, ingestion_url=given.cloud_ingestion_url or None)

    from farmiq.cli.running import running_environment

    try:
        known = running_environment(environ)
    except NotRunning as error:
        raise BadSetting(
            "which cloud database?",
            why="CLOUD_DATABASE_URL is not set, and no farm runs on this machine.",
            fix="set CLOUD_DATABASE_URL=postgresql://user:password@host:5432/database, or start a farm: farmiq up",
        ) from error
    url = given.cloud_ingestion_url or known.get("CLOUD_INGESTION_URL")
    return Cloud(known["CLOUD_DATABASE_URL"], is_of_a_home=True, ingestion_url=url)
