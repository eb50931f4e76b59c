from collections.abc import Mapping
from functools import partial

from farmiq.edge.ingress_gateway.cleanup import forget_messages, forget_rejected
from farmiq.edge.ingress_gateway.settings import CleanupSettings
from farmiq.kit.jobs import Job
from farmiq.kit.settings import load

MINUTE_SECONDS = 60.0


def jobs(environ: Mapping[str, str]) -> list[Job]:
    settings = load(CleanupSettings, environ)
    return [
        Job(
            "ingress-dedupe-cleanup",
            15 * MINUTE_SECONDS,
            "delete ingress_dedupe rows past INGRESS_DEDUPE_TTL_HOURS",
            partial(forget_messages, settings),
        ),
        Job(
            "ingress-rejected-cleanup",
            5 * MINUTE_SECONDS,
            "keep ingress_rejected within INGRESS_REJECTED_TTL_HOURS and INGRESS_REJECTED_ROWS_MAX",
            partial(forget_rejected, settings),
        ),
    ]
