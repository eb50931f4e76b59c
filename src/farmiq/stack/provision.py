"""Makes what the services need inside the servers: databases, schemas, users, buckets, and the demo farm. Safe to repeat."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import unquote, urlsplit

import asyncpg

from farmiq.kit.database_roles import writers_of
from farmiq.kit.logging import get_logger
from farmiq.kit.migrations import migrate
from farmiq.kit.postgres import Connection, prepare
from farmiq.stack import demo_farm
from farmiq.stack.errors import StackError
from farmiq.stack.object_store import create_bucket
from farmiq.stack.plan import Plan
from farmiq.stack.postgres import create_role_and_database

log = get_logger(__name__)


class DatabasesNotMade(StackError):
    """DATABASE_URL names one server for both tiers, and its user may not create the two databases there."""


async def provision_servers(plan: Plan) -> None:
    await _provide_databases(plan)
    if plan.servers.seaweedfs:
        await plan.servers.seaweedfs.sync_before_answering()
    accounts = (plan.urls.s3_edge, plan.urls.s3_cloud)
    for account in accounts:
        await asyncio.to_thread(create_bucket, account.endpoint, account.access_key, account.secret_key, account.bucket)
    log.info("servers_provisioned", buckets=[account.bucket for account in accounts])


async def provision_farm(plan: Plan) -> None:
    await asyncio.gather(
        migrate(plan.urls.edge_database, "farmiq.edge.migrations"),
        migrate(plan.urls.cloud_database, "farmiq.cloud.migrations"),
    )
    await _register_devices(plan)
    await _write_logins(plan)
    await _register_edge(plan)
    log.info("farm_provisioned", tenant_id=demo_farm.TENANT_ID, edge_cluster_id=demo_farm.EDGE_CLUSTER_ID)


async def _provide_databases(plan: Plan) -> None:
    if plan.servers.postgres:
        async with _connected(plan.servers.postgres.url()) as connection:
            for tier, password in (("edge", plan.secrets.postgres_edge), ("cloud", plan.secrets.postgres_cloud)):
                await create_role_and_database(connection, tier, password, writers_of(f"farmiq.{tier}.migrations"))
            await connection.execute("REVOKE ALL ON DATABASE postgres, template1 FROM PUBLIC")
    elif plan.external.database_url:
        async with _connected(plan.external.database_url) as connection:
            for url in {plan.urls.edge_database, plan.urls.cloud_database}:
                await _create_beside(connection, unquote(urlsplit(url).path.lstrip("/")))


async def _create_beside(connection: Connection, database: str) -> None:
    if await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", database):
        return
    quoted = '"' + database.replace('"', '""') + '"'
    try:
        await connection.execute(f"CREATE DATABASE {quoted}")
    except asyncpg.InsufficientPrivilegeError as error:
        fix = "create two databases yourself, and set EDGE_DATABASE_URL and CLOUD_DATABASE_URL instead of DATABASE_URL"
        raise DatabasesNotMade(f"the database {database} could not be created: {error}", fix=fix) from error


async def _register_devices(plan: Plan) -> None:
    from farmiq.edge.ingress_gateway import devices

    async with _connected(plan.urls.edge_database) as connection:
        for device_id, kind in ((demo_farm.DEVICE_ID, "node"), (demo_farm.STATION_ID, "weigh-station")):
            try:
                await devices.register(
                    connection,
                    tenant_id=demo_farm.TENANT_ID,
                    farm_id=demo_farm.FARM_ID,
                    barn_id=demo_farm.BARN_ID,
                    device_id=device_id,
                    kind=kind,
                )
                if device_id == demo_farm.STATION_ID:
                    await _give_station_its_secrets(connection, plan)
            except (devices.DeviceTaken, devices.DeviceKnown) as error:
                # Somebody took it out, or had one of that name before, and the rest of the farm is no worse for it.
                log.warning("demo_device_refused", device_id=device_id, reason=str(error))


async def _give_station_its_secrets(connection: Connection, plan: Plan) -> None:
    """Once: its broker login comes from the database like that of every device that was added."""
    from farmiq.edge.ingress_gateway import devices
    from farmiq.edge.ingress_gateway.broker_logins import hash_password
    from farmiq.timeseries.stream import Origin

    token = plan.secrets.station_token
    if await devices.holder_of(connection, token) is None:
        origin = Origin(demo_farm.TENANT_ID, demo_farm.FARM_ID, demo_farm.BARN_ID, demo_farm.STATION_ID)
        credential = devices.Credential(hash_password(plan.secrets.mqtt_station), token)
        await devices.add(connection, origin, "weigh-station", credential)


async def _write_logins(plan: Plan) -> None:
    """The broker starts with what the database says, however long it was away and whatever backup came back meanwhile."""
    from farmiq.stack.device_logins import write_register

    if plan.servers.mosquitto is None:
        return
    async with _connected(plan.urls.edge_database) as connection:
        await write_register(connection, plan.home)


async def _register_edge(plan: Plan) -> None:
    from farmiq.cloud.ingestion import edges

    async with _connected(plan.urls.cloud_database) as connection:
        await edges.register(
            connection,
            edge_cluster_id=demo_farm.EDGE_CLUSTER_ID,
            tenant_ids=[demo_farm.TENANT_ID, demo_farm.VERIFIED_TENANT_ID],
            token=plan.secrets.edge_token,
        )


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(url, timeout=10)
    try:
        await prepare(connection)
        yield connection
    finally:
        await connection.close(timeout=5)
