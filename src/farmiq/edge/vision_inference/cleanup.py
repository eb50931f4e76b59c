"""What the jobs of this service do."""

from datetime import timedelta

from farmiq.edge.alerts import close_alert
from farmiq.edge.ingress_gateway import devices
from farmiq.edge.vision_inference import store
from farmiq.edge.vision_inference.handlers import FAILED_ALERT
from farmiq.edge.vision_inference.settings import InferenceRetentionSettings
from farmiq.kit.jobs import Report, Work
from farmiq.kit.sweep import sweep


async def delete_finished(settings: InferenceRetentionSettings, work: Work) -> Report:
    """Jobs that ended long ago, and results that are too old to keep. What the cloud is to know of them is in the outbox."""
    jobs_before = work.cutoff(timedelta(days=settings.inference_job_retention_days))
    results_before = work.cutoff(timedelta(days=settings.inference_result_retention_days))
    report: Report = {
        "jobs": await sweep(work, "inference_jobs", "finished_at", jobs_before),
        "results": await sweep(work, "inference_results", "created_at", results_before),
    }
    if not work.is_dry_run:
        await _close_alerts(work)
    return report


async def _close_alerts(work: Work) -> None:
    """Nothing that was given up is left: it was looked at again, or is too old to matter."""
    for tenant_id in sorted({device.tenant_id for device in await devices.everyone(work.connection)}):
        if not await store.has_failed(work.connection, tenant_id):
            await close_alert(work.connection, FAILED_ALERT, tenant_id)
