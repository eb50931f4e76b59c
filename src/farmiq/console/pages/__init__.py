"""One file a page, in the order of the menu."""

from typing import Any, Final

from farmiq.console.desk import Desk, Place
from farmiq.console.pages import (
    alerts,
    completeness,
    dead_letters,
    devices,
    growth,
    health,
    losses,
    overview,
    people,
    sessions,
    sync,
    telemetry,
)
from farmiq.console.search import search_routes

PLACES: Final[tuple[Place, ...]] = (
    overview.PLACE,
    completeness.PLACE,
    devices.PLACE,
    telemetry.PLACE,
    sessions.PLACE,
    growth.PLACE,
    sync.PLACE,
    dead_letters.PLACE,
    losses.PLACE,
    alerts.PLACE,
    health.PLACE,
    people.PLACE,
)


def other_routes(desk: Desk) -> list[Any]:
    """Routes that belong to no page of the menu."""
    return [*search_routes(desk)]
