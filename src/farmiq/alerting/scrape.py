"""What a service shows on `/metrics`: as much of it as the rules ask for, bounded in time and size."""

import asyncio
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Final

import aiohttp
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.parser import text_string_to_metric_families

from farmiq.alerting.history import Sample
from farmiq.kit.errors import Transient
from farmiq.kit.http_client import call

SCRAPE_SECONDS: Final = 5.0
ANSWER_BYTES_MAX: Final = 4 << 20
SERIES_MAX: Final = 2000
"""Of one target. A service of ours shows a few dozen that the rules ask for."""


class NotScraped(Transient):
    """The service can't be asked for its metrics, or its answer is no metrics."""

    code = "not_scraped"


async def scrape(session: aiohttp.ClientSession, job: str, url: str, metrics: Collection[str]) -> list[Sample]:
    try:
        async with asyncio.timeout(SCRAPE_SECONDS):
            answer = await call(session, "GET", f"{url}/metrics", answer_bytes_max=ANSWER_BYTES_MAX)
    except TimeoutError as error:
        raise NotScraped(f"{job}: no answer within {SCRAPE_SECONDS:g} s") from error
    except Transient as error:
        raise NotScraped(f"{job}: {error}") from error
    if answer.status != 200:
        raise NotScraped(f"{job}: answered {answer.status}")
    return await asyncio.to_thread(parse, job, answer.body, metrics)


def parse(job: str, body: bytes, metrics: Collection[str]) -> list[Sample]:
    try:
        families = text_string_to_metric_families(body.decode())
        return list(islice(_wanted(families, job, metrics), SERIES_MAX))
    except (ValueError, IndexError, KeyError) as error:  # the parser is not strict about which
        raise NotScraped(f"{job}: its answer is no metrics ({error})") from error


def own_samples(job: str, registry: CollectorRegistry, metrics: Collection[str]) -> list[Sample]:
    """Of this process itself, which nobody has to be asked for."""
    return list(_wanted(registry.collect(), job, metrics))


def _wanted(families: Iterable[Metric], job: str, metrics: Collection[str]) -> Iterator[Sample]:
    for family in families:
        for sample in family.samples:
            if sample.name in metrics:
                yield Sample(sample.name, _labelled(sample.labels, job), float(sample.value))


def _labelled(labels: dict[str, str], job: str) -> tuple[tuple[str, str], ...]:
    """As Prometheus does it: where it came from is a label of every series, and comes first."""
    own = {f"exported_{name}" if name == "job" else name: value for name, value in labels.items()}
    return tuple(sorted((own | {"job": job}).items()))
