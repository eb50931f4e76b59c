"""Into the outbox, for events that were accepted before it was their turn to be sent."""

from uuid import uuid5

from msgspec.structs import replace

from farmiq import outbox
from farmiq.edge.weighvision_session.telling import ENDINGS
from farmiq.kit.postgres import Connection


async def append_ending(connection: Connection, event: outbox.Event) -> None:
    """Under the station's event id, unless another tenant's event has it: nobody is there any more to refuse the event to."""
    try:
        async with connection.transaction():
            await outbox.append(connection, [event])
    except outbox.EventIdTaken:
        own = uuid5(ENDINGS, f"{event.tenant_id}/{event.session_id}/{event.id}")
        await outbox.append(connection, [replace(event, id=own)])
