"""The page Growth: days of weighings that a station hands in late, and what analytics makes of them."""

import csv
import io
import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import expect

from e2e.console.spoken import Services, device
from e2e.console_visit import Visitor, assert_fits
from e2e.farm import Farm
from farmiq.contracts import event_types
from farmiq.contracts.weighvision import StationSessionCreated, StationSessionFinalized, WeightRecorded
from farmiq.kit.ids import new_id
from support.waiting import wait_for

BATCH = "batch-grown"
HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script>'
# Kilograms on five days; on the last day somebody has put another batch on the scale.
WEIGHTS = [(50.0, 51.0, 52.0), (50.9, 51.8, 52.8), (51.7, 52.6, 53.5), (52.6, 53.5, 54.4), (90.0, 92.0, 94.0)]
WEIGHT = 'figure.chart[data-chart*="/growth/data/weight"]'


def noon(days_ago: int) -> datetime:
    return datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=days_ago)


@pytest.fixture(scope="module")
def kpis(farm: Farm, environment: dict[str, str]) -> list[dict[str, Any]]:
    """What analytics says of the batch, when it knows all days."""
    services = Services(environment)
    with device(farm, "weigh-station") as station:
        for days_ago, weights in zip(range(len(WEIGHTS), 0, -1), WEIGHTS, strict=True):
            for number, weight_kg in enumerate(weights):
                session_id, at = new_id(), noon(days_ago) + timedelta(minutes=number)
                station.of_session(session_id, event_types.SESSION_CREATED, StationSessionCreated(batch_id=BATCH), at)
                station.of_session(session_id, event_types.WEIGHT_RECORDED, WeightRecorded(weight_kg=weight_kg), at)
                ended = StationSessionFinalized(image_count=0, final_weight_kg=weight_kg)
                station.of_session(session_id, event_types.SESSION_FINALIZED, ended, at + timedelta(seconds=20))

    def all_days() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = services.get("cloud-analytics-service", "/api/v1/analytics/kpis", batch_id=BATCH)[
            "kpis"
        ]
        done = [row for row in found if row["weights"]["animals_weighed"] == 3 and row["growth"] is not None]
        return found if len(found) == len(WEIGHTS) and len(done) >= len(WEIGHTS) - 1 else []

    return wait_for(all_days, 60, "the days of the batch in analytics")


def test_the_weight_over_days_has_the_figures_of_the_api(visitor: Visitor, kpis: list[dict[str, Any]]) -> None:
    page = visitor.open(f"/growth?batch={BATCH}&range=31d")
    chart = page.locator(WEIGHT)
    expect(chart.locator("canvas")).to_be_visible(timeout=15_000)
    chart.locator("details.figures summary").click()
    expect(chart.locator("tbody tr")).to_have_count(len(WEIGHTS))
    shown = [row.locator("td").all_inner_texts() for row in chart.locator("tbody tr").all()]
    assert [(row[0], row[1], row[5]) for row in shown] == [(one["day"], BATCH, "kg") for one in reversed(kpis)]
    for row, one in zip(shown, reversed(kpis), strict=True):
        told = (one["weights"]["mean_kg"], one["weights"]["p10_kg"], one["weights"]["p90_kg"])
        assert [float(text) for text in row[2:5]] == [pytest.approx(value, rel=1e-5) for value in told]
    expect(chart.locator(".summary")).to_contain_text(f"{BATCH}: {len(WEIGHTS)} points")
    expect(page.locator("figure.chart")).to_have_count(7)
    visitor.assert_accessible()
    visitor.take_picture("growth")
    visitor.assert_no_trouble()


def test_the_table_and_its_csv_have_every_day(visitor: Visitor, kpis: list[dict[str, Any]]) -> None:
    page = visitor.open(f"/growth?batch={BATCH}&range=31d")
    row = page.locator("main > .scroll tbody tr").nth(1)
    expect(row).to_contain_text(kpis[-2]["day"])
    expect(row).to_contain_text(f"{kpis[-2]['weights']['mean_kg']:.2f}")
    expect(row).to_contain_text(f"{kpis[-2]['growth']['batch']['daily_gain_kg']:.3f}")
    answer = page.request.get(visitor.address + (page.locator("a[download]").first.get_attribute("href") or ""))
    rows = [each for each in csv.DictReader(io.StringIO(answer.text())) if each["batch_id"] == BATCH]
    assert [each["day"] for each in rows] == [one["day"] for one in kpis]
    assert [float(each["mean_kg"]) for each in rows] == pytest.approx([one["weights"]["mean_kg"] for one in kpis])
    visitor.assert_no_trouble()


def test_what_is_not_as_it_should_be_comes_with_its_evidence(visitor: Visitor, kpis: list[dict[str, Any]]) -> None:
    page = visitor.open(f"/growth?batch={BATCH}&range=31d")
    found = page.locator("details.card", has_text="batch jump")
    expect(found).to_have_count(1)
    expect(found).to_contain_text(kpis[-1]["day"])
    found.locator("summary").click()
    expect(found.locator("tbody tr").first).to_be_visible()
    visitor.assert_accessible()
    visitor.take_picture("growth-anomalies")
    visitor.assert_no_trouble()


def test_words_that_came_from_outside_are_shown_as_words(visitor: Visitor, farm: Farm) -> None:
    day: date = noon(20).date()
    evidence = json.dumps([{"at": noon(20).isoformat(), "value": 1.0, "unit": HOSTILE, "note": HOSTILE}])
    farm.fetch(
        "cloud",
        "INSERT INTO analytics_anomalies (tenant_id, id, farm_id, barn_id, day, kind, severity, start_at, explanation,"
        " evidence, evidence_count, detected_at, updated_at)"
        " VALUES ('demo', $1, 'farm-1', 'barn-1', $2, 'flat_line', 'critical', now(), $3, $4::text::jsonb, 1, now(), now())",
        new_id(), day, HOSTILE, evidence,
    )  # fmt: skip
    page = visitor.open("/growth?range=31d")
    found = page.locator("details.card", has_text="flat line")
    expect(found).to_contain_text(HOSTILE)
    found.locator("summary").click()
    expect(found.locator("tbody")).to_contain_text(HOSTILE)
    assert page.locator("main img").count() == 0
    expect(page).to_have_title("Growth · FarmIQ")
    visitor.assert_no_trouble()


def test_while_analytics_is_away_the_page_says_so_and_stays(visitor: Visitor, farm: Farm) -> None:
    with farm.stopped("cloud-analytics-service"):
        page = visitor.open("/growth")
        expect(page.locator(".notice.bad").first).to_contain_text("cloud-analytics-service does not answer")
        expect(page.locator(WEIGHT).locator(".notes")).to_contain_text("does not answer", timeout=15_000)
    visitor.assert_no_trouble()


def test_on_a_phone_in_the_dark(phone: Visitor, kpis: list[dict[str, Any]]) -> None:
    page = phone.open(f"/growth?batch={BATCH}")
    expect(page.locator(WEIGHT).locator("canvas")).to_be_visible(timeout=15_000)
    expect(page.locator(f"{WEIGHT} .summary")).to_contain_text(f"{len(kpis)} points")
    assert_fits(page)
    phone.assert_accessible()
    phone.take_picture("growth-phone")
    phone.assert_no_trouble()
