"""The scheduler inside the service: started with it, shared between replicas, seen in its metrics."""

import re

from farmiq.edge.telemetry_timeseries.main import serve
from farmiq.kit.http_client import open_session
from farmiq.kit.postgres import Pool
from support.service_process import running
from support.waiting import eventually

JOBS = {"telemetry-partitions", "telemetry-retention", "telemetry-agg-retention"}


async def metrics(url: str) -> str:
    async with open_session("test", total_seconds=10) as session, session.get(f"{url}/metrics") as answer:
        return await answer.text()


def succeeded(text: str) -> dict[str, float]:
    found = re.findall(r'farmiq_job_runs_total\{job_name="([^"]+)",outcome="succeeded"\} ([0-9.]+)', text)
    return {job: float(runs) for job, runs in found}


async def test_two_replicas_run_each_job_once_between_them(edge_pool: Pool, edge_url: str) -> None:
    environ = {"DATABASE_URL": edge_url, "ADMIN_TOKEN": "admin"}
    service = "edge-telemetry-timeseries"
    async with (
        running(serve, service, environ | {"INSTANCE_ID": "one"}) as first,
        running(serve, service, environ | {"INSTANCE_ID": "two"}) as second,
    ):

        async def all_are_shown() -> bool:
            text = await metrics(first) + await metrics(second)
            return all(f'farmiq_job_last_success_timestamp_seconds{{job_name="{job}"}}' in text for job in JOBS)

        await eventually(all_are_shown, seconds=60)
        runs = [succeeded(await metrics(url)) for url in (first, second)]
    assert {job: sum(of.get(job, 0) for of in runs) for job in JOBS} == dict.fromkeys(JOBS, 1)
    rows = await edge_pool.fetch("SELECT job_name, last_instance_id, last_error FROM job_runs")
    assert {row["job_name"] for row in rows} == JOBS
    assert {row["last_error"] for row in rows} == {None}
    assert {row["last_instance_id"] for row in rows} <= {"one", "two"}
