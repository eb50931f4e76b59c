"""The database that a job works on, refused when it is not the one that the job's tier has."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import asyncpg

from farmiq.cli.errors import BadSetting, CommandFailed
from farmiq.cli.job_catalogue import OwnedJob
from farmiq.kit import job_runs
from farmiq.kit.clock import Clock
from farmiq.kit.job_runs import LastRun
from farmiq.kit.jobs import Report, run_now
from farmiq.kit.logging import mask
from farmiq.kit.postgres import Connection, open_pool, require_schema

PATIENCE_SECONDS = 5.0


async def run_job(owned: OwnedJob, url: str, *, is_dry_run: bool) -> Report:
    async with _session(url) as connection:
        await _refuse_other_tier(connection, owned.service.tier)
        return await run_now(
            connection, owned.job, clock=Clock(), instance_id=f"farmiq-jobs-{os.getpid()}", is_dry_run=is_dry_run
        )


async def last_runs(url: str, names: list[str]) -> tuple[str, Mapping[str, LastRun]]:
    """The tier that the database belongs to, and when its jobs ran last."""
    async with _session(url) as connection:
        return await _tier_of(connection), await job_runs.last_runs(connection, names)


@asynccontextmanager
async def _session(url: str) -> AsyncIterator[Connection]:
    try:
        pool = await open_pool(url, service="farmiq-jobs", size_max=1, patience_seconds=PATIENCE_SECONDS)
    except (asyncpg.PostgresError, ValueError) as error:
        # The text of a ValueError quotes the part of the address that could not be read, which may be the password.
        why = mask(str(error)) if isinstance(error, asyncpg.PostgresError) else "It cannot be read as an address."
        raise BadSetting(
            "PostgreSQL does not take this DATABASE_URL",
            why=why,
            fix="DATABASE_URL=postgresql://user:password@host:5432/database",
        ) from None
    async with pool:
        await require_schema(pool)
        async with pool.acquire() as connection:
            if await connection.fetchval("SELECT to_regclass('job_runs') IS NULL"):
                raise CommandFailed(
                    "this database has no jobs yet",
                    why="Its schema is older than this version.",
                    fix=f"farmiq migrate {await _tier_of(connection)}",
                )
            yield connection


async def _tier_of(connection: Connection) -> str:
    revision = await connection.fetchval("SELECT min(version_num) FROM alembic_version")
    return str(revision).partition("_")[0]


async def _refuse_other_tier(connection: Connection, tier: str) -> None:
    found = await _tier_of(connection)
    if found != tier:
        raise BadSetting(
            f"this is a database of the {found}, and the job belongs to the {tier}",
            why="DATABASE_URL names the other tier's database.",
            fix="farmiq jobs ls shows the jobs of the database that DATABASE_URL names",
        )
