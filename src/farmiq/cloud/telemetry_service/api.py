from typing import Any, Final

from farmiq.cloud.telemetry_service.event_routes import event_routes
from farmiq.cloud.telemetry_service.received import totals
from farmiq.cloud.telemetry_service.session_routes import session_routes
from farmiq.cloud.telemetry_service.unsent import Plan
from farmiq.cloud.viewers import viewer_guard
from farmiq.kit.clock import Clock
from farmiq.kit.http_server import require_bearer
from farmiq.kit.postgres import Pool
from farmiq.timeseries.export import Exports
from farmiq.timeseries.record_routes import TOLD_HOURS, record_routes
from farmiq.timeseries.routes import measurement_routes

EVERY_HOUR: Final = Plan()


def routes(pool: Pool, admin_token: str, clock: Clock, announced: Plan = EVERY_HOUR) -> list[Any]:
    """Everything that can be asked here. The files of all routes share one limit. `announced`: what the bus is told of."""
    exports = Exports(clock)
    guards, admin_guards = [viewer_guard(pool, admin_token)], [require_bearer(admin_token)]
    return [
        *measurement_routes(pool, guards, admin_guards=admin_guards, totals=totals, exports=exports),
        *session_routes(pool, guards, exports),
        *event_routes(pool, guards),
        *(record_routes(pool, guards, {"hours": TOLD_HOURS}) if "1h" in announced.windows else ()),
    ]
