"""What other services of the edge may call: inside their transaction, never by SQL of their own."""

from farmiq.edge.media_store.picture import Picture
from farmiq.edge.vision_inference import store
from farmiq.kit.postgres import Connection


async def look_at(connection: Connection, picture: Picture) -> None:
    """The picture is stored: the model looks at it soon after the commit, once, however often this is called for it.

    Wake the service after the commit as for any event, with `outbox.Announcer.announce`: it listens there too.
    """
    await store.add(connection, picture)
