"""Every SQL statement about jobs and results. Leases and pauses are in the database's time: replicas agree about it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

from farmiq.contracts.timestamps import LATEST
from farmiq.edge.media_store.picture import Picture
from farmiq.edge.vision_inference.job import AGAIN, LIVE, Job, Lane, State, job_id_of, job_of
from farmiq.edge.vision_inference.verdicts import Trouble
from farmiq.kit.day_digests import RESULT_CONTENT, Digested
from farmiq.kit.due_times import first_due, is_due
from farmiq.kit.postgres import Connection

COUNTED_MAX: Final = 50_000
"""Above that, a number on a dashboard is told as this one."""
MESSAGE_LENGTH_MAX: Final = 1000
LAST_ID: Final = UUID(int=2**128 - 1)

_COLUMNS: Final = ", ".join(Job.__struct_fields__)

_ADD: Final = """
INSERT INTO inference_jobs (id, tenant_id, farm_id, barn_id, device_id, session_id, media_id, bucket, object_key, sha256,
                            trace_id, model_version, lane)
SELECT *, $12, $13 FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::uuid[], $7::uuid[], $8::text[],
                               $9::text[], $10::text[], $11::text[])
"""
_ONCE: Final = _ADD + "ON CONFLICT DO NOTHING"
# Whoever is just looking at it loses the right to say so: what is asked for now is looked at from now on.
_AGAIN: Final = (
    _ADD
    + """
ON CONFLICT (id, tenant_id) DO UPDATE SET
  state = 'pending', lane = CASE WHEN inference_jobs.state = 'pending' THEN inference_jobs.lane ELSE excluded.lane END,
  model_version = excluded.model_version, session_id = excluded.session_id, attempt_count = 0, next_attempt_at = now(),
  claim_token = inference_jobs.claim_token + 1, claimed_by = NULL, lease_expires_at = NULL, last_error_code = NULL,
  last_error_message = NULL, result_id = NULL, finished_at = NULL, requested_at = now()
"""
)
# As in the outbox: the inner query walks the partial index in its own order and stops at the batch.
_CLAIM: Final = f"""
UPDATE inference_jobs SET
  state = 'running', claimed_by = $1, claim_token = claim_token + 1, attempt_count = attempt_count + 1,
  lease_expires_at = clock_timestamp() + make_interval(secs => $2)
WHERE ctid = ANY (
  {first_due("inference_jobs", "state = 'pending' AND lane = $3", "next_attempt_at", then="id", limit="$4")})
RETURNING {_COLUMNS}
"""  # noqa: S608 - our own constants
_RENEW: Final = """
UPDATE inference_jobs SET lease_expires_at = clock_timestamp() + make_interval(secs => $3)
FROM unnest($1::uuid[], $2::bigint[]) AS held (id, token)
WHERE inference_jobs.id = held.id AND claim_token = held.token AND state = 'running'
"""
_EXPIRED: Final = f"""
SELECT {_COLUMNS} FROM inference_jobs
WHERE state = 'running' AND {is_due("coalesce(lease_expires_at, '-infinity')")}
LIMIT $1 FOR UPDATE SKIP LOCKED
"""  # noqa: S608 - our own constants
_OURS: Final = "WHERE id = $1 AND claim_token = $2 AND state = 'running'"
_FINISH: Final = f"""
UPDATE inference_jobs SET
  state = 'done', model_version = $3, result_id = $4, finished_at = clock_timestamp(), lease_expires_at = NULL,
  last_error_code = NULL, last_error_message = NULL
{_OURS}
"""  # noqa: S608 - our own constants
_PUT_OFF: Final = f"""
UPDATE inference_jobs SET
  state = 'pending', attempt_count = attempt_count - $3, next_attempt_at = clock_timestamp() + make_interval(secs => $4),
  claimed_by = NULL, lease_expires_at = NULL, last_error_code = $5, last_error_message = $6
{_OURS}
"""  # noqa: S608 - our own constants
_GIVE_UP: Final = f"""
UPDATE inference_jobs SET
  state = 'failed', finished_at = clock_timestamp(), lease_expires_at = NULL, last_error_code = $3, last_error_message = $4
{_OURS}
"""  # noqa: S608 - our own constants
_ADD_RESULT: Final = """
INSERT INTO inference_results (id, tenant_id, farm_id, barn_id, device_id, session_id, media_id, predicted_weight_kg,
                               predicted_size, confidence, model_version, occurred_at, trace_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
ON CONFLICT DO NOTHING
RETURNING id
"""
_HAS_RESULT: Final = "SELECT EXISTS (SELECT FROM inference_results WHERE id = $1)"
_ONE_JOB: Final = f"SELECT {_COLUMNS} FROM inference_jobs WHERE id = $1 AND tenant_id = $2"  # noqa: S608 - our own constants
_NAMED_JOBS: Final = f"SELECT {_COLUMNS} FROM inference_jobs WHERE id = ANY ($1) AND tenant_id = $2"  # noqa: S608 - as above
_COUNTS: Final = """
SELECT 'pending' AS state, count(*) AS jobs FROM (SELECT FROM inference_jobs WHERE state = 'pending' LIMIT $1) AS pending
UNION ALL SELECT 'running', count(*) FROM (SELECT FROM inference_jobs WHERE state = 'running' LIMIT $1) AS running
UNION ALL SELECT 'failed', count(*) FROM (SELECT FROM inference_jobs WHERE state = 'failed' LIMIT $1) AS failed
"""
_HAS_FAILED: Final = "SELECT EXISTS (SELECT FROM inference_jobs WHERE tenant_id = $1 AND state = 'failed')"

RESULTS: Final = Digested("inference_results", at="occurred_at", state="model_version", content=RESULT_CONTENT)


class Result(Struct, frozen=True, kw_only=True):
    """What a model said, in the documented columns."""

    id: UUID
    tenant_id: str
    farm_id: str
    barn_id: str
    device_id: str
    session_id: UUID | None
    media_id: UUID | None
    predicted_weight_kg: float | None
    predicted_size: str | None
    confidence: float | None
    model_version: str
    occurred_at: datetime
    trace_id: str | None


async def add(connection: Connection, picture: Picture) -> None:
    await connection.execute(_ONCE, *_columns([picture]), None, LIVE)


async def ask_again(connection: Connection, pictures: Sequence[Picture], model_version: str | None) -> list[UUID]:
    """In the order of their ids, so that two who ask for the same pictures do not wait for each other."""
    ordered = sorted(pictures, key=lambda picture: picture.media_id)
    await connection.execute(_AGAIN, *_columns(ordered), model_version, AGAIN)
    return [job_id_of(picture.media_id) for picture in ordered]


async def claim(connection: Connection, lane: Lane, *, instance_id: str, lease_seconds: float, limit: int) -> list[Job]:
    """The next ones that are due. Rows that another replica is claiming are passed over."""
    return [job_of(row) for row in await connection.fetch(_CLAIM, instance_id, lease_seconds, lane, limit)]


async def renew(connection: Connection, jobs: Sequence[Job], *, lease_seconds: float) -> None:
    await connection.execute(_RENEW, [job.id for job in jobs], [job.claim_token for job in jobs], lease_seconds)


async def lock_expired(connection: Connection, limit: int) -> list[Job]:
    return [job_of(row) for row in await connection.fetch(_EXPIRED, limit)]


async def finish(connection: Connection, job: Job, model_version: str, result_id: UUID) -> bool:
    """False, here and below, when the job is no longer ours: it stays as it is."""
    return _is_one(await connection.execute(_FINISH, job.id, job.claim_token, model_version, result_id))


async def put_off(connection: Connection, job: Job, trouble: Trouble, seconds: float, *, is_free: bool) -> bool:
    """`is_free`: it costs no attempt, because it says nothing about the picture."""
    given_back, message = int(is_free), trouble.message[:MESSAGE_LENGTH_MAX]
    tag = await connection.execute(_PUT_OFF, job.id, job.claim_token, given_back, seconds, trouble.code, message)
    return _is_one(tag)


async def give_up(connection: Connection, job: Job, trouble: Trouble) -> bool:
    message = trouble.message[:MESSAGE_LENGTH_MAX]
    return _is_one(await connection.execute(_GIVE_UP, job.id, job.claim_token, trouble.code, message))


async def add_result(connection: Connection, result: Result) -> bool:
    """Whether it is new."""
    values = (getattr(result, name) for name in Result.__struct_fields__)
    return await connection.fetchval(_ADD_RESULT, *values) is not None


async def has_result(connection: Connection, result_id: UUID) -> bool:
    return bool(await connection.fetchval(_HAS_RESULT, result_id))


async def one_job(connection: Connection, job_id: UUID, tenant_id: str) -> Job | None:
    row = await connection.fetchrow(_ONE_JOB, job_id, tenant_id)
    return None if row is None else job_of(row)


async def jobs_about(connection: Connection, tenant_id: str, media_ids: Sequence[UUID]) -> list[Job]:
    """In no order that means anything."""
    ids = [job_id_of(media_id) for media_id in media_ids]
    return [job_of(row) for row in await connection.fetch(_NAMED_JOBS, ids, tenant_id)]


async def jobs_page(
    connection: Connection, tenant_id: str, state: State | None, after: tuple[datetime, UUID] | None, limit: int
) -> list[Job]:
    """Newest request first."""
    at, after_id = after or (LATEST, LAST_ID)
    statement = f"""
        SELECT {_COLUMNS} FROM inference_jobs
         WHERE tenant_id = $1 AND (requested_at, id) < ($2, $3) {"" if state is None else "AND state = $5"}
         ORDER BY requested_at DESC, id DESC LIMIT $4
    """  # noqa: S608 - our own constants
    rows = await connection.fetch(statement, tenant_id, at, after_id, limit, *([] if state is None else [state]))
    return [job_of(row) for row in rows]


async def results_page(
    connection: Connection,
    tenant_id: str,
    filters: Mapping[str, object],
    times: tuple[datetime, datetime],
    after: tuple[datetime, UUID] | None,
    limit: int,
) -> list[Result]:
    """Newest first. `filters` are columns of ours with the value that each must have."""
    at, after_id = after or (LATEST, LAST_ID)
    columns = ", ".join(Result.__struct_fields__)
    wanted = " ".join(f"AND {name} = ${number}" for number, name in enumerate(filters, 7))
    statement = f"""
        SELECT {columns} FROM inference_results
         WHERE tenant_id = $1 AND occurred_at >= $2 AND occurred_at < $3 AND (occurred_at, id) < ($4, $5) {wanted}
         ORDER BY occurred_at DESC, id DESC LIMIT $6
    """  # noqa: S608 - names of columns come from the API's own parameters
    rows = await connection.fetch(statement, tenant_id, *times, at, after_id, limit, *filters.values())
    return [Result(**dict(row.items())) for row in rows]


async def counts(connection: Connection) -> dict[str, int]:
    """Of each state in which something is still to be done."""
    return {row["state"]: row["jobs"] for row in await connection.fetch(_COUNTS, COUNTED_MAX)}


async def has_failed(connection: Connection, tenant_id: str) -> bool:
    return bool(await connection.fetchval(_HAS_FAILED, tenant_id))


def _columns(pictures: Sequence[Picture]) -> list[list[object]]:
    rows = [
        (
            job_id_of(one.media_id), one.tenant_id, one.farm_id, one.barn_id, one.device_id, one.session_id, one.media_id,
            one.bucket, one.object_key, one.sha256, one.trace_id,
        )
        for one in pictures
    ]  # fmt: skip
    return [list(column) for column in zip(*rows, strict=True)]


def _is_one(tag: str) -> bool:
    return int(tag.rpartition(" ")[2]) == 1
