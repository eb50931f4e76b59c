"""A station at a real database: what it says goes through the gateway's transaction, what it uploads is signed and stored."""

from datetime import datetime, timedelta

from farmiq.edge.ingress_gateway.handlers import ingest
from farmiq.edge.weighvision_session import intake
from farmiq.edge.weighvision_session.events import InferenceResult, SessionEvent
from farmiq.edge.weighvision_session.handlers import Looked, look
from farmiq.edge.weighvision_session.watch import Patience
from farmiq.kit.postgres import Pool
from support.weighing import HEARD_AT, Weighing, message_of, presign, store_picture

PATIENCE = Patience(incomplete=timedelta(minutes=10), settle=timedelta(seconds=15), unbound=timedelta(hours=72))


class Edge:
    """The edge at a time that the test sets."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.now: datetime = HEARD_AT

    def wait(self, minutes: float) -> None:
        self.now += timedelta(minutes=minutes)

    async def hear(self, *events: SessionEvent) -> list[str]:
        """Answers why any of them were refused."""
        outcomes = await ingest(self.pool, [message_of(event) for event in events], self.now)
        return [refusal.code for outcome in outcomes for refusal in outcome.refusals]

    async def upload(self, weighing: Weighing, *numbers: int) -> None:
        for number in numbers:
            await presign(self.pool, weighing.origin, weighing.media_id(number), weighing.id)
            await store_picture(self.pool, weighing.stored(number, self.now))

    async def infer(self, result: InferenceResult) -> None:
        async with self.pool.acquire() as connection, connection.transaction():
            await intake.inference_completed(connection, result, self.now)

    async def look(self) -> Looked:
        """Until there is nothing to be done at this time."""
        looked = Looked()
        while (one := await look(self.pool, self.now, PATIENCE)).sessions:
            looked = Looked(
                looked.sessions + one.sessions,
                looked.told + one.told,
                looked.incomplete + one.incomplete,
                looked.healed + one.healed,
            )
        return looked
