"""A person before the console in a real browser that may talk to nobody else. `farm` is whose farm the asking folder has."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]  # it has no types
from playwright.sync_api import Browser, Page, StorageState, expect, sync_playwright

from e2e.farm import Farm

CHROMIUM = "/usr/bin/chromium"
SHOTS = os.environ.get("FARMIQ_SCREENSHOTS")
"""A folder: the tests leave pictures of the pages there (docs/images is made so)."""

expect.set_options(timeout=20_000)  # a page waits for services that have other work, on a machine that has too

# Wrong in a page for anybody who can't see it, or sees little.
SERIOUS = {"serious", "critical"}


@pytest.fixture(scope="package")
def environment(farm: Farm) -> dict[str, str]:
    return farm.environment()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Ended with its file: Playwright keeps an event loop running, which asynchronous tests of other files can't have."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-background-networking"]
        )
        yield browser
        browser.close()


class Visitor:
    """A person at the console, who notices everything that goes wrong in the browser."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address
        self.troubles: list[str] = []
        self.hosts: set[str] = set()
        page.on("pageerror", lambda error: self.troubles.append(f"script: {error}"))
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))
        page.on(
            "console",
            lambda message: self.troubles.append(f"console: {message.text}") if message.type == "error" else None,
        )

    def log_in(self, name: str, password: str) -> None:
        self.page.goto(f"{self.address}/login")
        self.page.fill("#name", name)
        self.page.fill("#password", password)
        self.page.click("button.main")
        self.page.wait_for_url(lambda url: "/login" not in url)

    def open(self, path: str) -> Page:
        self.page.goto(self.address + path)
        return self.page

    @contextmanager
    def another_page(self) -> Iterator[Page]:
        """A second tab, live."""
        other = self.page.context.new_page()
        other.goto(f"{self.address}/sync")
        expect(other.locator("#freshness")).to_have_text("live")
        yield other
        other.close()

    def assert_accessible(self) -> None:
        results = Axe().run(self.page)
        serious = [
            f"{found['id']}: {found['help']} at {[node['html'] for node in found['nodes']][:3]}"
            for found in results.response["violations"]
            if found["impact"] in SERIOUS
        ]
        assert serious == []

    def assert_no_trouble(self) -> None:
        assert self.troubles == []
        assert self.hosts <= {urlsplit(self.address).netloc}, "no request leaves the machine"

    def take_picture(self, name: str, kind: Literal["png", "jpg"] = "png") -> None:
        """For the documentation, when it is asked for. A page with photographs on it is a tenth as large as jpg."""
        if SHOTS:
            more: dict[str, Any] = {"type": "jpeg", "quality": 80} if kind == "jpg" else {}
            self.page.screenshot(path=f"{SHOTS}/{name}.{kind}", full_page=True, **more)


@pytest.fixture(scope="package")
def admin_states() -> dict[str, StorageState]:
    """Cookies by the console's address. They outlive the browser, which is another one in each file."""
    return {}


@pytest.fixture
def admin_state(browser: Browser, environment: dict[str, str], admin_states: dict[str, StorageState]) -> StorageState:
    """The cookies of the admin, who logs in once."""
    address = environment["CONSOLE_URL"]
    if address not in admin_states:
        context = browser.new_context()
        Visitor(context.new_page(), address).log_in("admin", environment["CONSOLE_PASSWORD"])
        admin_states[address] = context.storage_state()
        context.close()
    return admin_states[address]


@pytest.fixture
def visitor(browser: Browser, environment: dict[str, str], admin_state: StorageState) -> Iterator[Visitor]:
    """The admin, logged in."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, storage_state=admin_state)
    yield Visitor(context.new_page(), environment["CONSOLE_URL"])
    context.close()


@pytest.fixture
def phone(browser: Browser, environment: dict[str, str], admin_state: StorageState) -> Iterator[Visitor]:
    """The same on a phone, in the dark."""
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, color_scheme="dark", has_touch=True, storage_state=admin_state
    )
    yield Visitor(context.new_page(), environment["CONSOLE_URL"])
    context.close()


def assert_fits(page: Page) -> None:
    """Nothing sticks out to the right of a phone's screen."""
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"the page is {wide} pixels wider than the screen"
