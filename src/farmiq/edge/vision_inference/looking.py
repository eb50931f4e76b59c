"""Looking at one picture: its bytes from the object store, their checksum, and what the model says of them."""

import hashlib
from dataclasses import dataclass
from typing import Final

from farmiq.edge.vision_inference.at_work import AtWork, Models
from farmiq.edge.vision_inference.counters import Counters
from farmiq.edge.vision_inference.handlers import complete, finish_known, settle_failure
from farmiq.edge.vision_inference.job import Job
from farmiq.edge.vision_inference.seen import Seen
from farmiq.edge.vision_inference.verdicts import BytesChanged, GivenUp, judge, trouble_of
from farmiq.kit.clock import Clock
from farmiq.kit.errors import FarmiqError
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY, DatabaseAway, Pool
from farmiq.kit.s3 import ObjectStore
from farmiq.outbox import Announcer

# Says nothing about a picture or a model, and nothing can be written down.
DATABASE_AWAY: Final[tuple[type[BaseException], ...]] = (DatabaseAway, *RETRY)

log = get_logger(__name__)


@dataclass(frozen=True)
class Looker:
    pool: Pool
    objects: ObjectStore
    models: Models
    announcer: Announcer
    counters: Counters
    clock: Clock
    bytes_max: int
    attempts_max: int

    async def attend(self, job: Job) -> bool:
        """Look, and have written down what came of it. False when the picture was put off for no fault of its own.

        Raises what says nothing about the picture and cannot be written down either: the database is away.
        """
        try:
            await self._attend(job)
        except DATABASE_AWAY:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this picture's, and must not cost others their turn
            return await self._failed(job, error)
        return True

    async def _attend(self, job: Job) -> None:
        by = await self.models.for_version(job.model_version)
        if await finish_known(self.pool, job, by):
            return
        with self.counters.looked():
            seen = await self._look(job, by)
        if await complete(self.pool, job, seen, by, self.clock.now()):
            self.counters.completed(by.version)
            self.announcer.announce()
            log.info(
                "picture_weighed",
                media_id=str(job.media_id),
                device_id=job.device_id,
                model_version=by.version,
                picture_trace_id=job.trace_id,
            )

    async def _look(self, job: Job, by: AtWork) -> Seen:
        data = await self.objects.get(job.bucket, job.object_key, bytes_max=self.bytes_max)
        if hashlib.sha256(data).hexdigest() != job.sha256:
            raise BytesChanged(f"{job.object_key} is not what was verified when it was stored")
        return await by.engine.look_at(data)

    async def _failed(self, job: Job, error: Exception) -> bool:
        if not isinstance(error, FarmiqError):
            log.error("job_failed", job_id=str(job.id), exc_info=error)
        trouble, verdict = trouble_of(error), judge(error, job.attempt_count, self.attempts_max)
        if await settle_failure(self.pool, job, trouble, verdict):
            self.counters.failed(job, trouble, verdict)
        return isinstance(verdict, GivenUp) or not verdict.is_free
