from collections.abc import Mapping
from functools import partial

from farmiq.cloud.analytics_service.cleanup import forget_facts, forget_results, notice_silence
from farmiq.cloud.analytics_service.settings import AnalyticsRetentionSettings, JudgementSettings, rules_of
from farmiq.kit.jobs import Job
from farmiq.kit.settings import load

HOUR_SECONDS = 3600.0


def jobs(environ: Mapping[str, str]) -> list[Job]:
    settings = load(AnalyticsRetentionSettings, environ)
    calendar = rules_of(load(JudgementSettings, environ)).calendar
    return [
        Job(
            "cloud-analytics-silence",
            HOUR_SECONDS,
            "mark today of every barn heard lately, so that silence is noticed",
            partial(notice_silence, calendar),
        ),
        Job(
            "cloud-analytics-retention",
            6 * HOUR_SECONDS,
            "forget hours past ANALYTICS_HOURS_RETENTION_DAYS and sessions past ANALYTICS_SESSIONS_RETENTION_DAYS",
            partial(forget_facts, settings),
        ),
        Job(
            "cloud-analytics-results-retention",
            24 * HOUR_SECONDS,
            "forget KPIs and anomalies past ANALYTICS_RESULTS_RETENTION_DAYS",
            partial(forget_results, settings),
        ),
    ]
