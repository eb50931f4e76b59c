"""The page Telemetry with a farm running: what it draws can be read too, and says the same as the API."""

import csv
import io
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from e2e.console.spoken import Device, Services, device
from e2e.console_visit import Visitor, assert_fits
from e2e.farm import Farm
from farmiq.contracts.telemetry import Channel
from support.waiting import wait_for

HOSTILE = "<img src=x onerror=alert(1)>"
CHART = "figure.chart"


@pytest.fixture
def services(environment: dict[str, str]) -> Services:
    return Services(environment)


def address(path: str = "/telemetry", **asked: object) -> str:
    return f"{path}?{urlencode(asked, doseq=True)}"


def drawn(page: Page) -> None:
    expect(page.locator(f"{CHART} canvas")).to_be_visible(timeout=15_000)
    expect(page.locator(CHART)).to_have_attribute("data-points", re.compile(r"^[1-9]"))


def figures(page: Page) -> list[list[str]]:
    """The rows of the table beside the chart."""
    page.locator(f"{CHART} details.figures summary").click()
    rows = page.locator(f"{CHART} details.figures tbody tr")
    expect(rows.first).to_be_visible(timeout=15_000)
    found: list[list[str]] = rows.evaluate_all("rows => rows.map(row => [...row.cells].map(cell => cell.textContent))")
    return found


def rounded(value: float) -> str:
    return str(float(f"{value:.6g}")).removesuffix(".0")


def test_the_chart_and_its_table_have_the_figures_of_the_api(visitor: Visitor, services: Services) -> None:
    until = datetime.now(UTC)
    since = until - timedelta(seconds=20)
    asked = {"device_id": "node-1", "metric": "temperature", "sensor": "t1"}

    def stored(begin: datetime, end: datetime) -> list[dict[str, Any]]:
        times = {"from": begin.isoformat(), "to": end.isoformat()}
        answer = services.get("cloud-telemetry-service", "/api/v1/telemetry/readings", **asked, **times, limit=100)
        return list(answer["readings"])

    # Once a later one is there, no more is coming of this time.
    wait_for(lambda: stored(until, datetime.now(UTC)), 30, "a later reading in the cloud")
    fixed = {"since": since.isoformat(), "until": until.isoformat()}
    page = visitor.open(address(device="node-1", metric="temperature", sensor="t1", tier="cloud", **fixed))
    drawn(page)
    expected = [
        (one["occurred_at"][:19].replace("T", " "), rounded(one["metric_value"])) for one in stored(since, until)
    ]
    shown = [(row[0], row[2]) for row in figures(page)]
    assert expected
    assert shown[: len(expected)] == expected
    expect(page.locator(f"{CHART} .summary")).to_contain_text("node-1")
    expect(page.locator(f"{CHART} .notes")).to_contain_text("As the cloud has it.")
    visitor.assert_accessible()
    visitor.assert_no_trouble()


PATIENCE_MS = 90_000  # points are minutes in a farm that has run for long


def test_the_chart_goes_on_by_itself_and_can_be_read_with_the_keyboard(visitor: Visitor) -> None:
    page = visitor.open(address(device="node-1", metric="temperature", range="15m"))
    drawn(page)
    # The number of points stays the same once the range is full; the last one is always a later one.
    summary = page.locator(f"{CHART} .summary")
    expect(summary).not_to_have_text(summary.inner_text(), timeout=PATIENCE_MS)
    page.locator(f"{CHART} .plot").focus()
    page.keyboard.press("End")
    spoken = page.locator(f"{CHART} .spoken")
    expect(spoken).to_have_text(re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC: node-1 t[12] [\d.]+ C"))
    last = spoken.inner_text()
    page.keyboard.press("ArrowLeft")
    expect(spoken).not_to_have_text(last)
    visitor.take_picture("telemetry")
    visitor.assert_no_trouble()


def test_a_long_range_shows_means_with_their_spread_and_names_the_tier(visitor: Visitor, services: Services) -> None:
    asked = {"device_id": "node-1", "metric": "temperature", "sensor": "t1", "window": "1m"}

    def minutes() -> dict[str, str]:
        found = services.get("edge-telemetry-timeseries", "/api/v1/telemetry/aggregates", **asked)["buckets"]
        return {one["bucket_start_at"][:19].replace("T", " "): rounded(one["avg_value"]) for one in found}

    before = minutes()
    page = visitor.open(address(device="node-1", metric="temperature", sensor="t1", range="24h", tier="edge"))
    drawn(page)
    expect(page.locator(f"{CHART} .notes")).to_contain_text("As the edge has it. Each point is the mean of one minute")
    rows = figures(page)
    assert all(float(row[3]) <= float(row[2]) <= float(row[4]) for row in rows)
    after, shown = minutes(), {row[0]: row[2] for row in rows}
    # A minute that is still being filled is as new as when it was asked for.
    assert before
    assert all(shown[at] in {before[at], after[at]} or before[at] != after[at] for at in before)
    visitor.assert_no_trouble()


@pytest.fixture
def torn(farm: Farm, services: Services) -> Device:
    """Samples of an hour ago that come now, with a declared loss and a hole among them."""
    begin = datetime.now(UTC) - timedelta(minutes=50)
    channel = Channel(metric="temperature", unit="C", sensor="t1")

    def times(first: int, last: int) -> list[datetime]:
        return [begin + timedelta(seconds=seq) for seq in range(first, last + 1)]

    with device(farm, "node") as speaker:
        for first, last in ((1, 300), (601, 900), (1201, 1500)):
            speaker.batch(first, times(first, last), [20.0 + seq / 100 for seq in range(first, last + 1)], channel)
        speaker.reading("humidity", 55.5, HOSTILE, datetime.now(UTC))
        speaker.loss(301, 600, times(301, 301)[0], times(600, 600)[0], datetime.now(UTC))

        def arrived() -> bool:
            asked = {"device_id": speaker.device_id}
            streams = services.get("cloud-telemetry-service", "/api/v1/streams", **asked)["streams"]
            return [(one["stored"], one["lost"], one["missing"]) for one in streams] == [(900, 300, 300)]

        wait_for(arrived, 30, "the samples and the loss in the cloud")
    return speaker


def test_what_was_lost_is_missing_or_came_late_is_shaded_and_said(visitor: Visitor, torn: Device) -> None:
    page = visitor.open(address(device=torn.device_id, metric="temperature", range="1h"))
    drawn(page)
    summary = page.locator(f"{CHART} .summary")
    expect(summary).to_contain_text(f"{torn.device_id}: 300 samples declared lost (spool_cap).")
    expect(summary).to_contain_text(f"{torn.device_id}: 300 samples missing here.")
    expect(summary).to_contain_text(f"{torn.device_id}: some came late, up to")
    expect(page.locator(f"{CHART} .legend .band")).to_have_count(3)
    for words in ("declared lost", "missing here", "came late"):
        expect(page.locator(f"{CHART} .legend")).to_contain_text(words)
    answer = page.request.get(visitor.address + (page.locator("a[download]").get_attribute("href") or ""))
    rows = list(csv.DictReader(io.StringIO(answer.text())))
    assert (len(rows), rows[0]["unit"], rows[0]["device_id"]) == (900, "C", torn.device_id)
    visitor.assert_accessible()
    visitor.take_picture("telemetry-bands")
    visitor.assert_no_trouble()


def test_a_unit_is_only_text_whatever_is_in_it(visitor: Visitor, torn: Device) -> None:
    page = visitor.open(address(device=torn.device_id, metric="humidity", range="1h"))
    drawn(page)
    expect(page.locator(f"{CHART} .summary")).to_contain_text(f"55.5 {HOSTILE}")
    expect(page.locator(f"{CHART} .legend")).to_contain_text(HOSTILE)
    assert figures(page)[0][-1] == HOSTILE
    assert page.locator("main img").count() == 0
    visitor.assert_no_trouble()


def test_devices_are_compared_and_the_permalink_shows_the_same_again(visitor: Visitor, torn: Device) -> None:
    page = visitor.open(address(device="node-1", metric="temperature", range="1h"))
    page.get_by_role("link", name=f"+ {torn.device_id}").click()
    drawn(page)
    legend = page.locator(f"{CHART} .legend")
    expect(legend).to_contain_text("node-1")
    expect(legend).to_contain_text(torn.device_id)
    page.get_by_role("link", name="Permalink").click()
    page.wait_for_url(re.compile("since=.*until="))
    drawn(page)
    expect(legend).to_contain_text(torn.device_id)
    visitor.assert_no_trouble()


def test_while_the_cloud_is_away_the_edges_data_are_shown_and_said_so(visitor: Visitor, farm: Farm) -> None:
    with farm.stopped("cloud-telemetry-service"):
        page = visitor.open(address(device="node-1", metric="temperature", range="15m"))
        drawn(page)
        expect(page.locator(f"{CHART} .notes")).to_contain_text("does not answer: this is what the edge has.")
        page = visitor.open(address(device="node-1", metric="temperature", range="15m", tier="cloud"))
        expect(page.locator(f"{CHART} .notes")).to_contain_text(
            "cloud-telemetry-service does not answer", timeout=15_000
        )
        expect(page.locator("h1")).to_have_text("Telemetry")
    visitor.assert_no_trouble()


@pytest.mark.parametrize("asked", [{"device": "no-such-device", "metric": "temperature"}, {"range": "15m"}])
def test_nothing_measured_is_said_and_nothing_asked_for_shows_something(
    visitor: Visitor, asked: dict[str, str]
) -> None:
    page = visitor.open(address(**asked))
    expect(page.locator(f"{CHART} .summary")).to_have_text(re.compile("Nothing was measured|points"))
    visitor.assert_no_trouble()


def test_on_a_phone_in_the_dark(phone: Visitor) -> None:
    page = phone.open(address(device="node-1", metric="temperature", range="1h"))
    drawn(page)
    assert_fits(page)
    phone.assert_accessible()
    phone.take_picture("telemetry-phone")
    phone.assert_no_trouble()
