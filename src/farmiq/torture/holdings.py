"""What a tier has of a campaign's devices: every row of its database, every picture of its object store."""

from collections.abc import Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal
from uuid import UUID

import asyncpg

from farmiq.contracts import event_types
from farmiq.contracts.timestamps import to_us
from farmiq.kit.errors import FarmiqError
from farmiq.kit.s3 import ObjectStore
from farmiq.timeseries.stream import Origin
from farmiq.torture import queries
from farmiq.torture.judge import (
    ACCEPTED,
    Declared,
    Found,
    Ledger,
    NodeJudge,
    Sample,
    Tally,
    judge_events,
)
from farmiq.torture.judge_weighings import (
    FoundPicture,
    FoundResult,
    FoundSession,
    expected_sessions,
    judge_pictures,
    judge_results,
    judge_sessions,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime

    from farmiq.kit.postgres import Connection

ROWS_AT_ONCE = 20_000
PICTURE_BYTES_MAX = 16 << 20
Tier = Literal["edge", "cloud"]
# The cloud knows the end of a session under an id that the edge gives it.
RETOLD: Final[Mapping[Tier, frozenset[str]]] = {
    "edge": frozenset(),
    "cloud": frozenset({event_types.SESSION_FINALIZED}),
}


@dataclass(frozen=True)
class Devices:
    """Of the campaign, each with where it stands."""

    nodes: Sequence[Origin]
    sensor: Origin
    station: Origin

    @property
    def speaking(self) -> dict[str, Origin]:
        return {origin.device_id: origin for origin in (self.sensor, self.station)}


@dataclass(frozen=True)
class Verdicts:
    """What the judge says of one tier."""

    samples: Tally = field(default_factory=Tally)
    events: Tally = field(default_factory=Tally)
    sessions: Tally = field(default_factory=Tally)
    pictures: Tally = field(default_factory=Tally)
    inference: Tally = field(default_factory=Tally)
    losses: Tally = field(default_factory=Tally)
    coverage: Tally = field(default_factory=Tally)
    aggregates: Tally = field(default_factory=Tally)


async def judge_tier(tier: Tier, environment: Mapping[str, str], ledger: Ledger, devices: Devices) -> Verdicts:
    """`environment` is that of `farmiq env`."""
    prefix = "CLOUD_" if tier == "cloud" else ""
    store = ObjectStore(
        environment[f"{prefix}S3_ENDPOINT"],
        access_key=environment[f"{prefix}S3_ACCESS_KEY"],
        secret_key=environment[f"{prefix}S3_SECRET_KEY"],
    )
    try:
        async with (
            _connected(environment["EDGE_DATABASE_URL"]) as edge,
            _connected(environment[f"{tier.upper()}_DATABASE_URL"]) as connection,
        ):
            return await judge_databases(tier, edge, connection, store, ledger, devices)
    finally:
        store.close()


async def judge_databases(
    tier: Tier, edge: "Connection", connection: "Connection", store: ObjectStore, ledger: Ledger, devices: Devices
) -> Verdicts:
    """`connection` is to the tier's own database. What the edge makes is measured by what the edge has."""
    results = [_result(row) for row in await edge.fetch(queries.RESULTS, devices.station.device_id)]
    return Verdicts(
        await judge_samples(tier, connection, ledger, devices.nodes),
        await judge_said(tier, connection, ledger, devices),
        await judge_weighed(connection, ledger, devices.station, results),
        await judge_seen(tier, connection, ledger, devices.station, store),
        await judge_inference(edge, connection, ledger, devices.station),
        await judge_losses(edge, connection, devices.nodes),
        await judge_coverage(connection),
        await judge_aggregates(connection),
    )


async def judge_samples(tier: Tier, connection: "Connection", ledger: Ledger, nodes: Sequence[Origin]) -> Tally:
    total = Tally()
    for origin in nodes:
        device = origin.device_id
        losses = [
            await _declared(connection, row, is_set_back=device in ledger.gone)
            for row in await connection.fetch(queries.LOSSES, [device])
        ]
        judge = NodeJudge(
            origin, ledger.offers.get(device, []), ledger.stored.get(device, 0), losses, ledger.filled.get(device, []),
            ledger.gone.get(device, []), is_first_tier=tier == "edge",
        )  # fmt: skip
        async with connection.transaction():
            async for row in connection.cursor(queries.SAMPLES, device, device in ledger.gone, prefetch=ROWS_AT_ONCE):
                judge.take(_sample(row))
        total.add(judge.finish())
    # Of the nodes that the campaign does not feed, nothing else is known.
    for row in await connection.fetch(queries.TWICE, [origin.device_id for origin in nodes]):
        total.blame("duplicated", f"stream {row['stream_id']} {row['seq']}", row["times"] - 1)
    return total


async def _declared(connection: "Connection", row: "asyncpg.Record", *, is_set_back: bool) -> Declared:
    shift = 0
    if is_set_back:
        shift = await connection.fetchval(queries.SHIFT, row["device_id"], row["stream_id"], row["first_seq"]) or 0
    return Declared(row["first_seq"] + shift, row["last_seq"] + shift, row["reason"], to_us(row["dropped_at"]))


async def judge_said(tier: Tier, connection: "Connection", ledger: Ledger, devices: Devices) -> Tally:
    """That a device was registered is the edge's word, not the device's."""
    found = [
        _found(row)
        for query in queries.EVENTS[tier]
        for row in await connection.fetch(query, list(devices.speaking))
        if row["event_type"] not in RETOLD[tier]
    ]
    return judge_events(ledger.said, ledger.heard, devices.speaking, found, RETOLD[tier])


async def judge_weighed(
    connection: "Connection", ledger: Ledger, station: Origin, results: Sequence[FoundResult]
) -> Tally:
    """`results` are those of the edge."""
    by_picture: dict[UUID, set[UUID]] = {}
    for one in results:
        if one.media is not None:
            by_picture.setdefault(one.media, set()).add(one.result)
    rows = await connection.fetch(queries.SESSIONS, station.device_id, list(ledger.weighed))
    expected = expected_sessions(ledger, {station.device_id: station}, by_picture)
    return judge_sessions(expected, [_session(row) for row in rows])


async def judge_seen(
    tier: Tier, connection: "Connection", ledger: Ledger, station: Origin, store: ObjectStore
) -> Tally:
    """Pictures whose event was acknowledged, read back byte by byte."""
    rows = await connection.fetch(queries.PICTURES[tier], station.device_id, list(ledger.pictures))
    found = [
        FoundPicture(
            row["id"], _origin(row), row["session_id"], row["state"], await _sha256(store, row), row["size_bytes"],
            to_us(row["captured_at"]), row["mime_type"],
        )
        for row in rows
    ]  # fmt: skip
    return judge_pictures(ledger.pictures, announced(ledger), station, found)


async def judge_inference(edge: "Connection", connection: "Connection", ledger: Ledger, station: Origin) -> Tally:
    made = [_result(row) for row in await edge.fetch(queries.RESULTS, station.device_id)]
    found = [_result(row) for row in await connection.fetch(queries.RESULTS, station.device_id)]
    accepted = {media: one for media, one in ledger.pictures.items() if media in announced(ledger)}
    models = await edge.fetchval(queries.MODELS)
    return judge_results(accepted, set(ledger.pictures), made, found, models)


async def judge_losses(edge: "Connection", connection: "Connection", nodes: Sequence[Origin]) -> Tally:
    """The loss ledger of the edge, and its copy at the other tier."""
    names = [origin.device_id for origin in nodes]
    expected = {row["event_id"]: tuple(row) for row in await edge.fetch(queries.LOSSES, names)}
    found = {row["event_id"]: tuple(row) for row in await connection.fetch(queries.LOSSES, names)}
    tally = Tally(accepted=len(expected))
    for id_ in found.keys() - expected.keys():
        tally.blame("never_sent", f"loss record {id_}: {found[id_]}")
    for id_, row in expected.items():
        if id_ not in found:
            tally.blame("lost", f"loss record {id_}: {row}")
        elif found[id_] != row:
            tally.blame("altered", f"loss record {found[id_]} instead of {row}")
        else:
            tally.stored += 1
    return tally


async def judge_coverage(connection: "Connection") -> Tally:
    """What each stream claims to have against its rows, of every device of this tier."""
    tally = Tally()
    for row in await connection.fetch(queries.COVERAGE):
        tally.accepted += 1
        stream = f"stream {row['stream_id']} of {row['device_id']}"
        for what, column, text in (
            ("lost", "without_rows", "is called received and has no rows"),
            ("never_sent", "without_coverage", "has rows and is not called received"),
            ("contradicted", "stored_and_lost", "is called lost and is here"),
        ):
            if row[column] is not None:
                tally.blame(what, f"{stream}: {row[column]} {text}")
        tally.stored += all(row[name] is None for name in ("without_rows", "without_coverage", "stored_and_lost"))
    return tally


async def judge_aggregates(connection: "Connection") -> Tally:
    """Every bucket of every device, made anew from the rows of this tier."""
    tally = Tally()
    for row in await connection.fetch(queries.AGGREGATES):
        tally.accepted += row["counted"] is not None
        if row["is_equal"]:
            tally.stored += 1
            continue
        what = "lost" if row["shown"] is None else "never_sent" if row["counted"] is None else "altered"
        tally.blame(what, f"aggregate {row['bucket']}: {row['shown']} instead of {row['counted']}")
    return tally


def announced(ledger: Ledger) -> set[UUID]:
    return {
        event.media
        for event_id, event in ledger.said.items()
        if event.media is not None and ledger.heard.get(event_id) in ACCEPTED
    }


@asynccontextmanager
async def _connected(url: str) -> "AsyncIterator[Connection]":
    connection = await asyncpg.connect(url, timeout=30)
    try:
        yield connection
    finally:
        await connection.close(timeout=5)


async def _sha256(store: ObjectStore, row: "asyncpg.Record") -> str | None:
    if row["object_key"] is None:
        return None
    try:
        return (await store.digest(row["bucket"], row["object_key"], bytes_max=PICTURE_BYTES_MAX)).sha256.hex()
    except FarmiqError:
        return None  # whatever the reason: it can't be had, which is what a lost picture is


def _origin(row: "asyncpg.Record") -> Origin:
    return Origin(row["tenant_id"], row["farm_id"], row["barn_id"], row["device_id"])


def _sample(row: "asyncpg.Record") -> Sample:
    return Sample(
        row["number"], row["metric_value"], row["sensor"], to_us(row["occurred_at"]), row["metric_type"], row["unit"],
        row["time_quality"], _origin(row), to_us(row["ingested_at"]),
    )  # fmt: skip


def _found(row: "asyncpg.Record") -> Found:
    return Found(
        row["event_id"], row["event_type"], _origin(row), to_us(row["occurred_at"]), row["value"], row["session_id"],
        row["media_id"], row["metric"], row["unit"],
    )  # fmt: skip


def _session(row: "asyncpg.Record") -> FoundSession:
    return FoundSession(
        row["id"], _origin(row), row["status"], _us(row["start_at"]), _us(row["end_at"]), row["batch_id"],
        row["initial_weight_kg"], row["final_weight_kg"], row["image_count"], row["inference_result_id"],
    )  # fmt: skip


def _result(row: "asyncpg.Record") -> FoundResult:
    return FoundResult(
        row["id"], _origin(row), row["session_id"], row["media_id"], row["predicted_weight_kg"], row["predicted_size"],
        row["confidence"], row["model_version"], to_us(row["occurred_at"]),
    )  # fmt: skip


def _us(at: "datetime | None") -> int | None:
    return None if at is None else to_us(at)
