"""The ledger on the page: what was given up, by whom, why, where it is written down."""

import csv
import io
import re

import pytest
from playwright.sync_api import expect

from e2e.console.speaking_device import SpeakingDevice
from e2e.console_visit import Visitor, assert_fits
from e2e.farm import Farm
from support.waiting import wait_for

HOSTILE = '=HYPERLINK("x")<img src=x onerror="document.title=1">'


@pytest.fixture(scope="module")
def losers(farm: Farm) -> None:
    with SpeakingDevice(farm, "loser-1") as node:
        node.measure(1, 10)
        node.lose(11, 60, "cap_reached")
        node.lose(61, 70, "word-of-my-own")
    with SpeakingDevice(farm, "loser-2", "weigh-station") as station:
        station.event(
            "station.loss", {"reason": "too_old", "dropped_at": "2026-05-07T13:00:00Z", "count": 3, "pictures": 2}
        )
        station.event("station.loss", {"reason": HOSTILE, "count": 1})
        station.event("station.loss", {"reason": ["nothing", "of the kind"]})


def open_when_told(visitor: Visitor) -> None:
    visitor.open("/losses")

    def is_told() -> bool:
        visitor.page.reload()
        told = visitor.page.locator("main").inner_text()
        return told.count("loser-1") == 2 and told.count("loser-2") == 3 and "on its way" not in told

    try:
        wait_for(is_told, 45, "five losses, all of them in the cloud")
    except AssertionError as error:
        error.add_note(visitor.page.locator("main").inner_text())
        raise


def test_nodes_and_stations_stand_in_one_ledger_with_the_cause_in_words(visitor: Visitor, losers: None) -> None:
    open_when_told(visitor)
    page = visitor.page
    row = page.get_by_role("row", name=re.compile(r"loser-1.*11 . 60"))
    expect(row).to_contain_text("the node's disk allowance was full")
    expect(row.locator("td").nth(2)).to_have_text("50")
    expect(row).to_contain_text("edge")
    expect(row).to_contain_text("cloud")
    expect(page.get_by_role("row", name=re.compile("loser-1.*61 . 70"))).to_contain_text("word-of-my-own")
    expect(page.locator("main")).to_contain_text("the station could not reach the edge for too long")
    expect(page.locator("main")).to_contain_text("not readable")
    expect(page.locator("p.sentence.warn")).to_contain_text("were given up")
    expect(page.locator("table.months tbody tr").first).to_be_visible()
    visitor.assert_accessible()
    visitor.take_picture("losses")


def test_what_stands_in_a_loss_is_text_on_the_page_and_in_a_spreadsheet(visitor: Visitor, losers: None) -> None:
    open_when_told(visitor)
    page = visitor.page
    expect(page.locator("main")).to_contain_text(HOSTILE)
    assert page.locator("img[src='x']").count() == 0
    assert page.title() == "Losses · FarmIQ"
    lines = list(csv.DictReader(io.StringIO(page.request.get(f"{visitor.address}/losses.csv").text())))
    causes = [line["cause"] for line in lines if line["device_id"] == "loser-2"]
    assert f"'{HOSTILE}" in causes
    (full,) = [line for line in lines if line["first_seq"] == "11" and line["device_id"] == "loser-1"]
    assert (full["last_seq"], full["count"], full["reason"]) == ("60", "50", "cap_reached")
    assert full["recorded_at_edge"]
    assert full["recorded_in_cloud_at"]
    visitor.assert_no_trouble()


def test_a_device_and_a_cause_narrow_it_down_and_the_link_stays(visitor: Visitor, losers: None) -> None:
    open_when_told(visitor)
    page = visitor.page
    page.fill("input[name=device]", "loser-1")
    page.select_option("select[name=reason]", "cap_reached")
    page.locator("form[action='/losses'] button").click()
    expect(page.locator("main .scroll table").first.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="Permalink").click()
    expect(page.locator("main .scroll table").first.locator("tbody tr")).to_have_count(1)
    visitor.open("/losses?device=%3Cb%3E")
    expect(page.locator(".empty")).to_contain_text("Nothing was lost that fits")
    visitor.assert_no_trouble()


def test_with_the_cloud_away_the_edge_still_knows_its_losses(farm: Farm, visitor: Visitor, losers: None) -> None:
    open_when_told(visitor)
    with farm.stopped("cloud-telemetry-service"):
        page = visitor.page
        page.goto(f"{visitor.address}/losses?device=loser-1", timeout=30_000)
        expect(page.locator(".notice.bad").first).to_contain_text("cloud-telemetry-service does not answer")
        expect(page.locator("main .scroll table").first.locator("tbody tr")).to_have_count(2)
        expect(page.locator("main")).to_contain_text("cloud: not known")


def test_it_fits_a_phone(phone: Visitor, losers: None) -> None:
    page = phone.open("/losses")
    expect(page.locator("h1")).to_be_visible()
    assert_fits(page)
    phone.assert_accessible()
