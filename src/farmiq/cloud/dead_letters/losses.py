"""What is discarded is lost, and the ledger says so: which samples or which event, who discarded it, and why.

Only letters of the service that stores telemetry, sessions and events: analytics and the media store have the same events, and
what they make of them is derived. In the transaction that discards them; discarded twice, a letter is one loss.
"""

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID, uuid5

import msgspec

from farmiq.cloud.dead_letters.letters import UNKNOWN
from farmiq.cloud.dead_letters.saved import SavedLetter
from farmiq.contracts.decoding import MalformedMessage, decode, encode
from farmiq.contracts.envelope import BusEnvelope, payload_of
from farmiq.contracts.event_types import TELEMETRY_LOSS
from farmiq.contracts.limits import BUS_MESSAGE_BYTES_MAX
from farmiq.contracts.station import STATION_LOSS
from farmiq.contracts.telemetry import TelemetryBatchIngested, TelemetryLoss
from farmiq.contracts.timestamps import from_us
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import Connection, storable
from farmiq.timeseries import station_losses, store
from farmiq.timeseries.admission import Locked, declare_lost
from farmiq.timeseries.station_losses import Place
from farmiq.timeseries.stream import Origin

STORING_SERVICE: Final = "cloud-telemetry-service"
REASON: Final = "discarded"
NOTE_LENGTH_MAX: Final = 500
_LETTERS: Final = UUID("5a2d4c1e-7c59-4f0e-9d4e-3e1f7a6b0c11")
"""The name space of the losses that are made of discarded letters."""

_SIGN: Final = {
    table: f"UPDATE {table} SET declared_by = $3, note = $4 WHERE tenant_id = $1 AND event_id = $2 AND declared_by IS NULL"  # noqa: S608 - our own tables
    for table in ("stream_losses", "station_losses")
}

log = get_logger(__name__)


class Declared(msgspec.Struct, frozen=True):
    """Who discards, why, and when."""

    by: str
    note: str | None
    at: datetime


async def declare(connection: Connection, letters: Sequence[SavedLetter], declared: Declared) -> None:
    """A letter that names no tenant is nobody's loss: it stays in `discarded_letters` and the action only."""
    named = [one for one in letters if one.letter.tenant_id]
    for one in letters:
        if not one.letter.tenant_id:
            log.error("dead_letter_of_nobody_discarded", reason=one.letter.reason, event_type=one.letter.event_type)
    envelopes = {one.letter_id: _envelope_of(one) for one in named}
    samples = {letter_id: _samples_of(envelope, declared.at) for letter_id, envelope in envelopes.items() if envelope}
    # All at once, as whoever stores samples does: two that took them one by one could wait for each other.
    locked = await store.lock_streams(
        connection,
        {
            (envelope.tenant_id, loss.stream_id): origin
            for letter_id, envelope in envelopes.items()
            if envelope is not None and (loss := samples[letter_id]) is not None and (origin := _origin_of(envelope))
        },
    )
    for one in named:
        envelope, loss = envelopes[one.letter_id], samples.get(one.letter_id)
        if (
            envelope is None
            or loss is None
            or not await _record_samples(connection, one, envelope, loss, declared, locked)
        ):
            await _record_event(connection, one, envelope, declared)


async def _record_samples(
    connection: Connection,
    one: SavedLetter,
    envelope: BusEnvelope,
    loss: TelemetryLoss,
    declared: Declared,
    locked: Locked,
) -> bool:
    """False when the stream is another device's: there is nothing of it to fill."""
    origin = _origin_of(envelope)
    if origin is None:
        return False
    event_id = envelope.event_id if envelope.event_type == TELEMETRY_LOSS else _id_of(one)
    admission = await declare_lost(connection, origin, event_id, loss, locked)
    if admission.refusal is not None:
        return False
    await _sign(connection, "stream_losses", envelope.tenant_id, event_id, one, declared)
    return True


async def _record_event(
    connection: Connection, one: SavedLetter, envelope: BusEnvelope | None, declared: Declared
) -> None:
    letter = one.letter
    event_id, at, payload = _id_of(one), letter.failed_at, None
    place = Place(storable(letter.tenant_id or ""), None, None, storable(letter.device_id or UNKNOWN))
    if envelope is not None:
        place = Place(envelope.tenant_id, envelope.farm_id, envelope.barn_id, envelope.device_id or UNKNOWN)
        at = envelope.occurred_at
        if envelope.event_type == STATION_LOSS:
            event_id, payload = envelope.event_id, bytes(envelope.payload)  # it declares what it says
    payload = payload or encode(station_losses.Said(REASON, count=1, first_ts=at, last_ts=at))
    await station_losses.record(connection, place, event_id, declared.at, payload, declared.at)
    await _sign(connection, "station_losses", place.tenant_id, event_id, one, declared)


async def _sign(
    connection: Connection, table: str, tenant_id: str, event_id: UUID, one: SavedLetter, declared: Declared
) -> None:
    letter = one.letter
    why = declared.note or f"{letter.reason}: {letter.detail}"
    note = storable(f"{letter.event_type} {letter.event_id or letter.message_id}: {why}")[:NOTE_LENGTH_MAX]
    await connection.execute(_SIGN[table], tenant_id, event_id, storable(declared.by), note)
    log.error("dead_letter_declared_lost", event_id=letter.event_id, event_type=letter.event_type, tenant_id=tenant_id)


def _id_of(one: SavedLetter) -> UUID:
    """By what is in it: the same id may stand for other things in other letters."""
    return uuid5(_LETTERS, hashlib.sha256(one.delivery.body).hexdigest())


def _envelope_of(one: SavedLetter) -> BusEnvelope | None:
    try:
        return decode(BusEnvelope, one.delivery.body, max_bytes=BUS_MESSAGE_BYTES_MAX)
    except MalformedMessage:
        return None


def _origin_of(envelope: BusEnvelope) -> Origin | None:
    if envelope.farm_id is None or envelope.barn_id is None or envelope.device_id is None:
        return None
    return Origin(envelope.tenant_id, envelope.farm_id, envelope.barn_id, envelope.device_id)


def _samples_of(envelope: BusEnvelope, at: datetime) -> TelemetryLoss | None:
    """The sequences that the event holds, or declared lost itself. None: it holds none, or they can't be read."""
    try:
        payload = payload_of(envelope)
    except MalformedMessage:
        return None
    if isinstance(payload, TelemetryLoss):
        return payload
    if not isinstance(payload, TelemetryBatchIngested):
        return None
    return TelemetryLoss(
        stream_id=payload.stream_id,
        first_seq=payload.seq0,
        last_seq=payload.seq0 + len(payload.t) - 1,
        count=len(payload.t),
        reason=REASON,
        dropped_at=at,
        first_ts=from_us(min(payload.t)),
        last_ts=from_us(max(payload.t)),
    )
