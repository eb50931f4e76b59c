"""The database that a job works on, refused when it is not the one that the job's tier has."""

import os
from collections.abc import Mapping

from farmiq.cli.job_catalogue import OwnedJob
from farmiq.cli.tier_database import open_session, refuse_other_tier, tier_of
from farmiq.kit import job_runs
from farmiq.kit.clock import Clock
from farmiq.kit.job_runs import LastRun
from farmiq.kit.jobs import Report, run_now

APPLICATION = "farmiq-jobs"


async def run_job(owned: OwnedJob, url: str, *, is_dry_run: bool) -> Report:
    async with open_session(url, APPLICATION, needs_table="job_runs") as connection:
        await refuse_other_tier(
            connection,
            owned.service.tier,
            what="the job belongs to",
            fix="farmiq jobs ls shows the jobs of the database that DATABASE_URL names",
        )
        return await run_now(
            connection, owned.job, clock=Clock(), instance_id=f"{APPLICATION}-{os.getpid()}", is_dry_run=is_dry_run
        )


async def last_runs(url: str, names: list[str]) -> tuple[str, Mapping[str, LastRun]]:
    """The tier that the database belongs to, and when its jobs ran last."""
    async with open_session(url, APPLICATION, needs_table="job_runs") as connection:
        return await tier_of(connection), await job_runs.last_runs(connection, names)
