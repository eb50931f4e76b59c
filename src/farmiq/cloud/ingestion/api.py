import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from litestar import Request, get, post
from litestar.exceptions import InternalServerException
from litestar.exceptions.http_exceptions import RequestEntityTooLarge

from farmiq.cloud.drain import Drained
from farmiq.cloud.drain import refuse as refuse_drained
from farmiq.cloud.ingestion import edges
from farmiq.cloud.ingestion.body import decoder_for, read_body
from farmiq.cloud.ingestion.counters import Counters, Stats
from farmiq.cloud.ingestion.epochs import load_epoch
from farmiq.cloud.ingestion.expansion import Expansion
from farmiq.cloud.ingestion.handlers import Asked, ingest
from farmiq.cloud.ingestion.ownership import Owners
from farmiq.cloud.ingestion.pace import Pace
from farmiq.cloud.ingestion.screening import refuse_strangers, screen
from farmiq.cloud.ingestion.settings import IngestionSettings
from farmiq.contracts.decoding import MalformedMessage
from farmiq.contracts.sync import (
    UNDERSTANDS_HELD,
    CloudEpoch,
    EdgeBatch,
    EdgeBatchAnswer,
    answer_of,
    decode_edge_batch,
)
from farmiq.kit.amqp import Publisher
from farmiq.kit.bad_request import plain
from farmiq.kit.clock import Clock
from farmiq.kit.errors import Transient, reason_of
from farmiq.kit.http_server import ApiError, require_bearer
from farmiq.kit.ids import new_trace_id
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY, DatabaseAway, Pool

AnyRequest = Request[Any, Any, Any]

RETRY_AFTER_SECONDS = 5
DRAINED_RETRY_AFTER_SECONDS = 30

log = get_logger(__name__)


def routes(
    pool: Pool, publisher: Publisher, settings: IngestionSettings, counters: Counters, clock: Clock
) -> list[Any]:
    under_way = asyncio.Semaphore(settings.ingestion_requests_max)
    owners = Owners()
    pace = Pace(settings.ingestion_edge_batches_per_second, clock)

    @post("/api/v1/edge/batch", tags=["edge"], status_code=200)
    async def edge_batch(request: AnyRequest) -> EdgeBatchAnswer:
        """Take a batch of events from an edge.

        The body is `{"batch_id", "edge_cluster_id", "tenant_id", "events": [...]}` or a bare array of events; plain, gzip, zstd.
        Every event has its own result. An event of a device or weigh session of another edge is `held` for an edge that names
        `held` in `understands`, and `rejected` for any other. 400, 401, 403, 413 and 415 are about the request; 408, 429 and 503
        mean: the same again later.
        """
        try:
            edge = await _authenticate(pool, request)
        except Drained as error:
            raise _deferred(counters, error) from error
        _refuse_haste(pace, edge)
        async with _room(under_way):
            batch = await _read(request, settings.ingestion_body_seconds_max)
            refuse_strangers(edge, batch)
            expansion = Expansion(publisher) if settings.expand_telemetry_batches else None
            try:
                items = screen(edge, batch.events, new_trace_id)
                results, epoch = await ingest(pool, publisher, owners, items, _asked(edge, batch), expansion)
                epoch = epoch or await _epoch(pool)
            except Transient as error:
                raise _deferred(counters, error) from error
        counters.answered(edge.edge_cluster_id, batch.batch_id, results)
        return answer_of(batch.batch_id, results, epoch)

    @get("/api/v1/ingestion/stats", tags=["edge"], guards=[require_bearer(settings.admin_token)], sync_to_thread=False)
    def stats() -> Stats:
        """What this replica has answered since it started."""
        return counters.stats

    return [edge_batch, stats]


async def _authenticate(pool: Pool, request: AnyRequest) -> edges.Edge:
    """Before the body is read: a stranger costs one look-up and no memory, and a drained cloud its edges no uplink.

    Raises `Drained`."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    try:
        async with pool.acquire(timeout=5.0) as connection:
            edge = await edges.find(connection, token if scheme.lower() == "bearer" else "")
            await refuse_drained(connection)
            return edge
    except edges.TokenRefused as error:
        # Under a name that is not masked: the id is no secret, and an operator finds the row with it.
        log.warning("edge_refused", code=error.code, credential_id=edges.id_of(token))
        raise ApiError(401, error.code, str(error)) from error
    except RETRY as error:
        raise DatabaseAway(f"PostgreSQL: {reason_of(error)}") from error


def _deferred(counters: Counters, error: Transient) -> ApiError:
    """The batch comes again, and that costs its events no attempt."""
    counters.batches_deferred.labels(error.code).inc()
    seconds = DRAINED_RETRY_AFTER_SECONDS if isinstance(error, Drained) else RETRY_AFTER_SECONDS
    return ApiError(503, error.code, str(error), retry_after_seconds=seconds)


def _asked(edge: edges.Edge, batch: EdgeBatch) -> Asked:
    return Asked(
        subject=None if batch.tenant_id is None else (batch.tenant_id, edge.edge_cluster_id),
        heard=batch.heard,
        understands_held=UNDERSTANDS_HELD in batch.understands,
    )


async def _epoch(pool: Pool) -> CloudEpoch:
    """Asked after the commit: what a backup takes back again is then known to be taken back."""
    try:
        return await load_epoch(pool)
    except RETRY as error:
        raise DatabaseAway(f"PostgreSQL: {reason_of(error)}") from error


def _refuse_haste(pace: Pace, edge: edges.Edge) -> None:
    if wait_seconds := pace.wait_seconds(edge.edge_cluster_id):
        raise ApiError(429, "too_fast", "This edge sends batches too fast", retry_after_seconds=wait_seconds)


async def _read(request: AnyRequest, seconds_max: int) -> EdgeBatch:
    decoder = decoder_for(request.headers.get("content-encoding", ""))
    try:
        async with asyncio.timeout(seconds_max):
            body = await read_body(request.stream(), decoder)
        return decode_edge_batch(body)
    except TimeoutError as error:
        raise ApiError(408, "too_slow", f"The body did not arrive within {seconds_max} s") from error
    except RequestEntityTooLarge as error:
        raise ApiError(413, "too_large", "The body has more bytes than INGESTION_BODY_BYTES_MAX allows") from error
    except InternalServerException as error:
        # Nobody hears this answer. It keeps a cut uplink, which is no fault of ours, out of the errors.
        raise ApiError(400, "cut_short", "The connection ended before the body did") from error
    except MalformedMessage as error:
        words = plain(error.detail) if error.code == "schema" else error.detail
        raise ApiError(413 if error.code == "too_large" else 400, error.code, words) from error


@asynccontextmanager
async def _room(under_way: asyncio.Semaphore) -> AsyncIterator[None]:
    if under_way.locked():
        raise ApiError(429, "busy", "Too many batches at once", retry_after_seconds=1)
    async with under_way:
        yield
