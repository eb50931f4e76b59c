from typing import Annotated

from msgspec import Meta

from farmiq.kit.settings import AdminToken, DatabaseUrl, HttpSettings, Port, Positive, Settings


class TelemetrySettings(HttpSettings, frozen=True, kw_only=True):
    port: Port = 5104
    database_url: DatabaseUrl
    admin_token: AdminToken
    # A node says how it is every 10 s, and the broker notices a cut line after 30 s: silence this long is no accident.
    online_timeout: Annotated[int, Meta(ge=1, le=86_400, description="seconds without a message until offline")] = 60
    # Sensors are read once a second to once a minute: five of the slowest missed.
    freshness_timeout: Annotated[
        int, Meta(ge=1, le=2_592_000, description="seconds since the newest sample until it counts as old")
    ] = 300


class RetentionSettings(Settings, frozen=True, kw_only=True):
    """Read by the jobs, in the service and in `farmiq jobs run`."""

    telemetry_raw_retention_days: Positive = 90
    """Samples. Whole months go, when the last day of the month is older."""
    telemetry_agg_retention_days: Positive = 365
    """Aggregates, by the end of their bucket."""
    retention_require_sync: bool = True
    """False drops a month past its retention although the cloud does not have all of it: logged, counted, alerted."""
