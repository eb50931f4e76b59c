import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from farmiq.edge.vision_inference.job import Job
from farmiq.edge.vision_inference.verdicts import Again, GivenUp, Trouble
from farmiq.kit.logging import get_logger

log = get_logger(__name__)

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Counters:
    """What this replica has done since it started, the model that it works with, and how many pictures wait."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._completed = Counter(
            "farmiq_inference_completed", "Pictures that got a weight.", ["model_version"], registry=registry
        )
        self._failed = Counter(
            "farmiq_inference_failed", "Pictures given up, by reason.", ["reason"], registry=registry
        )
        self._put_off = Counter(
            "farmiq_inference_put_off", "Looks to be tried again, by reason.", ["reason"], registry=registry
        )
        self._seconds = Histogram(
            "farmiq_inference_seconds", "Reading a picture and looking at it.", registry=registry, buckets=_SECONDS
        )
        self._jobs = Gauge("farmiq_inference_jobs", "Jobs that are not done, by state.", ["state"], registry=registry)
        self._generation = Gauge(
            "farmiq_inference_model_generation", "Of the model at work; 0: there is none.", registry=registry
        )
        self._usable = Gauge(
            "farmiq_inference_model_usable", "0 while the model that should be at work is not.", registry=registry
        )

    @contextmanager
    def looked(self) -> Iterator[None]:
        began = time.monotonic()
        yield
        self._seconds.observe(time.monotonic() - began)

    def completed(self, model_version: str) -> None:
        self._completed.labels(model_version).inc()

    def failed(self, job: Job, trouble: Trouble, verdict: Again | GivenUp) -> None:
        facts = {
            "job_id": str(job.id),
            "media_id": str(job.media_id),
            "reason": trouble.code,
            "detail": trouble.message,
        }
        if isinstance(verdict, GivenUp):
            self._failed.labels(trouble.code).inc()
            log.error("picture_given_up", **facts)
        else:
            self._put_off.labels(trouble.code).inc()
            log.warning("picture_put_off", attempt=job.attempt_count, seconds=verdict.seconds, **facts)

    def sampled(self, jobs: Mapping[str, int]) -> None:
        for state, count in jobs.items():
            self._jobs.labels(state).set(count)

    def model(self, generation: int, *, is_usable: bool) -> None:
        self._generation.set(generation)
        self._usable.set(is_usable)
