from collections.abc import Mapping
from functools import partial

from farmiq.edge.vision_inference.cleanup import delete_finished
from farmiq.edge.vision_inference.settings import InferenceRetentionSettings
from farmiq.kit.jobs import Job
from farmiq.kit.settings import load

HOUR_SECONDS = 3600.0


def jobs(environ: Mapping[str, str]) -> list[Job]:
    settings = load(InferenceRetentionSettings, environ)
    return [
        Job(
            "inference-retention",
            HOUR_SECONDS,
            "delete finished inference jobs past INFERENCE_JOB_RETENTION_DAYS and results past INFERENCE_RESULT_RETENTION_DAYS",
            partial(delete_finished, settings),
        )
    ]
