"""What a golden farm's devices were told that is safe, compared with what the cloud has.

The ledger was written by the devices of the release: nothing in it comes from a table of the farm. Every complaint names what is
missing, twice there, or different."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final
from uuid import UUID

from e2e.farm import Farm
from farmiq.stack import control
from support.golden_farm import Golden, bucket_of

NAMED_MAX: Final = 5
SAFE: Final = frozenset({"stored", "duplicate"})

_SESSION: Final = "weighvision.session."
_IMAGE: Final = "weighvision.image.captured"
_TABLES: Final = {
    "weighvision.weight.recorded": "recorded_weights",
    "station.loss": "station_losses",
}

_SAMPLES: Final = """
SELECT seq, count(*) AS times FROM telemetry_raw WHERE device_id = $1 AND stream_id = $2 AND seq <= $3 GROUP BY seq"""
_LOSSES: Final = "SELECT first_seq, last_seq FROM stream_losses WHERE device_id = $1 AND first_seq <= $2"
_STORED: Final = "SELECT id, session_id, sha256, object_key FROM media_objects WHERE state = 'stored'"


def complaints(golden: Golden, farm: Farm) -> list[str]:
    """Nothing, when everything that was accepted is in the cloud once or declared lost."""
    return [*_samples(golden, farm), *_events(golden, farm), *_sessions(golden, farm), *_pictures(golden, farm)]


def _samples(golden: Golden, farm: Farm) -> Iterator[str]:
    for device, one in golden.manifest["samples"].items():
        captured = one["captured"]
        rows = farm.fetch("cloud", _SAMPLES, device, UUID(one["stream_id"]), captured)
        stored = {row["seq"] for row in rows}
        losses = [(row["first_seq"], row["last_seq"]) for row in farm.fetch("cloud", _LOSSES, device, captured)]
        lost = {seq for first, last in losses for seq in _span(first, last, captured)}
        declared = {seq for first, last in one["lost"] for seq in _span(first, last, captured)}
        yield from _blame(
            f"{device}: captured, and neither stored nor declared lost", {*range(1, captured + 1)} - stored - lost
        )
        yield from _blame(f"{device}: stored more than once", {row["seq"] for row in rows if row["times"] > 1})
        yield from _blame(f"{device}: given up although the release had them", lost - declared)
        yield from _blame(f"{device}: declared lost by the node, and not in the cloud's ledger", declared - lost)


def _span(first: int, last: int, captured: int) -> range:
    return range(first, min(last, captured) + 1)


def _events(golden: Golden, farm: Farm) -> Iterator[str]:
    """Those that the edge answered for, those that the broker took while nobody read from it, and those in a station's queue."""
    accepted = {line["event_id"] for line in golden.ledger if line["type"] == "heard" and line["result"] in SAFE}
    accepted |= {line["event_id"] for line in golden.ledger if line["type"] == "published"}
    wanted: dict[tuple[str, str], set[UUID]] = {}
    refused = set()
    for line in golden.ledger:
        if line["type"] == "said" and line.get("is_poison"):
            refused.add(UUID(line["event_id"]))
        elif (line["type"] == "said" and line["event_id"] in accepted) or line["type"] == "queued":
            table, key, name = _place_of(line)
            wanted.setdefault((table, key), set()).add(UUID(name))
    for (table, key), ids in wanted.items():
        found = Counter(row["id"] for row in farm.fetch("cloud", _by_id(table, key), list(ids)))
        yield from _blame(f"{table}: accepted, and not in the cloud", ids - found.keys())
        yield from _blame(f"{table}: there more than once", {one for one, times in found.items() if times > 1})
    found = Counter(row["id"] for row in farm.fetch("cloud", _by_id("telemetry_raw", "id"), list(refused)))
    yield from _blame("readings that the edge refused are in the cloud", found)


def _place_of(line: dict[str, Any]) -> tuple[str, str, str]:
    """Where the cloud keeps an event of this type, by which column, and under which name. Of the events of a session, and of a
    picture that is told of twice, it keeps what they add up to."""
    event_type = line["event_type"]
    if event_type.startswith(_SESSION):
        return "weight_sessions", "id", line["session"]
    if event_type == _IMAGE and line.get("media"):
        return "captured_images", "media_id", line["media"]
    if event_type == _IMAGE:
        return "captured_images", "event_id", line["event_id"]
    if event_type == "telemetry.reading":
        return "telemetry_raw", "id", line["event_id"]
    return _TABLES.get(event_type, "device_events"), "event_id", line["event_id"]


def _by_id(table: str, key: str) -> str:
    return f"SELECT {key} AS id FROM {table} WHERE {key} = ANY($1)"  # noqa: S608 - names from above


def _sessions(golden: Golden, farm: Farm) -> Iterator[str]:
    """Those whose every event was acknowledged look as the station said."""
    weighed = {UUID(line["session"]): line for line in golden.ledger if line["type"] == "weighed"}
    query = "SELECT id, status, final_weight_kg, image_count FROM weight_sessions WHERE id = ANY($1)"
    rows = {row["id"]: tuple(row)[1:] for row in farm.fetch("cloud", query, list(weighed))}
    for session, line in weighed.items():
        if rows.get(session) != ("finalized", line["weight_kg"], len(line["media"])):
            yield f"session {session} is {rows.get(session)}, and was {line}"


def _pictures(golden: Golden, farm: Farm) -> Iterator[str]:
    rows = farm.fetch("cloud", _STORED)
    stored = {(row["id"], row["sha256"]) for row in rows}
    shown = Counter((str(row["session_id"]), row["sha256"]) for row in rows)
    sent = {(UUID(line["media"]), line["sha256"]) for line in golden.ledger if line["type"] == "picture"}
    # One that a station gave up is declared, and one without a session may belong to one by now.
    taken = {
        (line["session"], line["sha256"])
        for line in golden.ledger
        if line["type"] == "taken" and line["state"] != "failed" and line["session"]
    }
    yield from _blame("pictures that are not in the cloud", sent - stored)
    yield from _blame("pictures of a station's queue that are not in the cloud", taken - shown.keys())
    yield from _blame("pictures that are there twice", [one for one, times in shown.items() if times > 1])


def altered_objects(golden: Golden, farm: Farm) -> list[str]:
    """The bytes themselves, and not only the rows that speak of them."""
    client, bucket = bucket_of(control.environment(farm.home), "cloud")
    expected = {UUID(line["media"]): line["sha256"] for line in golden.ledger if line["type"] == "picture"}
    found = []
    for row in farm.fetch("cloud", f"{_STORED} AND id = ANY($1)", list(expected)):
        body = client.get_object(Bucket=bucket, Key=row["object_key"])["Body"].read()
        if hashlib.sha256(body).hexdigest() != expected[row["id"]]:
            found.append(f"the object of picture {row['id']} is another one")
    return found


def _blame(what: str, found: Iterable[Any]) -> Iterator[str]:
    """Sequences as ranges, of everything else the first few."""
    things = list(found)
    if not things:
        return
    are_numbers = all(isinstance(one, int) for one in things)
    names = list(_ranges(sorted(things))) if are_numbers else sorted(map(str, things))
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    yield f"{what}: {len(things)}: {', '.join(names[:NAMED_MAX])}{more}"


def _ranges(numbers: list[int]) -> Iterator[str]:
    for _, group in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        yield f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0])
