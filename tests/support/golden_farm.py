"""A golden farm, `tests/golden/VERSION`, brought up under the code of today. What is in it: docs/internals/golden-farm.md.

The files are read as what they are, SQL, JSON and archives: nothing of today's code takes part in understanding them."""

import base64
import gzip
import json
import os
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

import aiormq
import boto3
from aiormq.abc import AbstractChannel
from botocore.config import Config
from pamqp.commands import Basic

from e2e.farm import Farm
from farmiq.stack import binaries, control
from farmiq.stack.private_files import private_folder
from support.service_process import ServiceProcess
from support.waiting import run_apart

GOLDEN: Final = Path(__file__).parents[1] / "golden"

_DAYS: Final = (
    "TELEMETRY_RAW", "TELEMETRY_AGG", "SESSION", "MEDIA", "INFERENCE_JOB", "INFERENCE_RESULT", "OUTBOX",
    "DISCARDED_LETTERS", "INGEST_DEDUPE", "DEVICE_EVENT", "SYNC_BATCH", "ANALYTICS_HOURS", "ANALYTICS_SESSIONS",
    "ANALYTICS_RESULTS",
)  # fmt: skip
FOREVER: Final = {f"{name}_RETENTION_DAYS": "36500" for name in _DAYS} | {
    "INGRESS_DEDUPE_TTL_HOURS": "876000",
    "INGRESS_REJECTED_TTL_HOURS": "876000",
}
"""A golden farm grows older with every day. What retention may take after so long is not what its test is about."""

IMPATIENT: Final = {"MEDIA_SYNC_WANTED_SECONDS": "3", "MEDIA_ASK_AGAIN_SECONDS": "1", "SESSION_SETTLE_SECONDS": "2"}


@dataclass(frozen=True)
class Golden:
    """The files of one release."""

    folder: Path

    @cached_property
    def manifest(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "MANIFEST.json").read_text()))

    @cached_property
    def ledger(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._unpacked("ledger.jsonl").decode().splitlines()]

    @cached_property
    def responses(self) -> list[dict[str, Any]]:
        return list(json.loads(self._unpacked("responses.json")))

    @cached_property
    def bus(self) -> dict[str, Any]:
        return dict(json.loads(self._unpacked("bus.json")))

    def dump(self, tier: str) -> bytes:
        return self._unpacked(f"{tier}.sql")

    def _unpacked(self, name: str) -> bytes:
        return gzip.decompress((self.folder / f"{name}.gz").read_bytes())


def lay_out(golden: Golden, farm: Farm) -> None:
    """Everything that the release has left goes where it was: the farm then lies there as after an ordinary stop."""
    private_folder(farm.home.path)
    subprocess.run(["tar", "-xzf", golden.folder / "home.tar.gz", "-C", farm.home.path], check=True)
    farm.choose_ports_of_its_own()
    control.start(farm.home, _without_addresses(), [])
    try:
        control.wait_until_healthy(farm.home, lambda _: None)
        environment = control.environment(farm.home)
        ageing = _AGE.format(days=age_days()).encode() if age_days() else b""
        for tier in ("edge", "cloud"):
            _load(environment[f"{tier.upper()}_DATABASE_URL"], golden.dump(tier) + ageing)
        _fill_buckets(golden, environment)
        run_apart(lambda: _fill_bus(golden, environment["AMQP_URL"]))
    finally:
        control.stop(farm.home)


def _without_addresses() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.endswith("_URL") and name != "S3_ENDPOINT"}


def _load(url: str, dump: bytes) -> None:
    finished = subprocess.run(
        [binaries.postgres("psql"), "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--output=/dev/null", url],
        input=dump, capture_output=True, check=False,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr.decode()[-3000:]


def age_days() -> int:
    """FARMIQ_GOLDEN_AGE_DAYS=400 shows today what the test will say when the farm is so old: everything in the databases happened
    so many days earlier."""
    return int(os.environ.get("FARMIQ_GOLDEN_AGE_DAYS", "0"))


_AGE: Final = """
DO $$
DECLARE statement text;
BEGIN
  FOR statement IN
    SELECT format('UPDATE %s SET %s', attrelid::regclass, string_agg(
             format('%1$I = %1$I - %2$s', attname, CASE atttypid WHEN 'date'::regtype THEN '{days}' ELSE age END), ', '))
      FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
     CROSS JOIN (SELECT quote_literal('{days} days') || '::interval' AS age) AS ageing
     WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
       AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND atttypid IN ('timestamptz'::regtype, 'date'::regtype)
     GROUP BY attrelid
  LOOP
    EXECUTE statement;
  END LOOP;
END $$;
"""


def _fill_buckets(golden: Golden, environment: Mapping[str, str]) -> None:
    with tarfile.open(golden.folder / "objects.tar.gz") as archive:
        contents = {entry.name: file.read() for entry in archive if (file := archive.extractfile(entry)) is not None}
    for tier, objects in json.loads(contents.pop("index.json")).items():
        client, bucket = bucket_of(environment, tier)
        for key, one in objects.items():
            client.put_object(Bucket=bucket, Key=key, Body=contents[one["sha256"]], ContentType=one["content_type"])


def bucket_of(environment: Mapping[str, str], tier: str) -> tuple[Any, str]:
    prefix = {"edge": "", "cloud": "CLOUD_"}[tier]
    client = boto3.client(
        "s3", endpoint_url=environment[f"{prefix}S3_ENDPOINT"], region_name="us-east-1",
        aws_access_key_id=environment[f"{prefix}S3_ACCESS_KEY"],
        aws_secret_access_key=environment[f"{prefix}S3_SECRET_KEY"],
        config=Config(s3={"addressing_style": "path"}),
    )  # fmt: skip
    return client, environment[f"{prefix}MEDIA_BUCKET"]


async def _fill_bus(golden: Golden, url: str) -> None:
    """Queues with the arguments that the release gave them. The services bind them, as they do at every start; until then a queue
    is bound to a message's exchange for as long as it takes to get its own."""
    connection = await aiormq.connect(url)
    try:
        channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
        definitions = golden.bus["definitions"]
        for exchange in definitions["exchanges"]:
            await channel.exchange_declare(exchange["name"], exchange_type=exchange["type"], durable=True)
        for queue in definitions["queues"]:
            await channel.queue_declare(queue["name"], durable=True, arguments=queue["arguments"])
        for queue, messages in golden.bus["messages"].items():
            await _fill_queue(channel, queue, messages)
    finally:
        await connection.close()


async def _fill_queue(channel: AbstractChannel, queue: str, messages: list[dict[str, Any]]) -> None:
    places = {(one["exchange"], one["routing_key"]) for one in messages if one["exchange"]}
    for exchange, routing_key in places:
        await channel.queue_bind(queue, exchange, routing_key)
    for one in messages:
        properties = Basic.Properties(
            headers=_as_it_was(one["headers"]), **{name: _as_it_was(value) for name, value in one["properties"].items()}
        )
        await channel.basic_publish(
            base64.b64decode(one["body"]), exchange=one["exchange"], mandatory=True, properties=properties,
            routing_key=one["routing_key"] if one["exchange"] else queue,
        )  # fmt: skip
    for exchange, routing_key in places:
        await channel.queue_unbind(queue, exchange, routing_key)


def _as_it_was(value: Any) -> Any:
    """What JSON has no form for was written as an object that says what it is."""
    if isinstance(value, list):
        return [_as_it_was(one) for one in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"time"}:
        return datetime.fromisoformat(value["time"])
    if value.keys() == {"base64"}:
        return base64.b64decode(value["base64"])
    return {name: _as_it_was(one) for name, one in value.items()}


def mqtt_url(golden: Golden, farm: Farm, device: str) -> str:
    """With the password of then, at the broker of now."""
    address = urlsplit(control.environment(farm.home)["MQTT_DEVICE_URL"])
    password = quote(golden.manifest["devices"][device]["mqtt_password"], safe="")
    return f"mqtt://{device}:{password}@{address.hostname}:{address.port}"


@contextmanager
def devices_running(golden: Golden, farm: Farm) -> Iterator[None]:
    """The release's nodes and its weigh station, with the spools, the queue and the credentials that they had."""
    logs = farm.home.path / "logs"
    processes = [
        ServiceProcess("node-forwarder", _node(golden, farm, device), farm.home.path, logs / f"{device}.log")
        for device in ("golden-node-1", "golden-node-2")
    ]
    station = _station(golden, farm, "golden-agent")
    processes.append(ServiceProcess("weighvision-agent", station, farm.home.path, logs / "golden-agent.log"))
    started: list[ServiceProcess] = []
    try:
        started += (process.start() for process in processes)
        yield
    finally:
        for process in started:
            process.stop()


def _device(golden: Golden, farm: Farm, device: str) -> dict[str, str]:
    facts = golden.manifest["devices"][device]
    place = {name.upper(): facts[name] for name in ("tenant_id", "farm_id", "barn_id")}
    return place | {"DEVICE_ID": device, "MQTT_URL": mqtt_url(golden, farm, device), "HTTP_TOKEN": facts["http_token"]}


def _node(golden: Golden, farm: Farm, device: str) -> dict[str, str]:
    return _device(golden, farm, device) | {
        "NODE_FORWARDER_SOCKET": str(farm.home.forwarder_socket(device)),
        "NODE_FORWARDER_SPOOL_DIR": str(farm.home.spool_folder(device)),
        "NODE_FORWARDER_KEEP_FREE_BYTES": "0",
        "NODE_FORWARDER_RESEND_SECONDS": "3",
    }


# It has enough to do with what it has: an animal at midnight, for a moment.
_QUIET_STATION: Final = """\
[camera]
driver = "simulated"
period_seconds = 86400
stay_seconds = 0.1
[scale]
driver = "simulated"
period_seconds = 86400
stay_seconds = 0.1
"""


def _station(golden: Golden, farm: Farm, device: str) -> dict[str, str]:
    folder = farm.home.station_folder(device)
    (folder / "station.toml").write_text(_QUIET_STATION)
    return _device(golden, farm, device) | {
        "EDGE_MEDIA_STORE_URL": control.environment(farm.home)["EDGE_MEDIA_STORE_URL"],
        "WEIGHVISION_STATION": str(folder / "station.toml"),
        "WEIGHVISION_QUEUE_DIR": str(folder / "queue"),
        "WEIGHVISION_KEEP_FREE_BYTES": "0",
        "WEIGHVISION_RESEND_SECONDS": "3",
    }
