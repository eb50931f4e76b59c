"""`farmiq media check`, behind the words: the database and the object store of one tier, compared."""

from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from typing import Final

from msgspec import Struct

from farmiq.cli.migrate import Tier, database_url
from farmiq.cli.object_store import with_object_store
from farmiq.cli.tier_database import open_session, refuse_other_tier
from farmiq.cloud.media_store import integrity as cloud
from farmiq.edge.media_store import integrity as edge
from farmiq.kit.clock import Clock
from farmiq.kit.postgres import Connection
from farmiq.kit.s3 import ObjectStore
from farmiq.kit.s3_settings import ObjectStoreSettings, open_store
from farmiq.kit.settings import load

EXAMPLES_MAX: Final = 20

MEANINGS: Final[Mapping[str, str]] = {
    "no_object": "the database has it, the object store does not",
    "no_row": "the object store has it, the database does not",
    "other_size": "its size is not the one that was stored",
    "other_checksum": "its bytes are not those that were stored",
    "returned": "given up as missing, and there after all",
    "not_compared": "uploaded long ago, and never compared",
    "stray_thumbnail": "a thumbnail without its picture",
    "foreign": "none of ours, left alone",
}


class Checked(Struct, frozen=True):
    """`found` and `repaired` count by kind; `examples` names the first keys of each kind."""

    tier: str
    pictures: int
    found: dict[str, int]
    repaired: dict[str, int]
    examples: dict[str, list[str]]

    @property
    def left(self) -> int:
        return sum(self.found.values()) - sum(self.repaired.values())


async def check_pictures(tier: Tier, environ: Mapping[str, str], *, is_deep: bool, is_repairing: bool) -> Checked:
    url = database_url(tier, environ, "media check")
    settings = load(ObjectStoreSettings, with_object_store(environ, tier.value))
    other = Tier.CLOUD if tier is Tier.EDGE else Tier.EDGE
    check = _check_edge if tier is Tier.EDGE else _check_cloud
    async with open_session(url, "farmiq-media", needs_table="media_objects") as connection:
        await refuse_other_tier(
            connection, tier.value, what="you asked for the pictures of", fix=f"farmiq media check --tier {other}"
        )
        with closing(open_store(settings)) as objects:
            return await check(connection, objects, settings.media_bucket, is_deep, is_repairing)


async def _check_edge(
    connection: Connection, objects: ObjectStore, bucket: str, is_deep: bool, is_repairing: bool
) -> Checked:
    counts: Counter[str] = Counter()
    found: Counter[str] = Counter()
    repaired: Counter[str] = Counter()
    examples: dict[str, list[str]] = {}
    async for problem in edge.Check(connection, objects, bucket, is_deep, is_repairing).problems(counts):
        found[problem.kind] += 1
        repaired[problem.kind] += problem.is_repaired
        keys = examples.setdefault(problem.kind, [])
        if len(keys) < EXAMPLES_MAX:
            keys.append(problem.object_key)
    return Checked("edge", counts["objects"], dict(found), dict(repaired), examples)


async def _check_cloud(
    connection: Connection, objects: ObjectStore, bucket: str, is_deep: bool, is_repairing: bool
) -> Checked:
    report = await cloud.check(
        connection, objects, bucket, clock=Clock(), repair=is_repairing, sample=1.0 if is_deep else 0.0
    )
    kinds = [kind for kind, count in report.found.items() if count]
    return Checked(
        "cloud",
        report.pictures,
        {kind: report.found[kind] for kind in kinds},
        {kind: report.repaired[kind] for kind in kinds},
        {kind: report.examples[kind] for kind in kinds},
    )
