"""`farmiq tenant erase`, behind the words: writers are kept out, what is on its way has passed, everything goes."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from typing import Any, Final, NamedTuple

import asyncpg
import msgspec
from msgspec import Struct

from farmiq.cli import cloud_bus, cloud_drain, device_changes, dlq_commands
from farmiq.cli.bus_users import logins_of, revoke_user
from farmiq.cli.device_edge import Edge, ForeignBroker, find_edge
from farmiq.cli.edge_cloud import Cloud, find_cloud
from farmiq.cli.errors import BadUsage, CommandFailed
from farmiq.cli.migrate import Tier
from farmiq.cli.running import running_environment
from farmiq.cli.spool_progress import LINE_SECONDS
from farmiq.cli.terminal import person
from farmiq.cloud import bus_users, viewers
from farmiq.cloud.dead_letters.filters import Filter
from farmiq.cloud.drain import until_left
from farmiq.cloud.ingestion import edges
from farmiq.cloud.media_store.picture import THUMBNAILS_PREFIX
from farmiq.contracts.ids import InvalidId, check_id
from farmiq.contracts.topics import StatusTopic
from farmiq.edge.ingress_gateway import canary
from farmiq.edge.ingress_gateway.devices import Device
from farmiq.kit import erasure
from farmiq.kit.amqp_channel import BusAway
from farmiq.kit.erasure import ErasureRecord, OnStep
from farmiq.kit.logging import mask
from farmiq.kit.mqtt import BrokerAway, MqttClient
from farmiq.kit.postgres import AWAY, Connection, prepare
from farmiq.kit.s3 import ObjectStore, StoreAway, StoreRefused
from farmiq.kit.s3_settings import ObjectStoreSettings, open_store
from farmiq.kit.settings import load
from farmiq.stack import demo_farm

APPLICATION: Final = "farmiq-tenant"
LOOK_SECONDS: Final = 0.5
OWN_TENANTS: Final = (demo_farm.TENANT_ID, demo_farm.VERIFIED_TENANT_ID)

_SERVERS_AWAY: Final[tuple[type[BaseException], ...]] = (StoreAway, StoreRefused, BusAway, *AWAY)
_DEVICES: Final = "SELECT device_id FROM devices WHERE tenant_id = $1 ORDER BY device_id"
_EDGES: Final = "SELECT edge_cluster_id FROM edges WHERE tenant_ids @> ARRAY[$1::text] ORDER BY edge_cluster_id"
_NOW: Final = "SELECT clock_timestamp()"
_WAYS_SINCE: Final = "SELECT count(*) FROM canary_receipts WHERE received_at > $1"


class Inventory(Struct, frozen=True, kw_only=True):
    """`names` are the tenant's devices at the edge, and the edges that may deliver for it in the cloud."""

    tier: str
    rows_by_table: dict[str, int]
    objects: int
    object_bytes: int
    names_are: str
    names: list[str]

    @property
    def is_empty(self) -> bool:
        return not self.rows_by_table and not self.objects and not self.names


class Erased(Struct, frozen=True, kw_only=True):
    """`left`: why the record is not finished. `notes`: what is elsewhere, and not this command's."""

    tier: str
    record: ErasureRecord
    left: list[str]
    notes: list[str]


class Place(NamedTuple):
    """What a tier is made of. `writer` deletes while `reader` reads."""

    tier: Tier
    system: Edge | Cloud
    writer: Connection
    reader: Connection
    objects: ObjectStore
    bucket: str


# --- Commands ------------------------------------------------------------------------------------------------------------------


async def look(tier: Tier, tenant_id: str) -> Inventory:
    async with _open(tier, tenant_id) as place:
        count, size = await erasure.count_objects(place.objects, place.bucket, _prefixes(tenant_id))
        names_are, query = ("devices", _DEVICES) if tier is Tier.EDGE else ("edges that may deliver", _EDGES)
        return Inventory(
            tier=tier.value,
            rows_by_table=await erasure.count_rows(place.reader, tenant_id),
            objects=count,
            object_bytes=size,
            names_are=names_are,
            names=[row[0] for row in await place.reader.fetch(query, tenant_id)],
        )


async def recorded(tier: Tier, tenant_id: str | None) -> list[ErasureRecord]:
    async with _connected(_find(tier)) as connection:
        return await erasure.records(connection, tenant_id)


async def erase_tenant(tier: Tier, tenant_id: str, reason: str, wait_seconds: float, on_step: OnStep) -> Erased:
    async with _open(tier, tenant_id) as place:
        erasure_id = await erasure.begin(place.writer, tenant_id, by=person(), reason=reason)
        if isinstance(place.system, Edge):
            left, notes = await _leave_edge(place, place.system, tenant_id, wait_seconds)
        else:
            left, notes = await _leave_cloud(place, place.system, tenant_id, wait_seconds)
        for _ in range(2):  # what a service still uploaded while its rows went has rows again, or none
            is_whole = await erasure.erase_rows(
                place.writer, place.reader, erasure_id, tenant_id, on_step, patience_seconds=wait_seconds
            )
            await erasure.erase_objects(
                place.writer, place.objects, place.bucket, _prefixes(tenant_id), erasure_id, on_step
            )
        if not is_whole:
            left.append("something still writes for this tenant, or a transaction has been open all the time")
        if not left:
            await erasure.finish(place.writer, erasure_id)
        (record, *_) = await erasure.records(place.writer, tenant_id)
        return Erased(tier=tier.value, record=record, left=left, notes=notes)


def as_data(one: Inventory | Erased | ErasureRecord) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(one)
    return data


# --- Keeping out whoever writes ------------------------------------------------------------------------------------------------


async def _leave_edge(place: Place, edge: Edge, tenant_id: str, wait_seconds: float) -> tuple[list[str], list[str]]:
    revoked = await device_changes.revoke_tenant(edge, tenant_id)
    notes = [f"{one.device_id} keeps on its own disk what it had not sent" for one in revoked[:5]]
    if len(revoked) > len(notes):
        notes.append(f"so do {len(revoked) - len(notes)} other devices")
    if isinstance(edge.broker, ForeignBroker):
        notes.append("delete the logins of these devices at your broker, and the status that it keeps of each")
    else:
        await _forget_statuses(edge, revoked)
    since = await place.writer.fetchval(_NOW)
    ways = len(canary.TOPICS)
    if await _until(lambda: _at_least(place.reader, ways, _WAYS_SINCE, since), wait_seconds):
        return [], notes
    return ["edge-ingress-gateway has not shown that it has taken what devices sent before: farmiq status"], notes


async def _leave_cloud(place: Place, cloud: Cloud, tenant_id: str, wait_seconds: float) -> tuple[list[str], list[str]]:
    bus = cloud_bus.find_bus()
    edge_ids = await edges.ungrant_all(place.writer, tenant_id, by=person())
    await viewers.end_tenant(place.writer, tenant_id)
    for user in await bus_users.all_users(place.writer):
        if user.tenant_id == tenant_id:
            await revoke_user(cloud, bus, logins_of(bus), user.name)
    await until_left(place.writer)
    waiting: set[str] = set()
    is_first = True

    async def have_passed() -> bool:
        nonlocal is_first, waiting
        state = await cloud_drain.state(cloud, bus)
        seen = {queue.queue for queue in state.queues if not queue.is_empty}
        waiting, is_first = seen if is_first else waiting & seen, False
        return not waiting

    left = []
    if not await _until(have_passed, wait_seconds):
        left.append(f"messages wait in {', '.join(sorted(waiting))}, and some may be of this tenant: farmiq cloud bus")
    await _discard_letters(cloud, bus, tenant_id)
    notes = [f"{one} still has what it had not delivered: farmiq tenant erase there" for one in edge_ids]
    return left, notes


async def _discard_letters(cloud: Cloud, bus: cloud_bus.Bus, tenant_id: str) -> None:
    """Into a table with a column `tenant_id`, from where they go with the rest."""
    state = await cloud_drain.state(cloud, bus)
    for letters in state.dead_letters:
        if letters.in_queue or letters.saved:
            wanted = Filter(tenant_id=tenant_id)
            asked = dlq_commands.asked_here("discard", letters.service, wanted, limit=None, is_dry_run=False)
            await dlq_commands.discard(dlq_commands.Place(bus, cloud), asked, lambda _counts, _messages: None)


async def _forget_statuses(edge: Edge, revoked: Sequence[Device]) -> None:
    """What the broker keeps of each device, and shows to whoever subscribes."""
    if not revoked:
        return
    mqtt = MqttClient(edge.environment["MQTT_URL"], client_id=f"{APPLICATION}-{os.getpid()}", clean_session=True)
    await mqtt.start()
    try:
        async with asyncio.timeout(30.0):
            await mqtt.wait_connected()
            for one in revoked:
                topic = StatusTopic(
                    tenant_id=one.tenant_id, farm_id=one.farm_id, barn_id=one.barn_id, device_id=one.device_id
                )
                await mqtt.publish(topic.path, b"", retain=True)
    except (BrokerAway, TimeoutError) as error:
        raise CommandFailed(
            "the broker does not answer", why=str(error) or "No answer in time.", fix="farmiq status, then again"
        ) from error
    finally:
        await mqtt.stop()


async def _at_least(connection: Connection, count: int, query: str, *given: object) -> bool:
    return int(await connection.fetchval(query, *given)) >= count


async def _until(has_come: Callable[[], Any], wait_seconds: float) -> bool:
    deadline = time.monotonic() + wait_seconds
    while not await has_come():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(LOOK_SECONDS)
    return True


# --- Where ---------------------------------------------------------------------------------------------------------------------


def _find(tier: Tier) -> Edge | Cloud:
    return find_edge() if tier is Tier.EDGE else find_cloud()


def _prefixes(tenant_id: str) -> list[str]:
    """At both tiers; only the cloud has thumbnails."""
    folder = f"tenants/{tenant_id}/"
    return [folder, f"{THUMBNAILS_PREFIX}{folder}"]


@asynccontextmanager
async def _open(tier: Tier, tenant_id: str) -> AsyncIterator[Place]:
    try:
        check_id("tenant", tenant_id)
    except InvalidId as error:
        raise BadUsage(str(error), why="It can be no tenant.", fix="farmiq device ls shows which there are") from error
    system = _find(tier)
    if system.is_of_a_home and tenant_id in OWN_TENANTS:
        raise CommandFailed(
            f"{tenant_id} is a tenant of this farm itself",
            why="Its devices and its edge come back at each start, and go on measuring.",
            fix="farmiq down --purge removes the whole farm",
        )
    settings = load(ObjectStoreSettings, _store_names(tier, system))
    async with AsyncExitStack() as stack:
        writer = await stack.enter_async_context(_connected(system))
        reader = await stack.enter_async_context(_connected(system))
        objects = stack.enter_context(closing(open_store(settings)))
        try:
            yield Place(
                tier=tier, system=system, writer=writer, reader=reader, objects=objects, bucket=settings.media_bucket
            )
        except _SERVERS_AWAY as error:
            raise CommandFailed(
                "a server of the farm does not answer",
                why=mask(str(error) or type(error).__name__),
                fix=f"farmiq status, then the same command again; what was erased is in farmiq tenant erasures {tenant_id}",
            ) from error


def _store_names(tier: Tier, system: Edge | Cloud) -> Mapping[str, str]:
    known: Mapping[str, str] = os.environ
    if isinstance(system, Edge):
        known = system.environment
    elif system.is_of_a_home:
        known = running_environment()
    prefix = "CLOUD_" if tier is Tier.CLOUD and known.get("CLOUD_S3_ENDPOINT") else ""
    return {name: known[prefix + name] for name in _STORE if known.get(prefix + name)}


_STORE: Final = tuple(name.upper() for name in ObjectStoreSettings.__struct_fields__)


@asynccontextmanager
async def _connected(system: Edge | Cloud) -> AsyncIterator[Connection]:
    """Without a limit for one statement: counting a large table takes its time."""
    tier = "edge" if isinstance(system, Edge) else "cloud"
    try:
        connection = await asyncpg.connect(
            system.database_url, timeout=10, server_settings={"application_name": APPLICATION}
        )
    except (OSError, ValueError, asyncpg.PostgresError) as error:
        variable = "DATABASE_URL" if tier == "edge" else "CLOUD_DATABASE_URL"
        fix = "farmiq status shows whether it runs" if system.is_of_a_home else f"correct {variable}"
        # The text of a ValueError quotes the part of the address that could not be read, which may be the password.
        why = "It cannot be read as an address." if isinstance(error, ValueError) else mask(str(error))
        raise CommandFailed(f"the {tier} database can't be used", why=why, fix=fix) from None
    try:
        await prepare(connection)
        if await connection.fetchval("SELECT to_regclass('tenant_erasures') IS NULL"):
            what = f"the {tier} database does not have the tables of this version"
            raise CommandFailed(what, why="It has no table tenant_erasures.", fix=f"farmiq migrate {tier}")
        yield connection
    finally:
        await connection.close(timeout=5)


# --- Progress ------------------------------------------------------------------------------------------------------------------


@contextmanager
def showing_erased(what: str) -> Iterator[OnStep]:
    """On stderr, so that stdout is the answer. Says nothing about work that is done at once."""
    said_at = time.monotonic()
    count = 0

    def on_step(table: str, gone: int) -> None:
        nonlocal said_at, count
        count += gone
        if time.monotonic() - said_at >= LINE_SECONDS:
            said_at = time.monotonic()
            sys.stderr.write(f"{what}: {count:,} rows and objects are gone, now {table}\n")

    yield on_step
