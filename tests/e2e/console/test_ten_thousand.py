"""A farm with ten thousand devices that have all been measuring for a day: every page is usable."""

import csv
import io
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from e2e.console.ten_thousand import MANY, ONE_IN_HOLES, ten_thousand
from e2e.console_visit import Visitor
from e2e.farm import Farm

pytestmark = pytest.mark.timeout(300)

SLOW = 30_000


@pytest.fixture(scope="module")
def many(farm: Farm) -> Iterator[None]:
    with ten_thousand(farm):
        yield


def test_ten_thousand_devices_are_paged_and_searched(many: None, visitor: Visitor) -> None:
    page = visitor.page
    page.set_default_timeout(2 * SLOW)
    visitor.open("/completeness")
    expect(page.locator(".grid tbody tr")).to_have_count(50)
    page.get_by_role("link", name="Next devices").click()
    expect(page.locator(".grid tbody tr")).to_have_count(50)
    expect(page.get_by_role("link", name="First devices")).to_be_visible()
    page.fill("main input[name=q]", "zz-0999")
    page.locator("form[action='/completeness'] button").click()
    expect(page.locator(".grid tbody tr")).to_have_count(10)
    visitor.open("/completeness?only=missing&q=zz-")
    expect(page.locator(".grid tbody th a", has_text="zz-")).to_have_count(MANY // ONE_IN_HOLES)
    visitor.open("/devices?q=zz-")
    expect(page.locator("#devices tbody tr")).to_have_count(50)
    answer = page.request.get(f"{visitor.address}/devices.csv?q=zz-", timeout=2 * SLOW)
    lines = list(csv.DictReader(io.StringIO(answer.text())))
    assert len(lines) == MANY
    assert {(line["state"], line["in_edge_seq"]) for line in lines} == {("online", "86400"), ("online", "99")}
    visitor.assert_no_trouble()


def test_the_other_pages_are_usable_with_ten_thousand_devices_too(many: None, visitor: Visitor) -> None:
    page = visitor.page
    page.set_default_timeout(2 * SLOW)
    visitor.open("/")
    online = page.locator(".tile", has_text="Devices online").locator(".value")
    expect(online).to_have_text(re.compile(r"^10,\d{3}$"), timeout=2 * SLOW)
    stored = page.locator(".tile", has_text="Stored in the cloud").locator(".note")
    expect(stored).to_contain_text(re.compile(r"of 8\d\d,\d{3},\d{3} samples"), timeout=4 * SLOW)
    page.keyboard.press("/")
    page.keyboard.type("zz-09999")
    expect(page.locator("#found a").first).to_contain_text("zz-09999")
    visitor.open("/telemetry?device=zz-00500&metric=temperature&range=7d")
    expect(page.locator("figure.chart canvas").first).to_be_visible(timeout=2 * SLOW)
    for path in ("/alerts", "/health", "/sync", "/losses", "/devices/zz-00500"):
        visitor.open(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
    visitor.assert_no_trouble()
