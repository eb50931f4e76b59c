"""Servers that the environment names are used, and no server is started."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from farmiq.stack.control import StackFailed, environment, read_state, start, stop, wait_until_healthy
from farmiq.stack.home import Home
from farmiq.stack.ports import free_port
from farmiq.stack.processes import leftovers
from support.mosquitto import Broker
from support.postgres import NewDatabase
from support.s3 import S3


@pytest.fixture
def servers(mosquitto: Broker, s3: S3) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "MQTT_URL": mosquitto.url("farm"),
        "AMQP_URL": "amqp://somebody:else@127.0.0.1:5672/",
        "S3_ENDPOINT": s3.endpoint,
        "S3_ACCESS_KEY": s3.access_key,
        "S3_SECRET_KEY": s3.secret_key,
        "MEDIA_BUCKET": s3.bucket,
    }


@pytest.fixture
async def home(run_folder: Path, tmp_path: Path) -> AsyncIterator[Home]:
    home = Home(run_folder / tmp_path.name)
    yield home
    stop(home, purge=True)


@pytest.fixture
async def superuser(postgres_url: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(postgres_url)
    yield connection
    for tier in ("edge", "cloud"):
        await connection.execute(f"DROP DATABASE IF EXISTS postgres_{tier} WITH (FORCE)")
    await connection.close()


async def test_one_database_server_gets_a_database_for_each_tier(
    home: Home, servers: dict[str, str], postgres_url: str, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    start(home, servers | {"DATABASE_URL": postgres_url}, services=())
    state = wait_until_healthy(home, lambda _: None)
    assert state.children == []
    for tier in ("edge", "cloud"):
        connection = await asyncpg.connect(environment(home)[f"{tier.upper()}_DATABASE_URL"])
        assert await connection.fetchval("SELECT current_database()") == f"postgres_{tier}"
        await connection.close()


def test_two_databases_are_used_as_they_are(home: Home, servers: dict[str, str], new_database: NewDatabase) -> None:
    edge, cloud = new_database(), new_database()
    start(home, servers | {"EDGE_DATABASE_URL": edge, "CLOUD_DATABASE_URL": cloud}, services=())
    assert wait_until_healthy(home, lambda _: None).children == []
    assert (environment(home)["EDGE_DATABASE_URL"], environment(home)["CLOUD_DATABASE_URL"]) == (edge, cloud)


def test_a_user_who_may_not_create_databases_is_told_what_to_do(
    home: Home, servers: dict[str, str], new_database: NewDatabase
) -> None:
    start(home, servers | {"DATABASE_URL": new_database()}, services=())
    with pytest.raises(StackFailed, match="EDGE_DATABASE_URL and CLOUD_DATABASE_URL"):
        wait_until_healthy(home, lambda _: None)


def test_a_start_that_fails_says_why_and_leaves_nothing_running(home: Home, servers: dict[str, str]) -> None:
    nowhere = f"postgresql://u:hidden@127.0.0.1:{free_port()}/none"
    start(home, servers | {"DATABASE_URL": nowhere}, services=())
    with pytest.raises(StackFailed, match="Connect call failed"):
        wait_until_healthy(home, lambda _: None)
    stop(home)
    assert leftovers(home.path) == []
    assert "hidden" not in home.log_file("supervisor").read_text()
    assert read_state(home).phase == "stopped"
