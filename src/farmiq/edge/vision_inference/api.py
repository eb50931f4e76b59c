"""What people and programs ask about pictures. Every question names its tenant."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, NamedTuple
from uuid import UUID

from litestar import get, post
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from msgspec import Meta, Struct

from farmiq.contracts.ids import Id
from farmiq.contracts.timestamps import EARLIEST, LATEST, Timestamp
from farmiq.edge.media_store import store as media
from farmiq.edge.media_store.picture import Picture
from farmiq.edge.vision_inference import store
from farmiq.edge.vision_inference.card import ModelVersion
from farmiq.edge.vision_inference.job import Job, State
from farmiq.edge.vision_inference.model_store import newest
from farmiq.edge.vision_inference.store import Result
from farmiq.kit.http_server import ApiError
from farmiq.kit.postgres import Connection, Pool
from farmiq.kit.tenant_reads import read_as
from farmiq.outbox.wakeup import Wakeup
from farmiq.timeseries.asking import asking
from farmiq.timeseries.paging import CURSOR_LENGTH_MAX, cursor
from farmiq.timeseries.parameters import After, AnyDevice, From, Tenant, To, position, refused, time_range
from farmiq.timeseries.record_routes import KeptSince, record_routes

ASKED_AT_ONCE_MAX = 1000

PageLimit = Annotated[int, QueryParameter(ge=1, le=1000)]
InState = Annotated[State | None, QueryParameter(name="state")]
About = Annotated[list[UUID] | None, QueryParameter(name="media_id", description="Only of these pictures")]
OfVersion = Annotated[str | None, QueryParameter(max_length=128, pattern=r"^[A-Za-z0-9._+-]+$")]


class AfterRow(NamedTuple):
    at: Timestamp
    id: UUID


class ResultPage(Struct, frozen=True):
    """`next` continues after the last result, given as `after`; it is null on the last page."""

    results: list[Result]
    next: str | None


class JobView(Struct, frozen=True, kw_only=True):
    """`failed`: given up, for the reason in `last_error_code`. `lane` 1 waits while there are pictures in lane 0."""

    id: UUID
    tenant_id: str
    device_id: str
    session_id: UUID | None
    media_id: UUID
    state: State
    lane: int
    model_version: str | None
    result_id: UUID | None
    attempt_count: int
    next_attempt_at: datetime
    last_error_code: str | None
    last_error_message: str | None
    requested_at: datetime
    finished_at: datetime | None
    trace_id: str | None


class JobPage(Struct, frozen=True):
    jobs: list[JobView]
    next: str | None


class JobRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Either `media_ids`, or pictures by the time of their capture: `since` (included), `until` (not included), `device_id`."""

    tenant_id: Id
    media_ids: Annotated[list[UUID], Meta(min_length=1, max_length=ASKED_AT_ONCE_MAX)] | None = None
    since: Timestamp | None = None
    until: Timestamp | None = None
    device_id: Id | None = None
    model_version: ModelVersion | None = None
    limit: Annotated[int, Meta(ge=1, le=ASKED_AT_ONCE_MAX)] = ASKED_AT_ONCE_MAX
    after: Annotated[str, Meta(max_length=CURSOR_LENGTH_MAX)] | None = None


class JobsAccepted(Struct, frozen=True):
    """`unknown` are no stored pictures of this tenant. `next`: there are more in that time, ask again with it as `after`."""

    job_ids: list[UUID]
    unknown: list[UUID]
    next: str | None


def inference_routes(pool: Pool, guards: list[Any], wakeup: Wakeup, kept_since: KeptSince) -> list[Any]:
    """`kept_since`: since when no result was too old to keep."""

    @get("/api/v1/inference/results", guards=guards, tags=["results"])
    async def results(
        tenant_id: Tenant,
        media_id: FromQuery[UUID | None] = None,
        session_id: FromQuery[UUID | None] = None,
        device_id: AnyDevice = None,
        model_version: OfVersion = None,
        since: From = None,
        until: To = None,
        after: After = None,
        limit: PageLimit = 100,
    ) -> ResultPage:
        """What models said, newest first; of one picture, one session, one device, one model version."""
        given = {
            "media_id": media_id,
            "session_id": session_id,
            "device_id": device_id,
            "model_version": model_version,
        }
        filters = {name: value for name, value in given.items() if value is not None}
        times = (EARLIEST, LATEST) if since is None and until is None else time_range(since, until)
        async with read_as(pool, tenant_id) as connection:
            found = await store.results_page(connection, tenant_id, filters, times, position(after, AfterRow), limit)
        return ResultPage(found, cursor(AfterRow(found[-1].occurred_at, found[-1].id)) if len(found) == limit else None)

    @get("/api/v1/inference/jobs", guards=guards, tags=["jobs"])
    async def jobs(
        tenant_id: Tenant, in_state: InState = None, after: After = None, limit: PageLimit = 100, about: About = None
    ) -> JobPage:
        """A tenant's jobs, newest request first. `state=failed` are those that were given up.

        With `media_id`, once or more: those of these pictures, all at once.
        """
        if about is not None:
            return await _jobs_about(pool, tenant_id, about, in_state, after)
        async with read_as(pool, tenant_id) as connection:
            found = await store.jobs_page(connection, tenant_id, in_state, position(after, AfterRow), limit)
        ended = cursor(AfterRow(found[-1].requested_at, found[-1].id)) if len(found) == limit else None
        return JobPage([view(job) for job in found], ended)

    @get("/api/v1/inference/jobs/{job_id:uuid}", guards=guards, tags=["jobs"])
    async def job(job_id: FromPath[UUID], tenant_id: Tenant) -> JobView:
        """One job."""
        async with read_as(pool, tenant_id) as connection:
            found = await store.one_job(connection, job_id, tenant_id)
        if found is None:
            raise ApiError(404, "unknown_job", f"This tenant has no job {job_id}, or no longer")
        return view(found)

    @post("/api/v1/inference/jobs", guards=guards, tags=["jobs"], status_code=202)
    async def look_again(data: JSONBody[JobRequest]) -> JobsAccepted:
        """Have stored pictures looked at by the model at work: for a new model, or because they were given up.

        With `model_version`, only by that one: 409 when another is at work. A picture of which the model has spoken before keeps
        that result. Asking again changes nothing.
        """
        async with asking(pool) as connection, connection.transaction():
            await _require_at_work(connection, data.model_version)
            pictures, ended = await _pictures(connection, data)
            job_ids = await store.ask_again(connection, pictures, data.model_version) if pictures else []
        wakeup.poke()
        known = {picture.media_id for picture in pictures}
        return JobsAccepted(job_ids, [one for one in data.media_ids or () if one not in known], ended)

    return [results, jobs, job, look_again, *record_routes(pool, guards, {"results": store.RESULTS}, kept_since)]


def view(job: Job) -> JobView:
    return JobView(**{name: getattr(job, name) for name in JobView.__struct_fields__})


async def _jobs_about(
    pool: Pool, tenant_id: str, media_ids: list[UUID], in_state: State | None, after: str | None
) -> JobPage:
    if in_state is not None or after is not None or len(media_ids) > ASKED_AT_ONCE_MAX:
        raise refused(f"Give at most {ASKED_AT_ONCE_MAX} times `media_id`, and neither `state` nor `after` with it")
    async with read_as(pool, tenant_id) as connection:
        found = await store.jobs_about(connection, tenant_id, media_ids)
    return JobPage([view(job) for job in found], None)


async def _require_at_work(connection: Connection, model_version: str | None) -> None:
    at_work = await newest(connection)
    if model_version is not None and (at_work is None or at_work.model_version != model_version):
        now = "no model" if at_work is None else at_work.model_version
        raise ApiError(409, "model_not_at_work", f"{now} is at work here. Activate {model_version} first")


async def _pictures(connection: Connection, asked: JobRequest) -> tuple[Sequence[Picture], str | None]:
    if asked.media_ids is not None:
        if asked.since or asked.until or asked.device_id or asked.after:
            raise refused("Give either `media_ids` or a time, not both")
        found = [await media.of_tenant(connection, one, asked.tenant_id) for one in dict.fromkeys(asked.media_ids)]
        return [picture for picture in found if picture is not None and picture.state == "stored"], None
    if asked.since is None or asked.until is None or asked.since >= asked.until:
        raise refused("Give `media_ids`, or `since` and a later `until`")
    return await _captured_between(connection, asked, asked.since, asked.until)


async def _captured_between(
    connection: Connection, asked: JobRequest, since: datetime, until: datetime
) -> tuple[Sequence[Picture], str | None]:
    """Newest first, as the owner of the pictures shows them."""
    filters = {"state": "stored"} | ({} if asked.device_id is None else {"device_id": asked.device_id})
    place = position(asked.after, AfterRow) or AfterRow(until, UUID(int=0))
    page = await media.page(connection, asked.tenant_id, filters, place, asked.limit)
    wanted = [picture for picture in page if picture.captured_at >= since]
    is_last = len(page) < asked.limit or len(wanted) < len(page)
    return wanted, None if is_last else cursor(AfterRow(page[-1].captured_at, page[-1].media_id))
