"""Every statement that writes what edges say about their sending, and events that have no table of their own."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, TypeVar

from farmiq.cloud.telemetry_service.keyed_rows import Row, one_per_key, write_rows
from farmiq.cloud.telemetry_service.messages import OtherEvent, SyncPayload, SyncReport
from farmiq.contracts.envelope import BusEnvelope
from farmiq.contracts.station import STATION_LOSS
from farmiq.contracts.sync import SyncBatchAcked, SyncBatchSent
from farmiq.contracts.timestamps import to_us
from farmiq.kit.postgres import Connection
from farmiq.timeseries import station_losses
from farmiq.timeseries.partitions import months_of
from farmiq.timeseries.station_losses import Place
from farmiq.timeseries.store import ensure_months

# A batch is said to be sent, and to be acknowledged, by one event each; if there are more, the first counts.
_SENT: Final = """
    INSERT INTO sync_batches AS known
           (tenant_id, batch_id, sent_at, sent_event_id, sent_event_count, received_at, edge_cluster_id)
    SELECT * FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::uuid[], $5::int[], $6::timestamptz[], $7::text[])
    ON CONFLICT (tenant_id, batch_id) DO UPDATE
       SET sent_at = excluded.sent_at, sent_event_id = excluded.sent_event_id,
           sent_event_count = excluded.sent_event_count, edge_cluster_id = excluded.edge_cluster_id
     WHERE known.sent_at IS NULL OR (excluded.sent_at, excluded.sent_event_id) < (known.sent_at, known.sent_event_id)
"""
_ACKED: Final = """
    INSERT INTO sync_batches AS known (tenant_id, batch_id, acked_at, acked_event_id, acked_event_count, received_at)
    SELECT * FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::uuid[], $5::int[], $6::timestamptz[])
    ON CONFLICT (tenant_id, batch_id) DO UPDATE
       SET acked_at = excluded.acked_at, acked_event_id = excluded.acked_event_id,
           acked_event_count = excluded.acked_event_count
     WHERE known.acked_at IS NULL OR (excluded.acked_at, excluded.acked_event_id) < (known.acked_at, known.acked_event_id)
"""
_EVENTS: Final = """
    INSERT INTO device_events
           (tenant_id, event_id, event_type, farm_id, barn_id, device_id, session_id, occurred_at, trace_id, edge_cluster_id,
            payload, received_at)
    SELECT * FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::uuid[], $8::timestamptz[],
                         $9::text[], $10::text[], $11::jsonb[], $12::timestamptz[])
    ON CONFLICT DO NOTHING
"""

T = TypeVar("T", SyncBatchSent, SyncBatchAcked)


async def store_sync_reports(connection: Connection, reports: Sequence[SyncReport], received_at: datetime) -> None:
    sent = [
        (*_report_row(envelope, payload, received_at), payload.edge_cluster_id)
        for envelope, payload in _told_first(reports, SyncBatchSent)
    ]
    acked = [_report_row(*told, received_at) for told in _told_first(reports, SyncBatchAcked)]
    await write_rows(connection, _SENT, sent)
    await write_rows(connection, _ACKED, acked)


async def store_events(connection: Connection, events: Sequence[OtherEvent], received_at: datetime) -> None:
    if not events:
        return
    await ensure_months(connection, "device_events", months_of(to_us(event.envelope.occurred_at) for event in events))
    await write_rows(connection, _EVENTS, [_event_row(event, received_at) for event in events])
    for event in events:
        # device_events are dropped after a while. A loss record never is.
        if event.envelope.event_type == STATION_LOSS:
            envelope = event.envelope
            place = Place(envelope.tenant_id, envelope.farm_id, envelope.barn_id, envelope.device_id or "")
            payload = bytes(envelope.payload)
            await station_losses.record(
                connection, place, envelope.event_id, envelope.occurred_at, payload, received_at
            )


def _told_first(reports: Iterable[SyncReport], kind: type[T]) -> list[tuple[BusEnvelope, T]]:
    told = [(one.envelope, one.payload) for one in reports if isinstance(one.payload, kind)]
    return one_per_key(
        told,
        lambda one: (one[0].tenant_id, one[1].batch_id),
        lambda one: (one[0].occurred_at, one[0].event_id),
    )


def _report_row(envelope: BusEnvelope, payload: SyncPayload, received_at: datetime) -> Row:
    return (
        envelope.tenant_id, payload.batch_id, envelope.occurred_at, envelope.event_id, payload.event_count, received_at,
    )  # fmt: skip


def _event_row(event: OtherEvent, received_at: datetime) -> Row:
    envelope = event.envelope
    return (
        envelope.tenant_id, envelope.event_id, envelope.event_type, envelope.farm_id, envelope.barn_id, envelope.device_id,
        envelope.session_id, envelope.occurred_at, envelope.trace_id, event.edge_cluster_id, envelope.payload, received_at,
    )  # fmt: skip
