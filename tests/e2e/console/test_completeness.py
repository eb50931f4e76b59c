"""Is anything missing, when, where is it now, what do I do: answered from the page, of a farm that runs."""

import csv
import io
import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Route, expect

from e2e.console.speaking_device import SpeakingDevice
from e2e.console_visit import Visitor, assert_fits
from e2e.farm import Farm
from support.waiting import wait_for

SLOW = 30_000


@pytest.fixture(scope="module")
def torn(farm: Farm) -> Iterator[SpeakingDevice]:
    """30 samples of which 11 to 20 never came, and 31 to 40 were declared lost. It says nothing of what it holds."""
    with SpeakingDevice(farm, "torn-1") as device:
        device.measure(1, 10)
        device.measure(21, 30)
        device.lose(31, 40)
        yield device


def lines_of(visitor: Visitor, address: str, timeout: float = SLOW) -> list[dict[str, str]]:
    answer = visitor.page.request.get(visitor.address + address, timeout=timeout)
    assert answer.status == 200, answer.text()
    assert answer.headers["content-type"].startswith("text/csv")
    return list(csv.DictReader(io.StringIO(answer.text())))


def test_a_whole_device_is_stored_and_a_field_says_so_in_words(farm: Farm, visitor: Visitor) -> None:
    farm.wait_until_cloud_has(50)
    page = visitor.open("/completeness?q=node-1")
    row = page.get_by_role("row", name="node-1")
    expect(row.locator("a.cell")).to_have_count(24)
    field = row.locator("a.cell.stored, a.cell.in_flight").last
    expect(field).to_have_attribute("aria-label", re.compile(r"node-1, .*: .*stored in the cloud"))
    expect(page.locator("p.sentence")).to_contain_text(re.compile("Nothing is missing|is stored in the cloud"))
    field.click()
    detail = page.locator("#cell article")
    expect(detail).to_contain_text("Stored in the cloud")
    expect(detail.get_by_role("heading", name="What to do")).to_be_visible()
    visitor.assert_accessible()
    visitor.take_picture("completeness")
    visitor.assert_no_trouble()


def test_a_hole_that_nobody_explains_and_a_declared_loss_are_told_apart(visitor: Visitor, torn: SpeakingDevice) -> None:
    page = visitor.page
    visitor.open("/completeness?q=torn-1")
    row = page.get_by_role("row", name=torn.device_id)
    expect(row.locator("a.cell.unexplained")).not_to_have_count(0, timeout=SLOW)
    expect(page.locator("p.sentence.bad")).to_contain_text("nobody has explained why")

    def is_told() -> bool:
        lines = lines_of(visitor, "/completeness.csv?q=torn-1")
        found = {
            name: sum(int(line[name] or 0) for line in lines) for name in ("in_cloud", "declared_lost", "unexplained")
        }
        return found == {"in_cloud": 20, "declared_lost": 10, "unexplained": 10}

    wait_for(is_told, 30, "20 samples in the cloud, 10 declared lost, 10 unexplained")
    visitor.open("/completeness?q=torn-1&only=missing")
    row.locator("a.cell.unexplained").first.click()
    detail = page.locator("#cell article")
    expect(detail.get_by_role("table").first).to_contain_text("11")
    expect(detail).to_contain_text("nowhere: the device does not say what it holds")
    expect(detail).to_contain_text("the node's disk allowance was full")
    visitor.assert_accessible()
    detail.get_by_role("link", name="Permalink").click()
    expect(page.locator("main article h2")).to_contain_text("torn-1")
    visitor.assert_no_trouble()


def test_a_node_s_own_word_turns_the_hole_into_something_on_its_way(visitor: Visitor, torn: SpeakingDevice) -> None:
    torn.status(last_captured_seq=40, unacked_count=10, last_acked_seq=10)
    page = visitor.open("/completeness?q=torn-1")
    row = page.get_by_role("row", name=torn.device_id)
    reload_until(visitor, lambda: row.locator("a.cell.unexplained").count() == 0)
    expect(row.locator("a.cell.in_flight").last).to_have_attribute("aria-label", re.compile("on the node's own disk"))
    torn.measure(11, 20)
    reload_until(visitor, lambda: row.locator("a.cell.in_flight, a.cell.unexplained").count() == 0)
    expect(row.locator("a.cell.lost")).not_to_have_count(0)


def test_the_keys_go_from_field_to_field(visitor: Visitor) -> None:
    page = visitor.open("/completeness?q=node-1")
    cells = page.locator(".grid a.cell")
    assert cells.evaluate_all("cells => cells.filter((cell) => cell.tabIndex === 0).length") == 1, "one stop for Tab"
    cells.first.focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    expect(cells.nth(22)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#cell article")).to_be_visible()


def test_a_field_is_shown_while_the_grid_is_being_refreshed(visitor: Visitor) -> None:
    page = visitor.page
    held: list[Route] = []
    page.route(
        re.compile(r"/completeness\?"),
        lambda route: held.append(route) if "hx-request" in route.request.headers else route.continue_(),
    )
    visitor.open("/completeness?q=node-1")
    page.evaluate("htmx.trigger(document.body, 'pulse')")
    while not held:
        page.wait_for_timeout(20)
    page.locator(".grid a.cell").last.click()
    expect(page.locator("#cell article")).to_contain_text("Stored in the cloud")
    held[0].continue_()
    page.unroute_all(behavior="wait")
    visitor.assert_no_trouble()


def test_a_cloud_that_does_not_answer_makes_no_field_complete(farm: Farm, visitor: Visitor) -> None:
    with farm.stopped("cloud-telemetry-service"):
        page = visitor.page
        page.goto(f"{visitor.address}/completeness?q=node-1", timeout=SLOW)
        expect(page.locator("#grid .notice.bad").first).to_contain_text("cloud-telemetry-service does not answer")
        row = page.get_by_role("row", name="node-1")
        expect(row.locator("a.cell.unknown")).not_to_have_count(0)
        expect(row.locator("a.cell.stored")).to_have_count(0)
        expect(page.locator("p.sentence.warn")).to_contain_text("not known")
        assert visitor.page.request.get(f"{visitor.address}/completeness.csv", timeout=SLOW).status == 503
    reload_until(visitor, lambda: page.locator("a.cell.unknown").count() == 0)


def test_days_and_a_week_and_a_link_that_stays(visitor: Visitor) -> None:
    page = visitor.open("/completeness?range=7d&q=node-1")
    expect(page.locator(".grid tbody tr").first.locator("a.cell")).to_have_count(168)
    page.get_by_role("link", name="31d").click()
    expect(page.locator(".grid tbody tr").first.locator("a.cell")).to_have_count(31)
    page.get_by_role("link", name="Permalink").click()
    expect(page).to_have_url(re.compile("since=.*until="))
    expect(page.locator(".grid tbody tr").first.locator("a.cell")).to_have_count(31)
    assert page.request.get(f"{visitor.address}/completeness?since=2000-01-01T00:00:00Z").status == 400


def test_a_name_that_is_none_is_shown_as_text(visitor: Visitor) -> None:
    page = visitor.open("/completeness?q=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
    expect(page.locator("#grid .empty")).to_contain_text("<img src=x onerror=alert(1)>")
    assert page.locator("img[src='x']").count() == 0
    visitor.assert_no_trouble()


def test_it_fits_a_phone(phone: Visitor) -> None:
    page = phone.open("/completeness")
    expect(page.locator(".grid tbody tr").first).to_be_visible()
    assert_fits(page)
    phone.assert_accessible()
    phone.take_picture("completeness-phone")


def reload_until(visitor: Visitor, condition: Callable[[], bool]) -> None:
    def is_so_now() -> bool:
        visitor.page.reload()
        return condition()

    try:
        wait_for(is_so_now, 60, "the grid as it should be")
    except AssertionError as error:
        error.add_note(visitor.page.locator("#grid").inner_text())
        raise
