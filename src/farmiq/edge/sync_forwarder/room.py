"""How much room is left on the disk that fills up while the cloud is away."""

from typing import Any

from litestar import get

from farmiq.edge.disk import Room, room_on
from farmiq.kit.http_server import require_bearer


def room_routes(folder: str | None, admin_token: str | None) -> list[Any]:
    @get("/api/v1/sync/room", tags=["sync"], guards=[require_bearer(admin_token)], sync_to_thread=False)
    def room() -> Room:
        """The room that what waits for the cloud has on the edge's disk."""
        return room_on(folder)

    return [room]
