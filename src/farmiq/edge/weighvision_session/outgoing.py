"""Into the outbox, for events that were accepted before it was their turn to be sent."""

from farmiq import outbox
from farmiq.contracts import event_types
from farmiq.edge.own_events import store_under_other_ids
from farmiq.kit.postgres import Connection

_ENDINGS = (event_types.SESSION_FINALIZED, event_types.SESSION_CANCELLED)


async def append_ending(connection: Connection, event: outbox.Event) -> None:
    """Under the station's event id, unless that stands for something else: nobody is there any more to refuse the event to. What
    this session's end was told as under this id stays as it was told: a correction has an id of its own."""
    clashes = await outbox.add(connection, [event])
    await store_under_other_ids(connection, [clash for clash in clashes if not _is_same_word(clash)])


def _is_same_word(clash: outbox.Clash) -> bool:
    known = (clash.known_device_id, clash.known_session_id)
    return clash.known_type in _ENDINGS and known == (clash.event.device_id, clash.event.session_id)
