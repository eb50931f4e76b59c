"""Each message to the owner of what it holds, inside the gateway's transaction."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from farmiq import outbox
from farmiq.contracts.telemetry import TelemetryLoss
from farmiq.contracts.weighvision import ImageCaptured
from farmiq.edge.ingress_gateway.integrator_events import IntegratorEvent, LoneCapture, forwarded
from farmiq.edge.ingress_gateway.screening import Refusal, Screened, refuse
from farmiq.edge.ingress_gateway.station_losses import note_station_losses
from farmiq.edge.media_store import intake as media
from farmiq.edge.telemetry_timeseries import intake as telemetry
from farmiq.edge.telemetry_timeseries.sync_mode import SyncPlan
from farmiq.edge.weighvision_session import intake as sessions
from farmiq.edge.weighvision_session.events import SessionEvent
from farmiq.kit.postgres import Connection
from farmiq.timeseries.samples import SingleReading, StreamBatch
from farmiq.timeseries.stream import Coverage, StreamKey

B = TypeVar("B")
Codes = dict[Screened, str | None]


async def route(
    connection: Connection,
    messages: Sequence[Screened],
    fresh: set[Screened],
    streams: Mapping[StreamKey, Coverage],
    received_at: datetime,
    sync: SyncPlan,
) -> tuple[int, dict[Screened, Refusal]]:
    """How many samples are new, and what the owners would not take."""
    new = [message for message in messages if message in fresh]
    stored, refused = await _measurements(connection, messages, new, streams, received_at, sync)
    refused |= await _losses(connection, new, streams)
    said, lone = _of(new, SessionEvent), _of(new, LoneCapture)
    refused |= await _foreign(connection, said)
    stored_at = await _announce(connection, said, lone, refused)
    refused |= await _sessions(connection, said, refused, received_at, stored_at)
    passed_on: list[tuple[Screened, IntegratorEvent | LoneCapture]] = [*_of(new, IntegratorEvent)]
    passed_on += [(message, body) for message, body in lone if not refused[message]]
    events = [forwarded(message.origin, message.event_id, message.trace_id, body) for message, body in passed_on]
    await outbox.append(connection, events)
    await note_station_losses(connection, _of(new, IntegratorEvent), received_at)
    refusals = {
        message: refuse(message, code, "the owner would not take it") for message, code in refused.items() if code
    }
    return stored, refusals


async def _measurements(
    connection: Connection,
    messages: Sequence[Screened],
    new: Sequence[Screened],
    streams: Mapping[StreamKey, Coverage],
    received_at: datetime,
    sync: SyncPlan,
) -> tuple[int, Codes]:
    """Every batch goes there, seen before or not: which samples are new is for the stream's coverage to say, and an id that a
    device used twice costs it none."""
    batches = _of(messages, StreamBatch)
    admissions = await telemetry.store_batches(
        connection, [(body, message.trace_id) for message, body in batches], received_at, sync, streams
    )
    readings = [(body, message.trace_id) for message, body in _of(new, SingleReading)]
    stored = await telemetry.store_readings(connection, readings, received_at, sync)
    stored += sum(end - first for admission in admissions for first, end in admission.stored)
    pairs = zip(batches, admissions, strict=True)
    return stored, {message: admission.refusal for (message, _), admission in pairs}


async def _losses(connection: Connection, new: Sequence[Screened], streams: Mapping[StreamKey, Coverage]) -> Codes:
    refused: Codes = {}
    for message, body in _of(new, TelemetryLoss):
        admission = await telemetry.record_loss(
            connection, message.origin, message.event_id, message.trace_id, body, streams
        )
        refused[message] = admission.refusal
    return refused


async def _foreign(connection: Connection, said: Sequence[tuple[Screened, SessionEvent]]) -> Codes:
    """Asked before the pictures are given to their sessions: nobody's picture goes into somebody else's session."""
    if not said:
        return {}
    codes = await sessions.refusals(connection, [body for _, body in said])
    return {message: code for (message, _), code in zip(said, codes, strict=True)}


async def _announce(
    connection: Connection,
    said: Sequence[tuple[Screened, SessionEvent]],
    lone: Sequence[tuple[Screened, LoneCapture]],
    refused: Codes,
) -> dict[UUID, datetime]:
    """Since when those announced pictures are stored that are. What the media store refuses is added to `refused`.

    All at once and before any session is locked, as the media store asks.
    """
    images = [
        (message, media.Announcement(message.origin, body.payload, captured_at=message.ts)) for message, body in lone
    ]
    images += [
        (message, media.Announcement(message.origin, body.said, body.session_id, body.at))
        for message, body in said
        if isinstance(body.said, ImageCaptured) and not refused[message]
    ]
    if not images:
        return {}
    stored_at: dict[UUID, datetime] = {}
    answers = await media.announce(connection, [announcement for _, announcement in images])
    for (message, _), answer in zip(images, answers, strict=True):
        refused[message] = answer.refusal
        if not answer.refusal and answer.picture is not None and answer.picture.whole_since is not None:
            stored_at[answer.picture.media_id] = answer.picture.whole_since
    return stored_at


async def _sessions(
    connection: Connection,
    said: Sequence[tuple[Screened, SessionEvent]],
    refused: Codes,
    received_at: datetime,
    stored_at: Mapping[UUID, datetime],
) -> Codes:
    taken = [(message, body) for message, body in said if not refused[message]]
    events = [(body, message.trace_id) for message, body in taken]
    codes = await sessions.take(connection, events, received_at, stored_at)
    return {message: code for (message, _), code in zip(taken, codes, strict=True)}


def _of(messages: Sequence[Screened], kind: type[B]) -> list[tuple[Screened, B]]:
    return [(message, message.body) for message in messages if isinstance(message.body, kind)]
