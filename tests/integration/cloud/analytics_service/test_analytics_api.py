import csv
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import aiohttp
import pytest

from farmiq.cloud import viewers
from farmiq.cloud.analytics_service.main import serve
from farmiq.kit.postgres import Pool
from farmiq.timeseries.stream import Origin
from support import analytics_events as events
from support.analytics_service import Analytics
from support.query_api import TOKEN, QueryApi
from support.rabbitmq import NewVirtualHost
from support.service_process import running
from support.stored_months import StoppedClock

NOW = datetime(2026, 3, 15, 23, 30, tzinfo=UTC)
TODAY = NOW.replace(hour=0, minute=0)
KPIS, ANOMALIES = "/api/v1/analytics/kpis", "/api/v1/analytics/anomalies"


class Api(QueryApi):
    async def table(self, path: str) -> list[dict[str, str]]:
        """The tenant's rows as CSV."""
        headers, query = {"authorization": f"Bearer {TOKEN}"}, {"tenant_id": "demo", "format": "csv"}
        async with self._session.get(f"{self._url}{path}", params=query, headers=headers) as answer:
            assert answer.headers["content-type"] == "text/csv; charset=utf-8"
            return list(csv.DictReader((await answer.text()).splitlines()))


@asynccontextmanager
async def api(database_url: str, amqp_url: str) -> AsyncIterator[Api]:
    environ = {
        "DATABASE_URL": database_url,
        "AMQP_URL": amqp_url,
        "ADMIN_TOKEN": TOKEN,
        "JOB_SCHEDULER_ENABLED": "false",
    }
    async with (
        running(serve, "cloud-analytics-service", environ, StoppedClock(NOW)) as url,
        aiohttp.ClientSession() as session,
    ):
        yield Api(session, url)


async def farm(pool: Pool) -> None:
    """Two tenants; two barns; one batch weighed on three days; an animal that jumped."""
    analytics = Analytics(pool, NOW)
    told = [
        events.hour(TODAY + timedelta(hours=hour), 20.0 + hour, origin=Origin(tenant, "farm-1", barn, "node-1"))
        for tenant, barn in (("demo", "barn-1"), ("demo", "barn-2"), ("other", "barn-1"))
        for hour in range(3)
    ]
    for days_ago in range(3):
        session, at = uuid4(), TODAY - timedelta(days=days_ago) + timedelta(hours=7)
        told += [
            events.created(session, at, "b1", initial=10.0 if days_ago == 1 else None),
            events.finalized(session, at, 100.0 - days_ago),
            events.seen(session, at, 101.0 - days_ago),
        ]
    await analytics.take(told)
    await analytics.compute()


def row(found: Any, day: str, scope: str, barn: str = "barn-1") -> Any:
    (one,) = [one for one in found["kpis"] if (one["day"], one["scope"], one["barn_id"]) == (day, scope, barn)]
    return one


async def test_kpis_are_told_by_day_barn_and_batch(cloud_url: str, cloud_pool: Pool, new_vhost: NewVirtualHost) -> None:
    await farm(cloud_pool)
    async with api(cloud_url, new_vhost()) as ask:
        found = await ask.get(KPIS, tenant_id="demo")
        assert found["timezone"] == "UTC"
        assert [(one["day"], one["barn_id"], one["scope"]) for one in found["kpis"]] == [
            ("2026-03-13", "barn-1", "barn"),
            ("2026-03-13", "barn-1", "batch"),
            ("2026-03-14", "barn-1", "barn"),
            ("2026-03-14", "barn-1", "batch"),
            ("2026-03-15", "barn-1", "barn"),
            ("2026-03-15", "barn-1", "batch"),
            ("2026-03-15", "barn-2", "barn"),
        ]
        batch = row(found, "2026-03-15", "batch")
        assert batch["weights"]["mean_kg"] == 100.0
        assert batch["growth"]["batch"]["daily_gain_kg"] == 1.0
        assert batch["vision"]["mean_error_kg"] == 1.0
        barn = row(found, "2026-03-15", "barn")
        assert barn["comfort"]["temperature_max_c"] == 22.0
        assert barn["data"]["hours_present"] == 3

        only = await ask.get(KPIS, tenant_id="demo", batch_id="b1", **{"from": "2026-03-14T00:00:00Z"})
        assert [one["day"] for one in only["kpis"]] == ["2026-03-14", "2026-03-15"]
        until = await ask.get(KPIS, tenant_id="demo", scope="barn", to="2026-03-15T00:00:00Z")
        assert [one["day"] for one in until["kpis"]] == ["2026-03-13", "2026-03-14"]
        elsewhere = await ask.get(KPIS, tenant_id="demo", farm_id="farm-1", barn_id="barn-2")
        assert len(elsewhere["kpis"]) == 1

        pages = await ask.pages(KPIS, tenant_id="demo", limit=2)
        assert [one for page in pages for one in page["kpis"]] == found["kpis"]
        narrow = await ask.pages(KPIS, tenant_id="demo", farm_id="farm-1", barn_id="barn-1", limit=1)
        assert [one for page in narrow for one in page["kpis"]] == [
            one for one in found["kpis"] if one["barn_id"] == "barn-1"
        ]


async def test_anomalies_are_told_with_their_evidence(
    cloud_url: str, cloud_pool: Pool, new_vhost: NewVirtualHost
) -> None:
    await farm(cloud_pool)
    async with api(cloud_url, new_vhost()) as ask:
        (jump,) = (await ask.get(ANOMALIES, tenant_id="demo"))["anomalies"]
        assert (jump["kind"], jump["severity"], jump["batch_id"], jump["day"]) == (
            "weight_jump",
            "critical",
            "b1",
            "2026-03-14",
        )
        (evidence,) = jump["evidence"]
        assert evidence["value"] == 10.0
        assert evidence["upper"] == pytest.approx(99 * 1.15)
        assert evidence["session_id"]
        assert "10 kg" in jump["explanation"]
        assert jump["cleared_at"] is None

        await cloud_pool.execute("UPDATE analytics_anomalies SET cleared_at = now()")
        assert (await ask.get(ANOMALIES, tenant_id="demo"))["anomalies"] == []
        for filters in ({"state": "cleared"}, {"state": "any", "kind": "weight_jump", "batch_id": "b1"}):
            assert len((await ask.get(ANOMALIES, tenant_id="demo", **filters))["anomalies"]) == 1
        assert (await ask.get(ANOMALIES, tenant_id="demo", state="any", kind="drift"))["anomalies"] == []

        await cloud_pool.execute(
            "CREATE TEMP TABLE more AS SELECT one.* FROM analytics_anomalies AS one, generate_series(1, 6);"
            "UPDATE more SET id = gen_random_uuid(); INSERT INTO analytics_anomalies SELECT * FROM more"
        )
        pages = await ask.pages(ANOMALIES, tenant_id="demo", state="any", limit=3)
        ids = [one["id"] for page in pages for one in page["anomalies"]]
        assert len(ids) == len(set(ids)) == 7


async def test_a_viewer_reads_its_tenant_and_no_other(
    cloud_url: str, cloud_pool: Pool, new_vhost: NewVirtualHost
) -> None:
    await farm(cloud_pool)
    async with cloud_pool.acquire() as connection:
        issued = await viewers.add(connection, "data-person", ["other"])
    async with api(cloud_url, new_vhost()) as ask:
        for path in (KPIS, ANOMALIES):
            assert (await ask.ask(path, tenant_id="demo", token="nobody"))[0] == 401
            assert (await ask.ask(path, tenant_id="demo", token=issued.token))[0] == 403
            status, found = await ask.ask(path, tenant_id="other", token=issued.token)
            assert status == 200
        assert [one["barn_id"] for one in (await ask.get(KPIS, tenant_id="other"))["kpis"]] == ["barn-1"]
        assert found["anomalies"] == []


async def test_a_wrong_question_is_refused(cloud_url: str, new_vhost: NewVirtualHost) -> None:
    async with api(cloud_url, new_vhost()) as ask:
        for path in (KPIS, ANOMALIES):
            for wrong in (
                {},
                {"tenant_id": "demo", "from": "2026-03-15T00:00:00"},
                {"tenant_id": "demo", "to": "2026-03-15T00:00:00"},
                {"tenant_id": "demo", "from": "2026-03-16T00:00:00Z", "to": "2026-03-15T00:00:00Z"},
                {"tenant_id": "demo", "to": "0001-01-02T00:00:00Z"},
                {"tenant_id": "demo", "after": "nonsense"},
                {"tenant_id": "demo", "limit": "0"},
                {"tenant_id": "demo", "barn_id": "no/barn"},
            ):
                status, answer = await ask.ask(path, **wrong)
                assert (status, answer["error"]["code"]) == (400, "invalid_request"), wrong
        assert (await ask.ask(ANOMALIES, tenant_id="demo", kind="strange"))[0] == 400


async def test_results_come_as_files_too(cloud_url: str, cloud_pool: Pool, new_vhost: NewVirtualHost) -> None:
    await farm(cloud_pool)
    async with api(cloud_url, new_vhost()) as ask:
        kpis = await ask.table(KPIS)
        assert len(kpis) == 7
        (batch,) = [one for one in kpis if (one["day"], one["scope"]) == ("2026-03-15", "batch")]
        assert (batch["tenant_id"], batch["weights_mean_kg"], batch["growth_batch_daily_gain_kg"]) == (
            "demo",
            "100.0",
            "1.0",
        )
        assert (batch["growth_recent_days"], batch["vision_pairs"], batch["comfort_thi_mean"]) == ("3", "1", "")
        (anomaly,) = await ask.table(ANOMALIES)
        assert (anomaly["kind"], anomaly["start_at"]) == ("weight_jump", "2026-03-14T07:00:00.000000Z")
        assert json.loads(anomaly["evidence"])[0]["value"] == 10.0
        status, answer = await ask.ask(KPIS, tenant_id="demo", format="word")
        assert (status, answer["error"]["code"]) == (400, "invalid_request")
