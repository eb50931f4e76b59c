"""What happens to a job, step by step. Each step is one transaction; whoever dies between two leaves a row that says so."""

from datetime import datetime
from typing import Final
from uuid import UUID

from farmiq import outbox
from farmiq.contracts import event_types
from farmiq.contracts.inference import InferenceCompleted
from farmiq.edge.alerts import about_picture, raise_alert
from farmiq.edge.media_store import store as media
from farmiq.edge.own_events import append_own, naming
from farmiq.edge.vision_inference import store
from farmiq.edge.vision_inference.at_work import AtWork
from farmiq.edge.vision_inference.job import Job, event_id_of, result_id_of
from farmiq.edge.vision_inference.seen import Seen
from farmiq.edge.vision_inference.store import Result
from farmiq.edge.vision_inference.verdicts import ABANDONED, Again, GivenUp, Trouble, after_lease
from farmiq.edge.weighvision_session import intake as sessions
from farmiq.edge.weighvision_session.events import InferenceResult
from farmiq.kit.ids import Naming
from farmiq.kit.postgres import Connection, Pool

# As a picture's own event: it is small, and the session's end waits for it.
PRIORITY: Final = 10
FAILED_ALERT: Final = "inference-failed"
"""One for a tenant. `cleanup` closes it."""
RESCUED_AT_ONCE: Final = 100


async def complete(pool: Pool, job: Job, seen: Seen, by: AtWork, at: datetime) -> bool:
    """The result, its event, the word to the session and the end of the job, in one commit. False: the job is no longer ours."""
    async with pool.acquire() as connection, connection.transaction():
        result_id = result_id_of(job.media_id, by.version)
        if not await store.finish(connection, job, by.version, result_id):
            return False
        result = _result(job, await _session_now(connection, job), seen, by.version, at)
        if await store.add_result(connection, result):
            await append_own(connection, [completed(result, job.media_id, await naming(connection))])
            await sessions.inference_completed(connection, _told(job, result, by.generation), at)
        return True


async def finish_known(pool: Pool, job: Job, by: AtWork) -> bool:
    """True when this model has spoken of the picture before: there is nothing to look at, and the job is done."""
    result_id = result_id_of(job.media_id, by.version)
    async with pool.acquire() as connection:
        if not await store.has_result(connection, result_id):
            return False
        await store.finish(connection, job, by.version, result_id)
        return True


async def settle_failure(pool: Pool, job: Job, trouble: Trouble, verdict: Again | GivenUp) -> bool:
    async with pool.acquire() as connection, connection.transaction():
        return await _settle_failure(connection, job, trouble, verdict)


async def rescue(pool: Pool, attempts_max: int) -> list[tuple[Job, Again | GivenUp]]:
    """Jobs whose lease is over: whoever had them died, or lost the database for too long."""
    async with pool.acquire() as connection, connection.transaction():
        expired = await store.lock_expired(connection, RESCUED_AT_ONCE)
        rescued = [(job, after_lease(job.attempt_count, attempts_max)) for job in expired]
        for job, verdict in rescued:
            trouble = Trouble(ABANDONED, f"{job.claimed_by} had it and did not finish")
            await _settle_failure(connection, job, trouble, verdict)
        return rescued


def completed(result: Result, media_id: UUID, names: Naming) -> outbox.Event:
    assert result.predicted_weight_kg is not None  # noqa: S101 - a model that says nothing makes no result
    assert result.confidence is not None  # noqa: S101 - as above
    payload = InferenceCompleted(
        inference_result_id=result.id,
        predicted_weight_kg=result.predicted_weight_kg,
        confidence=result.confidence,
        model_version=result.model_version,
        media_id=result.media_id,
        predicted_size=result.predicted_size,
    )
    return outbox.Event(
        id=event_id_of(result.id, result.tenant_id, media_id, names),
        tenant_id=result.tenant_id,
        farm_id=result.farm_id,
        barn_id=result.barn_id,
        device_id=result.device_id,
        session_id=result.session_id,
        event_type=event_types.INFERENCE_COMPLETED,
        occurred_at=result.occurred_at,
        trace_id=result.trace_id,
        payload=payload,
        priority=PRIORITY,
    )


async def _settle_failure(connection: Connection, job: Job, trouble: Trouble, verdict: Again | GivenUp) -> bool:
    if isinstance(verdict, Again):
        return await store.put_off(connection, job, trouble, verdict.seconds, is_free=verdict.is_free)
    if not await store.give_up(connection, job, trouble):
        return False
    subject = f"A picture of {job.device_id} got no weight: {trouble.code}"
    evidence = about_picture(
        job.media_id, job.device_id, job.session_id, job_id=str(job.id), detail=trouble.message[:300]
    )
    await raise_alert(connection, "inference_failed", subject, FAILED_ALERT, evidence, job.tenant_id)
    return True


async def _session_now(connection: Connection, job: Job) -> UUID | None:
    """A picture may have found its session since it was stored."""
    picture = await media.of_tenant(connection, job.media_id, job.tenant_id)
    return job.session_id if picture is None else picture.session_id


def _result(job: Job, session_id: UUID | None, seen: Seen, version: str, at: datetime) -> Result:
    return Result(
        id=result_id_of(job.media_id, version),
        tenant_id=job.tenant_id,
        farm_id=job.farm_id,
        barn_id=job.barn_id,
        device_id=job.device_id,
        session_id=session_id,
        media_id=job.media_id,
        predicted_weight_kg=seen.weight_kg,
        predicted_size=seen.size,
        confidence=seen.confidence,
        model_version=version,
        occurred_at=at,
        trace_id=job.trace_id,
    )


def _told(job: Job, result: Result, generation: int) -> InferenceResult:
    assert result.predicted_weight_kg is not None  # noqa: S101 - a model that says nothing makes no result
    assert result.confidence is not None  # noqa: S101 - as above
    return InferenceResult(
        id=result.id,
        origin=job.origin,
        occurred_at=result.occurred_at,
        predicted_weight_kg=result.predicted_weight_kg,
        confidence=result.confidence,
        model_version=result.model_version,
        model_generation=generation,
        media_id=result.media_id,
        session_id=result.session_id,
        trace_id=result.trace_id,
    )
