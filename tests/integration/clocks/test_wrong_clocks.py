"""Rows that were written while the edge's or the cloud's clock was wrong, and what is made of them when it is right again.

promise-device-edge 7. PostgreSQL's clock cannot be moved, so each case writes its row as it would have been written at that time,
and then the services' own statement runs. A farm without an uplink has no time server: nobody may be needed for this to pass.
`docs/internals/clocks.md` lists every column; a column that is not there, or one that decides something and has no case, fails.
"""

import random
import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID, uuid4

import pytest

from farmiq.cloud.analytics_service import marks
from farmiq.cloud.ingestion import device_moves
from farmiq.cloud.media_store import store as cloud_media
from farmiq.cloud.telemetry_service import unsent
from farmiq.contracts.sync import DEVICE_OF_ANOTHER_EDGE
from farmiq.contracts.timestamps import to_us
from farmiq.edge import alerts
from farmiq.edge.ingress_gateway import put_off, refusals
from farmiq.edge.media_store import store as edge_media
from farmiq.edge.sync_forwarder import store as sync_state
from farmiq.edge.sync_forwarder.pictures import store as transfers
from farmiq.edge.telemetry_timeseries import store as telemetry
from farmiq.edge.telemetry_timeseries.liveness import Clocks, Signs, is_fresh, is_online
from farmiq.edge.vision_inference import store as inference
from farmiq.edge.vision_inference.job import LIVE
from farmiq.edge.weighvision_session import store as sessions
from farmiq.kit.postgres import Connection, Pool
from farmiq.outbox import held, redrive
from farmiq.outbox.claim import claim
from farmiq.outbox.recovery import promote, rescue
from farmiq.outbox.verdicts import RetryPolicy
from farmiq.timeseries import store as timeseries
from farmiq.timeseries.stream import Origin, StreamLimit
from support.tenant_rows import fill

PAGE: Final = Path(__file__).parents[3] / "docs" / "internals" / "clocks.md"
TENANT: Final = "zebra"
WRONG_BY: Final = {"a day ahead": 1, "a year ahead": 365, "a day behind": -1, "a year behind": -365}
MINUTE: Final = timedelta(minutes=1)
HOUR: Final = timedelta(hours=1)


class Case(NamedTuple):
    """`written`: the row as it stood when the clock was put right; `$1` is by how much it was wrong. `happens` says whether what
    the column decides comes to pass now."""

    columns: str
    written: str
    happens: Callable[[Connection], Awaitable[object]]


async def _claims(connection: Connection) -> object:
    return await claim(connection, TENANT, instance_id="me", limit=10, lease_seconds=30)


async def _rescues(connection: Connection) -> object:
    return await rescue(connection, RetryPolicy(), random.Random(1))


async def _unclaims(connection: Connection) -> object:
    return await redrive.unclaim(connection, older_than_seconds=0.0)


async def _redrives(connection: Connection) -> object:
    return await redrive.redrive(connection, redrive.DeadLetters(older_than_seconds=60.0))


async def _releases(connection: Connection) -> object:
    return await held.release(connection, held.Subject(TENANT, DEVICE_OF_ANOTHER_EDGE, "scale-1"))


async def _probes(connection: Connection) -> object:
    """Nobody pauses, so somebody may probe; and whoever fails now makes the pause as long as its own."""
    breakers = await sync_state.breakers(connection, [TENANT])
    assert not breakers[TENANT].is_paused
    assert await sync_state.next_probe_seconds(connection) is None
    await sync_state.record_pause(
        connection, TENANT, consecutive_failures=2, seconds=30, batch_id="b", error_code="HTTP_503", is_probe=False
    )
    seconds = await sync_state.next_probe_seconds(connection)
    assert seconds is not None
    assert seconds <= 30
    await connection.execute("UPDATE sync_state SET paused_until = clock_timestamp() + interval '2 days'")
    return await sync_state.take_probe(connection, TENANT, seconds=40, is_forced=False)


async def _reports(connection: Connection) -> object:
    return await sync_state.take_reports(connection, older_than_seconds=60)


async def _unsure(connection: Connection) -> object:
    """What the cloud acknowledged is not deleted while nobody knows whether it still has it, and it is asked."""
    return await sync_state.unsure_tenants(connection) and await sync_state.unheard_tenants(connection, seconds=300)


async def _sends_pictures(connection: Connection) -> object:
    due = await transfers.due_by_tenant(connection)
    assert due[TENANT] <= 0
    return await transfers.claim(connection, TENANT, instance_id="me", lease_seconds=30, limit=1)


async def _rescues_pictures(connection: Connection) -> object:
    return await transfers.lock_expired(connection, limit=10)


async def _checks_pictures(connection: Connection) -> object:
    return await edge_media.claim_due(connection, 10, 30)


async def _presigns(connection: Connection) -> object:
    return await edge_media.turn_in_seconds(connection, "scale-1", 300) <= 1


async def _counts_bytes(connection: Connection) -> object:
    """Of days that have not come yet nothing counts, and they are forgotten."""
    has_more = await edge_media.has_more_than_its_part(connection, Origin(TENANT, "f", "b", "scale-1"))
    await edge_media.forget_days(connection)
    return not has_more and not await connection.fetchval("SELECT count(*) FROM media_bytes_of_day")


async def _infers(connection: Connection) -> object:
    return await inference.claim(connection, LIVE, instance_id="me", lease_seconds=30, limit=10)


async def _rescues_inference(connection: Connection) -> object:
    return await inference.lock_expired(connection, 10)


async def _watches_sessions(connection: Connection) -> object:
    return await sessions.lock_due(connection, datetime.now(UTC), 10)


async def _tells_cloud_of_aggregates(connection: Connection) -> object:
    return await telemetry.take_due(connection, datetime.now(UTC) + timedelta(days=1), 10)


async def _tells_bus_of_aggregates(connection: Connection) -> object:
    return await unsent.take(connection, datetime.now(UTC) + timedelta(days=1), 10, 60)


async def _notices_silence(connection: Connection) -> object:
    """A device that is gone is not there, and its data is not new; when it sends again it is, and the next silence is seen."""
    origin, now = Origin(TENANT, "f", "b", "scale-1"), datetime.now(UTC)
    assert not await _is_there(connection, now)
    signs = Signs(origin, is_alive=True, newest_us={("weight", ""): to_us(now)}, said_at=now)
    await telemetry.save_signs(connection, [signs], now)
    assert await _is_there(connection, now)
    return not await _is_there(connection, now + 3 * HOUR)


async def _is_there(connection: Connection, now: datetime) -> bool:
    (row,) = await telemetry.clocks(connection, TENANT)
    sensors = await telemetry.sensors(connection, TENANT, ["scale-1"])
    devices = await telemetry.devices(connection, TENANT, ["scale-1"])
    is_any_fresh = any(is_fresh(one["last_sample_ts"], now, MINUTE) for one in [*sensors, *devices])
    is_there = is_online(Clocks(*list(row.values())[1:]), now, MINUTE)
    assert is_there or not is_any_fresh
    return is_there


async def _closes_alerts(connection: Connection) -> object:
    return await alerts.close_unseen(connection, put_off.KIND, datetime.now(UTC) - put_off.OVER_AFTER)


async def _opens_streams(connection: Connection) -> object:
    wanted = {(TENANT, uuid4()): Origin(TENANT, "f", "b", "scale-1")}
    return await timeseries.lock_streams(connection, wanted, StreamLimit(1, 1, HOUR))


async def _forgets_refusals(connection: Connection) -> object:
    return not await refusals.recent(connection, datetime.now(UTC))


async def _computes_days(connection: Connection) -> object:
    return await marks.take(connection, is_newest=False, quiet_seconds=30)


async def _asks_for_pictures(connection: Connection) -> object:
    before = datetime.now(UTC) - MINUTE
    return await cloud_media.wanted(connection, [TENANT], ("", UUID(int=0)), before, 10)


async def _forgets_held(connection: Connection) -> object:
    return not await device_moves.held(connection, limit=10)


OUTBOX: Final = "UPDATE sync_outbox SET status = 'pending', parked = false, claimed_by = NULL, claimed_at = NULL,"
CLAIMED: Final = "UPDATE sync_outbox SET status = 'claimed', parked = false, claimed_by = 'dead',"

EDGE: Final[Mapping[str, Case]] = {
    "an event is claimed": Case(
        "sync_outbox.next_attempt_at",
        f"{OUTBOX} lease_expires_at = NULL, next_attempt_at = now() + $1::interval",
        _claims,
    ),
    "a parked event is promoted": Case(
        "sync_outbox.next_attempt_at",
        "UPDATE sync_outbox SET status = 'pending', parked = true, next_attempt_at = now() + $1::interval",
        promote,
    ),
    "a lease ends": Case(
        "sync_outbox.lease_expires_at",
        f"{CLAIMED} claimed_at = now() - interval '1 minute', lease_expires_at = now() + $1::interval",
        _rescues,
    ),
    "a person takes a claim back": Case(
        "sync_outbox.claimed_at",
        f"{CLAIMED} claimed_at = now() + $1::interval, lease_expires_at = now() + interval '1 minute'",
        _unclaims,
    ),
    "a dead letter is redriven": Case(
        "sync_outbox.failed_at", "UPDATE sync_outbox SET status = 'dlq', failed_at = now() + $1::interval", _redrives
    ),
    "a held event is released": Case(
        "sync_outbox.updated_at",
        "UPDATE sync_outbox SET status = 'pending', parked = true, device_id = 'scale-1',"
        " last_error_code = 'device_of_another_edge', updated_at = now() + $1::interval",
        _releases,
    ),
    "a pause ends": Case(
        "sync_state.paused_until",
        "UPDATE sync_state SET consecutive_failures = 1, paused_until = now() + $1::interval",
        _probes,
    ),
    "requests are reported": Case(
        "sync_state.unreported_since",
        "UPDATE sync_state SET last_sent_batch_id = 'b', unreported_since = now() + $1::interval - interval '61 s'",
        _reports,
    ),
    "the cloud is asked for its epoch": Case(
        "sync_state.cloud_heard_at",
        "UPDATE sync_state SET cloud_epoch = gen_random_uuid(), consecutive_failures = 0, resend_to = NULL,"
        " cloud_heard_at = now() + $1::interval + sign(extract(epoch FROM $1::interval)) * interval '1 minute'",
        _unsure,
    ),
    "a picture is sent": Case(
        "media_transfers.next_attempt_at",
        "UPDATE media_transfers SET state = 'pending', next_attempt_at = now() + $1::interval",
        _sends_pictures,
    ),
    "a picture's lease ends": Case(
        "media_transfers.lease_expires_at",
        "UPDATE media_transfers SET state = 'sending', lease_expires_at = now() + $1::interval",
        _rescues_pictures,
    ),
    "an upload is looked for": Case(
        "media_objects.next_check_at",
        "UPDATE media_objects SET state = 'presigned', next_check_at = now() + $1::interval",
        _checks_pictures,
    ),
    "a station gets an upload URL": Case(
        "media_presign_pace.used_to",
        "INSERT INTO media_presign_pace (device_id, used_to) VALUES ('scale-1', now() + $1::interval)",
        _presigns,
    ),
    "bytes of a day count": Case(
        "media_bytes_of_day.day",
        "UPDATE media_bytes_of_day SET device_id = 'scale-1', bytes = 1000,"
        " day = (now() + $1::interval + sign(extract(epoch FROM $1::interval)) * interval '7 days')::date",
        _counts_bytes,
    ),
    "a picture is looked at": Case(
        "inference_jobs.next_attempt_at",
        "UPDATE inference_jobs SET state = 'pending', lane = 0, next_attempt_at = now() + $1::interval",
        _infers,
    ),
    "a model's lease ends": Case(
        "inference_jobs.lease_expires_at",
        "UPDATE inference_jobs SET state = 'running', lease_expires_at = now() + $1::interval",
        _rescues_inference,
    ),
    "a session is looked at": Case(
        "weight_sessions.look_at", "UPDATE weight_sessions SET look_at = now() + $1::interval", _watches_sessions
    ),
    "an aggregate is told": Case(
        "telemetry_agg_unsent.due_at",
        "UPDATE telemetry_agg_unsent SET due_at = now() + $1::interval",
        _tells_cloud_of_aggregates,
    ),
    "a device is missed": Case(
        "device_liveness.last_rx_at device_liveness.last_sample_ts device_liveness.gone_at sensor_liveness.last_sample_ts",
        "WITH sensors AS (UPDATE sensor_liveness SET device_id = 'scale-1', last_sample_ts = now() + $1::interval)"
        " UPDATE device_liveness SET device_id = 'scale-1', last_rx_at = now() + $1::interval,"
        " last_sample_ts = now() + $1::interval, gone_at = now() + $1::interval, gone_ts = now(), said_ts = now()",
        _notices_silence,
    ),
    "an alert is over": Case(
        "ops_alerts.last_seen_at",
        "UPDATE ops_alerts SET status = 'open', kind = 'device_put_off', last_seen_at = now() + $1::interval",
        _closes_alerts,
    ),
    "a device begins a stream": Case(
        "streams.first_seen_at",
        "UPDATE streams SET device_id = 'scale-1', first_seen_at = now() + $1::interval",
        _opens_streams,
    ),
    "a refusal of the broker is over": Case(
        "broker_refusals.last_at", "UPDATE broker_refusals SET last_at = now() + $1::interval", _forgets_refusals
    ),
}
CLOUD: Final[Mapping[str, Case]] = {
    "an aggregate is told": Case(
        "telemetry_agg_unsent.due_at",
        "UPDATE telemetry_agg_unsent SET due_at = now() + $1::interval",
        _tells_bus_of_aggregates,
    ),
    "a day is computed": Case(
        "analytics_marks.marked_at", "UPDATE analytics_marks SET marked_at = now() + $1::interval", _computes_days
    ),
    "a picture is asked for": Case(
        "media_objects.created_at",
        "UPDATE media_objects SET state = 'announced', created_at = now() + $1::interval",
        _asks_for_pictures,
    ),
    "a held delivery is over": Case(
        "held_deliveries.last_held_at",
        "UPDATE held_deliveries SET last_held_at = now() + $1::interval",
        _forgets_held,
    ),
    "a device begins a stream": Case(
        "streams.first_seen_at",
        "UPDATE streams SET device_id = 'scale-1', first_seen_at = now() + $1::interval",
        _opens_streams,
    ),
}
WAITING: Final = (
    "an event is claimed", "a parked event is promoted", "a lease ends", "an upload is looked for", "a session is looked at",
    "a picture is looked at", "a model's lease ends",
)  # fmt: skip
ELSEWHERE: Final = {
    "edge": {
        "job_runs.last_started_at", "job_runs.believed_at", "media_objects.expires_at", "media_objects.declare_at",
        "weight_sessions.created_at",
        "weight_sessions.last_heard_at", "weight_sessions.ended_heard_at",
    },
    "cloud": {
        "job_runs.last_started_at", "job_runs.believed_at", "edge_tokens.expires_at", "viewer_tokens.expires_at",
        "device_moves.backlog_until", "device_moves.moved_at", "empty_bus_queues.empty_at",
    },
}  # fmt: skip
"""Columns whose tests are beside the code that reads them, as the page says, and those that are a person's word."""


@pytest.mark.parametrize("days", WRONG_BY.values(), ids=WRONG_BY.keys())
@pytest.mark.parametrize("name", EDGE)
async def test_at_the_edge_nothing_waits_for_a_clock_that_was_wrong(edge_pool: Pool, name: str, days: int) -> None:
    await _assert_happens(edge_pool, EDGE[name], timedelta(days=days))


@pytest.mark.parametrize("days", WRONG_BY.values(), ids=WRONG_BY.keys())
@pytest.mark.parametrize("name", CLOUD)
async def test_in_the_cloud_nothing_waits_for_a_clock_that_was_wrong(cloud_pool: Pool, name: str, days: int) -> None:
    await _assert_happens(cloud_pool, CLOUD[name], timedelta(days=days))


async def test_what_we_put_off_ourselves_still_waits(edge_pool: Pool) -> None:
    """An hour is the longest delay: a row that waits for so long is not taken for one that a wrong clock has written."""
    async with edge_pool.acquire() as connection, connection.transaction():
        await fill(connection, TENANT)
        for name in WAITING:
            await _write(connection, EDGE[name], HOUR)
            assert not await EDGE[name].happens(connection), name


async def test_every_time_in_a_database_is_on_the_page_and_every_one_that_decides_has_a_test(any_pool: Pool) -> None:
    is_edge = await any_pool.fetchval("SELECT to_regclass('sync_outbox') IS NOT NULL")
    tier, given = ("edge", EDGE) if is_edge else ("cloud", CLOUD)
    listed, deciding = _on_page(tier)
    assert listed == await _times_of(any_pool)
    assert deciding == {column for case in given.values() for column in case.columns.split()} | ELSEWHERE[tier]


async def _assert_happens(pool: Pool, case: Case, wrong_by: timedelta) -> None:
    async with pool.acquire() as connection:
        await fill(connection, TENANT)
        assert await _write(connection, case, wrong_by) in {"UPDATE 1", "INSERT 0 1"}
        assert await case.happens(connection)


async def _write(connection: Connection, case: Case, wrong_by: timedelta) -> str:
    if "status = 'claimed'" in case.written:
        # The table's rules lead from a dead letter to a claimed row by way of a pending one.
        await connection.execute("UPDATE sync_outbox SET status = 'pending'")
    return await connection.execute(case.written, wrong_by)


async def _times_of(pool: Pool) -> set[str]:
    rows = await pool.fetch(
        "SELECT relname || '.' || attname AS name FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid"
        " WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition AND attnum > 0"
        " AND NOT attisdropped AND (atttypid = 'timestamptz'::regtype OR (relname, attname) = ('media_bytes_of_day', 'day'))"
    )
    return {row["name"] for row in rows}


def _on_page(tier: str) -> tuple[set[str], set[str]]:
    """Every column that the tier's table on the page names, and those in the columns `Decides`."""
    section = PAGE.read_text().partition(f"## Times of the {tier}")[2].partition("\n## ")[0]
    listed, deciding = set(), set()
    for table, decides, *others in re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.*?) \|$", section, re.MULTILINE):
        deciding |= {f"{table}.{column}" for column in re.findall(r"`(\w+)`", decides)}
        listed |= {f"{table}.{column}" for cell in [decides, *others] for column in re.findall(r"`(\w+)`", cell)}
    return listed, deciding
