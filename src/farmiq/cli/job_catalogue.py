"""Which jobs there are, and whose: every service with a module `jobs` beside its `main` has some."""

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass

from farmiq.cli.errors import BadUsage
from farmiq.contracts.services import SERVICES, Service
from farmiq.kit.jobs import Job


@dataclass(frozen=True)
class OwnedJob:
    job: Job
    service: Service


def all_jobs(environ: Mapping[str, str]) -> list[OwnedJob]:
    return [OwnedJob(job, service) for service in SERVICES for job in _jobs_of(service, environ)]


def job_named(name: str, environ: Mapping[str, str]) -> OwnedJob:
    known = {owned.job.name: owned for owned in all_jobs(environ)}
    if name not in known:
        raise BadUsage(
            f"there is no job {name[:80]!r}", why=f"There are {', '.join(known)}.", fix="farmiq jobs ls shows them"
        )
    return known[name]


def _jobs_of(service: Service, environ: Mapping[str, str]) -> list[Job]:
    module = service.module.removesuffix("main") + "jobs"
    if importlib.util.find_spec(module) is None:
        return []
    jobs: list[Job] = importlib.import_module(module).jobs(environ)
    return jobs
