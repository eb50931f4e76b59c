"""Months of raw samples, written as the gateway writes them, and what became of their events."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from uuid import UUID, uuid4

from farmiq.contracts.telemetry import TelemetryBatch
from farmiq.contracts.timestamps import to_us
from farmiq.edge.telemetry_timeseries import intake
from farmiq.kit.clock import Clock
from farmiq.kit.jobs import Job, Report
from farmiq.kit.jobs import run_now as run_job
from farmiq.kit.month_partitions import month_after
from farmiq.kit.postgres import Pool
from farmiq.timeseries.samples import StreamBatch
from support.telemetry import CHANNELS, HERE


class StoppedClock(Clock):
    def __init__(self, now: datetime) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now


def start_of(month: date) -> datetime:
    return datetime.combine(month, time(), UTC)


def months_ago(months: int) -> date:
    """The first day of that month, counted from this one."""
    return month_after(datetime.now(UTC).date(), -months)


def partition_of(month: date) -> str:
    return month.strftime("telemetry_raw_%Y_%m")


async def store_samples(pool: Pool, times: Sequence[datetime], received_at: datetime | None = None) -> UUID:
    """One batch of a new stream, with its pack in the outbox."""
    stream = uuid4()
    batch = TelemetryBatch(
        stream_id=stream,
        boot_id=uuid4(),
        lane="replay",
        seq0=1,
        time_quality=2,
        channels=CHANNELS,
        t=[to_us(at) for at in times],
        c=[0] * len(times),
        v=[float(number) for number in range(len(times))],
    )
    async with pool.acquire() as connection, connection.transaction():
        await intake.store_batches(
            connection, [(StreamBatch(HERE, batch), "trace-1")], received_at or datetime.now(UTC)
        )
    return stream


async def store_month(pool: Pool, month: date) -> UUID:
    middle = start_of(month) + timedelta(days=10)
    return await store_samples(pool, [middle + timedelta(seconds=second) for second in range(5)])


_FROM = {"claimed": ["pending"], "sending": ["claimed"], "acked": ["claimed", "sending"], "dlq": ["claimed", "sending"]}


async def settle_outbox(pool: Pool, *statuses: str) -> None:
    """Take every event that can go there through these statuses, as a forwarder would."""
    for status in statuses:
        await pool.execute(
            "UPDATE sync_outbox SET status = $1::text, failed_at = CASE WHEN $1::text = 'dlq' THEN now() END"
            " WHERE status = ANY ($2::text[])",
            status,
            _FROM[status],
        )


async def acknowledge(pool: Pool) -> None:
    await settle_outbox(pool, "claimed", "acked")


async def partitions_there(pool: Pool) -> set[str]:
    rows = await pool.fetch(
        "SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'telemetry_raw'::regclass"
    )
    return {row["name"] for row in rows}


async def run_now(pool: Pool, job: Job, *, clock: Clock | None = None, is_dry_run: bool = False) -> Report:
    async with pool.acquire() as connection:
        return await run_job(connection, job, clock=clock or Clock(), instance_id="test", is_dry_run=is_dry_run)
