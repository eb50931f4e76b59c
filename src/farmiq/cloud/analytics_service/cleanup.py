"""Work that comes round: the passing of time, which is no event, and rows too old to keep."""

from datetime import timedelta
from typing import Final

from farmiq.cloud.analytics_service import marks
from farmiq.cloud.analytics_service.barn_day import DAYS_BEFORE
from farmiq.cloud.analytics_service.days import Calendar
from farmiq.cloud.analytics_service.settings import AnalyticsRetentionSettings
from farmiq.kit.jobs import Report, Work
from farmiq.kit.sweep import sweep

YESTERDAY_HOURS: Final = 8
"""So long into a day the last hours of yesterday may still turn out to be missing."""

_FORGET_SERIES: Final = (
    "WITH gone AS (DELETE FROM analytics_series WHERE heard_at < $1 RETURNING 1) SELECT count(*) FROM gone"
)
_OLD_SERIES: Final = "SELECT count(*) FROM analytics_series WHERE heard_at < $1"


async def notice_silence(calendar: Calendar, work: Work) -> Report:
    """Mark today, and early in the day yesterday, of every barn that was heard in the days that today is compared with."""
    now = work.clock.now()
    heard_since, today = now - timedelta(days=DAYS_BEFORE), calendar.day_of(now)
    if work.is_dry_run:
        return {"barns": await marks.count_barns(work.connection, heard_since)}
    is_early = now - calendar.start_of(today) < timedelta(hours=YESTERDAY_HOURS)
    days = [today - timedelta(days=1), today] if is_early else [today]
    return {"barns": await marks.mark_barns(work.connection, heard_since, days)}


async def forget_facts(settings: AnalyticsRetentionSettings, work: Work) -> Report:
    """What KPIs are made of."""
    hours_before = work.cutoff(timedelta(days=settings.analytics_hours_retention_days))
    sessions_before = work.cutoff(timedelta(days=settings.analytics_sessions_retention_days))
    return {
        "hours": await sweep(work, "analytics_hours", "hour_at", hours_before),
        "losses": await sweep(work, "analytics_losses", "last_at", hours_before),
        "series": int(await work.connection.fetchval(_OLD_SERIES if work.is_dry_run else _FORGET_SERIES, hours_before)),
        "sessions": await sweep(work, "analytics_sessions", "touched_at", sessions_before),
        "weights": await sweep(work, "analytics_weights", "occurred_at", sessions_before),
        "inferences": await sweep(work, "analytics_inferences", "occurred_at", sessions_before),
    }


async def forget_results(settings: AnalyticsRetentionSettings, work: Work) -> Report:
    """KPIs and anomalies that nobody has computed for so long."""
    before = work.cutoff(timedelta(days=settings.analytics_results_retention_days))
    return {
        "kpis": await sweep(work, "analytics_kpis", "computed_at", before),
        "anomalies": await sweep(work, "analytics_anomalies", "updated_at", before),
    }
