"""A farm with a backlog and dead letters moves from the servers of Debian 12 to those of Debian 13, and nothing is lost.

The steps are those of `docs/operations/upgrade.md`.
"""

import asyncio
import json
import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiormq
import asyncpg
import pytest
from pamqp.commands import Basic
from yarl import URL

from e2e.farm import FARMIQ, FASTER, Farm
from farmiq.cli import exits
from farmiq.cloud.topology import WORK_QUEUES
from farmiq.contracts.bus import TELEMETRY_EXCHANGE
from farmiq.contracts.event_types import TELEMETRY_BATCH_INGESTED
from farmiq.stack.mosquitto import Mosquitto
from farmiq.stack.mosquitto_users import MqttUser
from farmiq.stack.ports import free_port
from farmiq.stack.program import Program
from farmiq.stack.rabbitmq import Epmd, RabbitMq
from support.debian_root import DebianPostgres, MosquittoInside, RabbitMqInside, debian_root, inside
from support.mosquitto import EVERYTHING
from support.paho_client import Client
from support.server_process import ServerProcess
from support.waiting import run_apart, wait_for

TELEMETRY, ANALYTICS = "cloud-telemetry-service", "cloud-analytics-service"
RABBITMQCTL = "/usr/lib/rabbitmq/bin/rabbitmqctl"
LOOKED_AT, NOT_LOOKED_AT = 40, 10
TIERS = ("edge", "cloud")


class MovingFarm(Farm):
    """Its servers are not its own."""

    def __init__(self, home: Path, urls: dict[str, str]) -> None:
        super().__init__(home)
        self.urls = urls

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        chosen = {name: value for name, value in os.environ.items() if not name.endswith("_URL")}
        return subprocess.run(
            [FARMIQ, *arguments],
            env=chosen | FASTER | self.urls | {"FARMIQ_HOME": str(self.home.path)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )

    def told(self, *arguments: str) -> Any:
        answer = self.command(*arguments, "--json")
        assert answer.returncode == exits.OK, answer.stdout + answer.stderr
        return json.loads(answer.stdout)

    def url(self, tier: str) -> str:
        return f"{self.urls['DATABASE_URL']}_{tier}"


class Engines:
    """RabbitMQ, Mosquitto and PostgreSQL of one Debian. The next one's listen on the same ports, with the same passwords."""

    def __init__(self, home: Path, postgres: DebianPostgres, mosquitto: Mosquitto, rabbitmq: RabbitMq) -> None:
        self.postgres, self.mosquitto, self.rabbitmq = postgres, mosquitto, rabbitmq
        self._home = home
        self._running: dict[str, ServerProcess] = {}

    def start(self) -> None:
        for server in (self.postgres, self.mosquitto, Epmd(self.rabbitmq.epmd_port), self.rabbitmq):
            self._start(server)

    def _start(self, server: Program) -> None:
        self._running[server.name] = ServerProcess(server, self._home, self._home / f"{id(server)}-{server.name}.log")
        self._running[server.name].start(seconds=120)

    def stop(self) -> None:
        for process in reversed(self._running.values()):
            process.stop()
        self._running.clear()

    def versions(self) -> tuple[str, str]:
        return run_apart(self._versions)

    async def _versions(self) -> tuple[str, str]:
        bus = await aiormq.connect(self.rabbitmq.url())
        database = await asyncpg.connect(self.postgres.url())
        try:
            return str(database.get_server_version().major), str(bus.server_properties["version"])
        finally:
            await bus.close()
            await database.close()


@pytest.fixture
def root() -> Path:
    if not Path("/usr/lib/postgresql/15/bin/postgres").exists():
        pytest.skip("no PostgreSQL 15 here: apt-get install postgresql-15")
    return debian_root("trixie", 13)


@pytest.fixture
def debian12(root: Path, run_folder: Path, tmp_path: Path) -> Iterator[Engines]:
    secret = secrets.token_urlsafe(16)
    everything = (MqttUser("farm", secret, EVERYTHING),)
    engines = Engines(
        run_folder,
        DebianPostgres(tmp_path / "postgres15", free_port(), secret, is_throwaway=True, version=15),
        Mosquitto(tmp_path / "mosquitto", free_port(), secret, everything),
        RabbitMq(tmp_path / "rabbitmq3", free_port(), free_port(), free_port(), secret, secret),
    )
    engines.start()
    engines.postgres.tool("createdb", "-p", str(engines.postgres.port), "farmiq")
    yield engines
    engines.stop()


@pytest.fixture
def debian13(root: Path, debian12: Engines, run_folder: Path, tmp_path: Path) -> Iterator[Engines]:
    """Not started yet."""
    old = debian12
    secret, bus = old.postgres.superuser_password, old.rabbitmq
    engines = Engines(
        run_folder,
        DebianPostgres(tmp_path / "postgres17", old.postgres.port, secret, is_throwaway=True, version=17, root=root),
        MosquittoInside(old.mosquitto.folder, old.mosquitto.port, secret, old.mosquitto.users, root=root),
        RabbitMqInside(
            tmp_path / "rabbitmq4", bus.port, bus.distribution_port, bus.epmd_port, secret, secret, root=root
        ),
    )
    yield engines
    engines.stop()


@pytest.fixture
def farm(debian12: Engines, run_folder: Path) -> Iterator[MovingFarm]:
    farm = MovingFarm(
        run_folder / "moving",
        {
            "DATABASE_URL": debian12.postgres.url(database="farmiq"),
            "AMQP_URL": debian12.rabbitmq.url(),
            "MQTT_URL": debian12.mosquitto.url("farm", debian12.mosquitto.keeper_password),
        },
    )
    farm.choose_ports_of_its_own()
    farm.up()
    yield farm
    farm.command("down", "--purge", "--yes")


async def publish_poison(amqp_url: str, count: int) -> None:
    connection = await aiormq.connect(amqp_url)
    try:
        channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
        for _ in range(count):
            properties = Basic.Properties(delivery_mode=2, message_id=secrets.token_hex(8))
            await channel.basic_publish(
                b"{poison",
                exchange=TELEMETRY_EXCHANGE,
                routing_key=TELEMETRY_BATCH_INGESTED,
                mandatory=True,
                properties=properties,
            )
    finally:
        await connection.close()


async def depth_of(amqp_url: str, queue: str) -> int:
    connection = await aiormq.connect(amqp_url)
    try:
        return (await (await connection.channel()).queue_declare(queue, passive=True)).message_count or 0
    finally:
        await connection.close()


@contextmanager
def table_locked(url: str, table: str) -> Iterator[None]:
    """Whoever wants to store waits: messages gather in RabbitMQ, and some are in a service's hands."""
    loop = asyncio.new_event_loop()
    connection = loop.run_until_complete(asyncpg.connect(url))
    loop.run_until_complete(connection.execute(f"BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"))
    try:
        yield
    finally:
        loop.run_until_complete(connection.close())
        loop.close()


async def digests(url: str) -> dict[str, tuple[int, str]]:
    """Rows of every table and a digest over all of them, in no order."""
    connection = await asyncpg.connect(url)
    try:
        tables = await connection.fetch(
            "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace"
        )
        found = {}
        for (table,) in tables:
            # hashtextextended gives the same on every version.
            sums = f'SELECT count(*), coalesce(sum(hashtextextended(t::text, 0)::numeric), 0)::text FROM "{table}" AS t'  # noqa: S608 - names from the catalogue
            [row] = await connection.fetch(sums)
            found[table] = (row[0], row[1])
        return found
    finally:
        await connection.close()


async def digests_of_tiers(farm: MovingFarm) -> dict[str, dict[str, tuple[int, str]]]:
    return {tier: await digests(farm.url(tier)) for tier in TIERS}


def dead_letters(farm: MovingFarm) -> dict[str, int]:
    return {one["service"]: one["messages"] for one in farm.told("dlq", "ls")}


def fill(farm: MovingFarm) -> None:
    """Samples in the cloud; dead letters, some of which somebody has looked at."""
    farm.wait_until_cloud_has(50)
    amqp_url, queue = farm.urls["AMQP_URL"], WORK_QUEUES[TELEMETRY].dead_letter_queue
    run_apart(lambda: publish_poison(amqp_url, LOOKED_AT))
    wait_for(lambda: run_apart(lambda: depth_of(amqp_url, queue)) == LOOKED_AT, 60, "dead letters")
    wait_for(lambda: dead_letters(farm)[ANALYTICS] == LOOKED_AT, 60, "dead letters of analytics")
    run_apart(lambda: publish_poison(amqp_url, NOT_LOOKED_AT))
    wait_for(lambda: run_apart(lambda: depth_of(amqp_url, queue)) == NOT_LOOKED_AT, 60, "more dead letters")


READER, READER_PASSWORD = "their_program", "their-password"


async def let_reader_in(farm: MovingFarm, bus: RabbitMq) -> None:
    """A program of somebody else, with a login at RabbitMQ and one at PostgreSQL."""
    connection = await asyncpg.connect(farm.url("cloud"))
    await connection.execute(
        f"CREATE ROLE {READER} LOGIN PASSWORD '{READER_PASSWORD}'; GRANT SELECT ON streams TO {READER}"
    )
    await connection.close()
    await bus.evaluate(
        f'ok = rabbit_auth_backend_internal:add_user(<<"{READER}">>, <<"{READER_PASSWORD}">>, <<"test">>), '
        f'ok = rabbit_auth_backend_internal:set_permissions(<<"{READER}">>, <<"/">>, <<".*">>, <<".*">>, <<".*">>, <<"test">>).\n'
    )


async def read_as_reader(farm: MovingFarm) -> None:
    """Raises when one of the two logins does not work."""
    database, bus = URL(farm.url("cloud")), URL(farm.urls["AMQP_URL"])
    connection = await asyncpg.connect(str(database.with_user(READER).with_password(READER_PASSWORD)))
    assert await connection.fetchval("SELECT count(*) FROM streams") >= 1
    await connection.close()
    broker = await aiormq.connect(bus.with_user(READER).with_password(READER_PASSWORD))
    await broker.close()


def drain_with_a_backlog(farm: MovingFarm) -> None:
    queue = WORK_QUEUES[TELEMETRY].name
    with table_locked(farm.url("cloud"), "telemetry_raw"):
        wait_for(lambda: run_apart(lambda: depth_of(farm.urls["AMQP_URL"], queue)) >= 5, 60, "a backlog in RabbitMQ")
        early = farm.command("cloud", "drain", "--timeout", "0")
        assert early.returncode == exits.FAILED, early.stdout
        assert f"{queue}: " in early.stdout
    drained = farm.command("cloud", "drain", "--timeout", "120")
    assert drained.returncode == exits.OK, drained.stdout + drained.stderr
    # From here on the edge keeps what is captured.
    wait_for(lambda: farm.counts("edge-sync-forwarder")["pending_count"] >= 3, 60, "a backlog at the edge")


def move(farm: MovingFarm, old: Engines, new: Engines) -> None:
    """As `docs/operations/upgrade.md` says it. The farm is down."""
    definitions = old.rabbitmq.folder / "definitions.json"
    subprocess.run(
        [RABBITMQCTL, "export_definitions", str(definitions)],
        env=old.rabbitmq.environment(),
        check=True,
        capture_output=True,
        timeout=120,
    )
    before = run_apart(lambda: digests_of_tiers(farm))
    new.postgres.prepare()
    roles = new.postgres.folder / "roles.sql"
    new.postgres.tool("pg_dumpall", "-p", str(old.postgres.port), "--globals-only", "-f", str(roles))
    for tier in TIERS:
        # The newer version's pg_dump reads the older server.
        new.postgres.tool(
            "pg_dump", "-p", str(old.postgres.port), "-Fc", "-f", str(dump_of(new, tier)), f"farmiq_{tier}"
        )
    old.stop()
    new.start()
    new.postgres.tool("createdb", "-p", str(new.postgres.port), "farmiq")
    new.postgres.tool("psql", "-p", str(new.postgres.port), "-q", "-f", str(roles), "postgres")
    for tier in TIERS:
        new.postgres.tool("createdb", "-p", str(new.postgres.port), "-T", "template0", f"farmiq_{tier}")
        new.postgres.tool(
            "pg_restore",
            "-p",
            str(new.postgres.port),
            "--exit-on-error",
            "-d",
            f"farmiq_{tier}",
            str(dump_of(new, tier)),
        )
    assert run_apart(lambda: digests_of_tiers(farm)) == before
    copy = new.rabbitmq.folder / "definitions.json"
    copy.write_bytes(definitions.read_bytes())
    assert isinstance(new.rabbitmq, RabbitMqInside)
    subprocess.run(
        inside(new.rabbitmq.root, new.rabbitmq.folder, [RABBITMQCTL, "import_definitions", str(copy)]),
        env=new.rabbitmq.environment(),
        check=True,
        capture_output=True,
        timeout=120,
    )


def dump_of(engines: Engines, tier: str) -> Path:
    return engines.postgres.folder / f"{tier}.dump"


@pytest.mark.long(reason="starts two sets of servers and a farm twice; drain and dead letters have their own tests")
@pytest.mark.timeout(1200)
def test_a_farm_with_a_backlog_and_dead_letters_moves_from_debian_12_to_debian_13_and_loses_nothing(
    farm: MovingFarm, debian12: Engines, debian13: Engines
) -> None:
    fill(farm)
    run_apart(lambda: let_reader_in(farm, debian12.rabbitmq))
    drain_with_a_backlog(farm)
    watcher = Client(farm.urls["MQTT_URL"], client_id="watcher", clean=False)
    watcher.subscribe("moved/#")
    watcher.paho.disconnect()
    publisher = Client(farm.urls["MQTT_URL"])
    for number in range(20):
        publisher.publish("moved/it", str(number).encode())
    publisher.paho.disconnect()
    assert farm.command("down").returncode == exits.OK
    farm.urls["CLOUD_DATABASE_URL"] = farm.url("cloud")
    certain = farm.command("cloud", "drain")
    assert "Nothing of FarmIQ is left in RabbitMQ: it can be replaced." in certain.stdout, certain.stdout
    assert debian12.versions()[0] == "15"
    assert debian12.versions()[1].startswith("3.")

    move(farm, debian12, debian13)

    assert debian13.versions()[0] == "17"
    assert debian13.versions()[1].startswith("4.0.")
    watcher = Client(farm.urls["MQTT_URL"], client_id="watcher", clean=False)
    assert [watcher.hears() for _ in range(20)] == [("moved/it", str(number).encode()) for number in range(20)]
    watcher.paho.disconnect()
    run_apart(lambda: read_as_reader(farm))
    assert farm.command("cloud", "topology", "diff").returncode == exits.OK, "the definitions brought the queues"
    assert farm.command("cloud", "topology", "apply").returncode == exits.OK
    del farm.urls["CLOUD_DATABASE_URL"]
    farm.up()
    assert "The cloud is drained since" in farm.command("status").stdout
    assert farm.told("cloud", "drain", "--status")["drain"] is not None
    assert farm.command("cloud", "resume").returncode == exits.OK
    captured = farm.captured()
    farm.wait_until_cloud_has(captured)
    for stream in farm.coverage():
        assert (stream.lost, stream.rows) == (0, sum(end - first for first, end in stream.ranges)), stream
    letters = LOOKED_AT + NOT_LOOKED_AT
    assert dead_letters(farm) == {TELEMETRY: letters, ANALYTICS: letters, "cloud-media-store": 0}
    assert farm.fetch("edge", "SELECT count(*) AS dead FROM sync_outbox WHERE status = 'dlq'")[0]["dead"] == 0
    audit = json.loads(farm.command("audit", "--json").stdout)
    assert (audit["lost"], audit["unexplained"]) == (0, 0), audit
