from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Meta

from farmiq.cloud.analytics_service.anomalies.found import AnomalyLimits
from farmiq.cloud.analytics_service.comfort import Limits
from farmiq.cloud.analytics_service.days import Calendar
from farmiq.kit.settings import AdminToken, AmqpUrl, BadSettings, DatabaseUrl, HttpSettings, Port, Settings

Share = Annotated[float, Meta(gt=0, le=10)]
Times = Annotated[float, Meta(ge=1, le=100)]


class AnalyticsSettings(HttpSettings, frozen=True, kw_only=True):
    port: Port = 5203
    database_url: DatabaseUrl
    amqp_url: AmqpUrl
    admin_token: AdminToken
    consume_batch_messages: Annotated[int, Meta(ge=1, le=2000)] = 200
    """At most so many messages in one transaction."""
    consume_batch_wait_ms: Annotated[int, Meta(ge=0, le=1000)] = 20
    """How long a transaction waits for more messages."""
    recompute_debounce_ms: Annotated[int, Meta(ge=0, le=600_000)] = 5000
    """A day that changes again and again is computed once in this time."""
    recompute_poll_ms: Annotated[int, Meta(ge=10, le=60_000)] = 1000
    """How often it looks whether a day is to be computed."""


class JudgementSettings(Settings, frozen=True, kw_only=True):
    """When something is worth a person's attention, and what the animals of a barn stand well."""

    farm_timezone: str = "UTC"
    """In which days and hours of the day are counted, for example Asia/Bangkok."""
    comfort_limits: str = ""
    """JSON: limits by place, {"TENANT": {...}, "TENANT/FARM": {...}, "TENANT/FARM/BARN": {...}}; the nearest counts."""
    anomaly_unusual_z: Times = 4.5
    """`unusual_value`: so many spreads away from the same hour of the days before."""
    anomaly_flat_hours: Annotated[int, Meta(ge=2, le=240)] = 6
    """`flat_line`: hours without any change."""
    anomaly_dropout_hours: Annotated[int, Meta(ge=1, le=24)] = 2
    """`dropout`: hours without a sample."""
    anomaly_drift_z: Times = 3.0
    """`drift`: so many spreads away from the other sensors of the barn."""
    anomaly_weight_z: Times = 4.0
    """`weight_outlier`: so many spreads away from the line of the batch."""
    anomaly_weight_jump: Share = 0.15
    """`weight_jump`: share of the final weight, within one session."""
    anomaly_batch_jump_per_day: Share = 0.25
    """`batch_jump`: share of the median weight, for each day since the last weighing."""
    anomaly_vision_disagreement: Share = 0.15
    """`vision_disagreement`: share of the weight, between camera and scale."""
    growth_recent_days: Annotated[int, Meta(ge=3, le=90)] = 14
    """Over how many days recent growth is computed."""


class AnalyticsRetentionSettings(Settings, frozen=True, kw_only=True):
    """Read by the service and by its jobs."""

    analytics_hours_retention_days: Annotated[int, Meta(ge=30)] = 90
    """A day is computed again while the hours that it is compared with are kept; what comes later is too late for it."""
    analytics_sessions_retention_days: Annotated[int, Meta(ge=30)] = 730
    """Sessions and weights that KPIs are computed from."""
    analytics_results_retention_days: Annotated[int, Meta(ge=30)] = 1825
    """KPIs and anomalies, from the day on which they were last computed."""


class Rules(msgspec.Struct, frozen=True):
    """The settings of a judgement, read and ready to use."""

    calendar: Calendar
    anomalies: AnomalyLimits
    comfort: dict[str, Limits]

    def comfort_of(self, tenant_id: str, farm_id: str, barn_id: str) -> Limits:
        places = (f"{tenant_id}/{farm_id}/{barn_id}", f"{tenant_id}/{farm_id}", tenant_id)
        return next((self.comfort[place] for place in places if place in self.comfort), Limits())


def rules_of(settings: JudgementSettings) -> Rules:
    """`BadSettings` when the zone or the limits are not what they should be."""
    try:
        calendar = Calendar(ZoneInfo(settings.farm_timezone))
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise BadSettings(
            f"FARM_TIMEZONE is {settings.farm_timezone!r}, which is not a time zone here: {error}"
        ) from error
    try:
        comfort = msgspec.json.decode(settings.comfort_limits or "{}", type=dict[str, Limits])
    except msgspec.DecodeError as error:
        raise BadSettings(f"COMFORT_LIMITS is not what it should be: {error}") from error
    return Rules(calendar, anomaly_limits(settings), comfort)


def anomaly_limits(settings: JudgementSettings) -> AnomalyLimits:
    return AnomalyLimits(
        unusual_z=settings.anomaly_unusual_z,
        flat_hours=settings.anomaly_flat_hours,
        dropout_hours=settings.anomaly_dropout_hours,
        drift_z=settings.anomaly_drift_z,
        weight_z=settings.anomaly_weight_z,
        weight_jump=settings.anomaly_weight_jump,
        batch_jump_per_day=settings.anomaly_batch_jump_per_day,
        vision_disagreement=settings.anomaly_vision_disagreement,
        recent_days=settings.growth_recent_days,
    )
