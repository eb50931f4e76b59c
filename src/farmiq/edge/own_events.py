"""Events that the edge names itself: how it names them, and what happens when somebody had the name before."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from msgspec.structs import replace

from farmiq import outbox
from farmiq.contracts import event_types
from farmiq.edge.alerts import raise_alert
from farmiq.kit.errors import EventIdReused
from farmiq.kit.ids import Naming, keyed_uuid7
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import Connection

_NAMING: Final = "SELECT id_secret, ids_keyed_since FROM edge_identity"

log = get_logger(__name__)


async def naming(connection: Connection) -> Naming:
    """Read in every transaction: a restore may happen under a running service."""
    row = await connection.fetchrow(_NAMING)
    assert row is not None  # noqa: S101 - the migration makes the one row, and a rule keeps it one
    return Naming(row["id_secret"], row["ids_keyed_since"])


async def append_own(connection: Connection, events: Sequence[outbox.Event]) -> None:
    """Add events that nobody is there to refuse. One whose id stands for something else goes under another id, the same each
    time, and a person is told: ids that earlier releases gave could be foreseen, and a station's word may have a used one."""
    clashes = await outbox.add(connection, events)
    await store_under_other_ids(connection, [clash for clash in clashes if not _is_stored_again(clash)])


def _is_stored_again(clash: outbox.Clash) -> bool:
    """A picture that was missing and is verified once more may have its session by now. Nobody but us says `media.stored`."""
    return clash.known_type == clash.event.event_type == event_types.MEDIA_STORED


async def store_under_other_ids(connection: Connection, clashes: Sequence[outbox.Clash]) -> None:
    if not clashes:
        return
    key = (await naming(connection)).key
    renamed = [replace(clash.event, id=_other_id(key, clash.event)) for clash in clashes]
    if still := await outbox.add(connection, renamed):
        raise EventIdReused(f"event {still[0].event.id} differs from what was stored under this id")
    for clash, event in zip(clashes, renamed, strict=True):
        await _tell(connection, clash, event.id)


def _other_id(key: bytes, event: outbox.Event) -> UUID:
    at = event.occurred_at
    assert at is not None  # noqa: S101 - whatever the edge makes has a time
    return keyed_uuid7(key, at, "instead", event.tenant_id, event.event_type, event.device_id, event.id)


async def _tell(connection: Connection, clash: outbox.Clash, stored_as: UUID) -> None:
    event = clash.event
    log.warning(
        "event_id_occupied", event_id=event.id, stored_as=stored_as, event_type=event.event_type, device_id=event.device_id,
        known_type=clash.known_type, known_device_id=clash.known_device_id,
    )  # fmt: skip
    subject = f"The id of a {event.event_type} of {event.device_id} was used by {clash.known_device_id} before"
    evidence = {
        "event_id": str(event.id), "stored_as": str(stored_as), "device_id": event.device_id,
        "known_type": clash.known_type, "known_device_id": clash.known_device_id,
    }  # fmt: skip
    key = f"event-id-occupied:{event.device_id}:{clash.known_device_id}"
    await raise_alert(connection, "event_id_occupied", subject, key, evidence, event.tenant_id)
