"""The first page with a farm running: it agrees with the services, and a cut and a heal are seen on it as they happen."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from e2e.console_visit import Visitor, assert_fits
from e2e.farm import Farm
from farmiq.stack.relay.client import RelayClient
from support.waiting import wait_for

WELL = "Everything that was measured in the last 24 h is stored in the cloud."
CUT = re.compile(r"The link to the cloud is down since \d\d:\d\d:\d\d\.")
PATIENCE_MS = 60_000


def ask(page: Page, environment: dict[str, str], variable: str, path: str) -> Any:
    """A service itself, past the console."""
    token = f"Bearer {environment['ADMIN_TOKEN']}"
    answer = page.request.get(f"{environment[variable]}{path}", headers={"authorization": token})
    assert answer.ok, answer.text()
    return answer.json()


def stored_in_cloud(page: Page, environment: dict[str, str]) -> int:
    path = "/api/v1/telemetry/summary?tenant_id=demo"
    return int(ask(page, environment, "CLOUD_TELEMETRY_SERVICE_URL", path)["stored"])


def numbers_in(text: str) -> list[int]:
    return [int(found.replace(",", "")) for found in re.findall(r"\d[\d,]*", text)]


def tile(page: Page, title: str) -> Any:
    return page.locator("#tiles .tile", has_text=title)


def arrow(page: Page, key: str) -> Any:
    return page.locator(f".flow:visible [data-arrow={key}]")


@contextmanager
def cut(farm: Farm, link: str) -> Iterator[None]:
    told = farm.command("demo", "break", link, "--for", "0")
    assert told.returncode == 0, told.stdout + told.stderr
    try:
        yield
    finally:
        RelayClient(farm.home.relay_socket).heal(link)


def test_the_page_says_what_the_services_say(visitor: Visitor, environment: dict[str, str]) -> None:
    page = visitor.open("/")
    expect(page.locator("#sentence")).to_contain_text(WELL, timeout=PATIENCE_MS)
    expect(tile(page, "Stored in the cloud")).to_contain_text("100.00 %")
    expect(tile(page, "Declared lost").locator(".value")).to_have_text("0")
    before = stored_in_cloud(page, environment)
    expect(page.locator("#freshness")).to_have_text("live")

    def shown() -> int:
        return numbers_in(tile(page, "Stored in the cloud").locator(".note").inner_text())[0]

    wait_for(lambda: shown() >= before, what="the page has caught up with what the cloud said")
    assert before <= shown() <= stored_in_cloud(page, environment)
    fleet = ask(page, environment, "EDGE_TELEMETRY_TIMESERIES_URL", "/api/v1/fleet?tenant_id=demo")
    expect(tile(page, "Devices online").locator(".value")).to_have_text(str(fleet["online"]))
    room = ask(page, environment, "EDGE_SYNC_FORWARDER_URL", "/api/v1/sync/room")
    assert room["disk_free_bytes"] > 0
    expect(page.locator("#runway")).to_contain_text(f"({fleet['room_device_id']})")
    visitor.assert_accessible()
    visitor.take_picture("overview")
    visitor.assert_no_trouble()


def test_what_flows_is_measured_at_every_hop(visitor: Visitor) -> None:
    page = visitor.open("/")
    for key, unit in (("devices", "samples/s"), ("cloud", "events/s"), ("database", "samples/s")):
        found = arrow(page, key)
        expect(found).to_have_class(re.compile(r"\bgood\b"), timeout=PATIENCE_MS)
        expect(found).to_contain_text(re.compile(rf"[1-9][\d.,]* {unit}|0\.[1-9] {unit}"), timeout=PATIENCE_MS)
        expect(found.locator(".moving")).to_have_count(1)
    latency = tile(page, "Sensor to cloud")
    expect(latency.locator(".value")).to_contain_text(re.compile(r"\d s|\d min"), timeout=PATIENCE_MS)
    expect(latency).to_contain_text("p99")
    rows = page.locator("[data-hop]")
    assert [row.get_attribute("data-hop") for row in rows.all()] == ["devices", "cloud", "pictures", "database"]
    expect(page.locator(".throughput polyline.line-edge")).not_to_have_count(0, timeout=PATIENCE_MS)
    expect(page.locator(".throughput polyline.line-cloud")).not_to_have_count(0, timeout=PATIENCE_MS)


def test_a_cut_is_seen_live_with_where_everything_is_and_the_heal_too(visitor: Visitor, farm: Farm) -> None:
    page = visitor.open("/")
    expect(page.locator("#sentence")).to_contain_text(WELL, timeout=PATIENCE_MS)
    page.evaluate("document.body.dataset.untouched = 'yes'")
    with cut(farm, "wan"):
        expect(page.locator("#sentence")).to_contain_text(CUT, timeout=PATIENCE_MS)
        expect(page.locator("#sentence")).to_have_class(re.compile(r"\bwarn\b"))
        waits = re.compile(r"\d+ events wait safely on the edge, room for \d+ .*\. Nothing is lost\.")
        expect(page.locator("#rest")).to_contain_text(waits, timeout=PATIENCE_MS)
        expect(arrow(page, "cloud")).to_have_class(re.compile(r"\bbad\b"))
        expect(arrow(page, "cloud")).to_contain_text(re.compile(r"down since .*oldest"), timeout=PATIENCE_MS)
        expect(arrow(page, "cloud").locator(".moving")).to_have_count(0)
        expect(arrow(page, "devices")).to_have_class(re.compile(r"\bgood\b"))
        expect(page.get_by_role("link", name="See what waits")).to_have_attribute("href", "/sync")
        visitor.assert_accessible()
        visitor.take_picture("overview-cut")
    expect(page.locator("#sentence")).to_contain_text(WELL, timeout=PATIENCE_MS)
    expect(tile(page, "Stored in the cloud")).to_contain_text("100.00 %", timeout=PATIENCE_MS)
    expect(tile(page, "Declared lost").locator(".value")).to_have_text("0")
    expect(arrow(page, "cloud")).to_have_class(re.compile(r"\bgood\b"), timeout=PATIENCE_MS)
    assert page.evaluate("document.body.dataset.untouched") == "yes", "the page was never loaded again"
    visitor.assert_no_trouble()


def test_the_headline_is_only_replaced_when_it_changes(visitor: Visitor) -> None:
    """A screen reader says what is put there."""
    page = visitor.open("/")
    expect(page.locator("#sentence")).to_contain_text(WELL, timeout=PATIENCE_MS)
    page.evaluate("document.getElementById('sentence').dataset.same = 'yes'")
    beat = int(page.locator("#freshness").get_attribute("data-beat") or 0)
    page.wait_for_function(
        "beat => Number(document.getElementById('freshness').dataset.beat) >= beat + 3", arg=beat, timeout=PATIENCE_MS
    )
    assert page.locator("#sentence").get_attribute("data-same") == "yes"


def test_on_a_phone_in_the_dark_the_picture_stands_upright(phone: Visitor) -> None:
    page = phone.open("/")
    expect(page.locator("#sentence")).to_contain_text(WELL, timeout=PATIENCE_MS)
    expect(page.locator(".flow.tall")).to_be_visible()
    expect(page.locator(".flow.wide")).to_be_hidden()
    assert_fits(page)
    phone.assert_accessible()
    phone.take_picture("overview-phone")
    phone.assert_no_trouble()


@pytest.mark.parametrize(("wish", "moves"), [("no-preference", True), ("reduce", False)])
def test_nothing_moves_for_those_who_do_not_want_it(
    browser: Browser, environment: dict[str, str], wish: Any, moves: bool
) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion=wish)
    visitor = Visitor(context.new_page(), environment["CONSOLE_URL"])
    visitor.log_in("admin", environment["CONSOLE_PASSWORD"])
    page = visitor.open("/")
    # In one step: each beat draws the picture anew, and what was there before has no style any more.
    style = "() => { const path = document.querySelector('.flow.wide .moving'); return path && getComputedStyle(path).display; }"
    shown = page.wait_for_function(style, timeout=PATIENCE_MS).json_value()
    assert (shown != "none") is moves
    context.close()
