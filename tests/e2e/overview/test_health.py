"""Every service with its checks, one that is killed and comes back, and a link that was cut on purpose."""

import os
import re
import signal

from playwright.sync_api import expect

from e2e.console_visit import Visitor, assert_fits
from e2e.farm import Farm
from farmiq import __version__
from farmiq.contracts.services import SERVICES
from farmiq.stack.relay.client import RelayClient

PATIENCE_MS = 60_000
SERVICES_SHOWN = [service.name for service in SERVICES if service.tier in {"edge", "cloud"}]


def test_every_service_is_shown_with_its_checks_and_its_version(visitor: Visitor) -> None:
    page = visitor.open("/health")
    expect(page.locator("#health-sentence")).to_contain_text(
        f"All {len(SERVICES_SHOWN)} services are ready.", timeout=PATIENCE_MS
    )
    shown = [row.get_attribute("data-service") for row in page.locator("[data-service]").all()]
    assert shown == SERVICES_SHOWN
    for name in SERVICES_SHOWN:
        row = page.locator(f"[data-service={name}]")
        expect(row).to_contain_text("● ready")
        expect(row).to_contain_text("● database")
        expect(row).to_contain_text(__version__)
        expect(row).to_contain_text("/api-docs")
    expect(page.locator("[data-link=wan]")).to_contain_text("whole")
    visitor.assert_accessible()
    visitor.take_picture("health")
    visitor.assert_no_trouble()


def test_a_killed_service_is_shown_as_away_with_what_that_means_and_comes_back(visitor: Visitor, farm: Farm) -> None:
    page = visitor.open("/health")
    row = page.locator("[data-service=cloud-analytics-service]")
    expect(row).to_contain_text("● ready", timeout=PATIENCE_MS)
    pid = farm.child("cloud-analytics-service").pid
    assert pid is not None
    with farm.unattended():  # it is back in less time than the page takes to look again
        os.kill(pid, signal.SIGKILL)
        expect(row).to_contain_text("✖ does not answer", timeout=PATIENCE_MS)
        expect(row).to_contain_text("Figures of barns get old; nothing is lost.")
        expect(row).to_contain_text("farmiq logs cloud-analytics-service")
        expect(row).to_contain_text(re.compile(r"for \d"))
        expect(page.locator("#health-sentence")).to_contain_text("cloud-analytics-service does not answer")
    expect(row).to_contain_text("● ready", timeout=PATIENCE_MS)
    expect(page.locator("#health-sentence")).to_contain_text("services are ready", timeout=PATIENCE_MS)
    visitor.assert_no_trouble()


def test_a_service_that_hangs_does_not_hang_the_page(visitor: Visitor, farm: Farm) -> None:
    page = visitor.open("/health")
    row = page.locator("[data-service=cloud-media-store]")
    expect(row).to_contain_text("● ready", timeout=PATIENCE_MS)
    with farm.stopped("cloud-media-store"):
        expect(row).to_contain_text("✖ does not answer", timeout=PATIENCE_MS)
        expect(page.locator("[data-service=edge-ingress-gateway]")).to_contain_text("● ready")
        expect(visitor.open("/").locator("#sentence")).to_contain_text(
            "cloud-media-store does not answer since", timeout=PATIENCE_MS
        )
    expect(page.locator("#sentence")).to_contain_text("Everything that was measured", timeout=PATIENCE_MS)
    visitor.assert_no_trouble()


def test_a_link_that_was_cut_on_purpose_says_so_and_what_heals_it(visitor: Visitor, farm: Farm) -> None:
    page = visitor.open("/health")
    told = farm.command("demo", "break", "wan", "--for", "0")
    try:
        assert told.returncode == 0, told.stdout + told.stderr
        expect(page.locator("[data-link=wan]")).to_contain_text("✖ cut on purpose", timeout=PATIENCE_MS)
        expect(page.locator("[data-link=wan]")).to_contain_text("farmiq demo heal")
    finally:
        RelayClient(farm.home.relay_socket).heal("wan")
    expect(page.locator("[data-link=wan]")).to_contain_text("● whole", timeout=PATIENCE_MS)


def test_on_a_phone_nothing_sticks_out(phone: Visitor) -> None:
    page = phone.open("/health")
    expect(page.locator("#health-sentence")).to_contain_text("services are ready", timeout=PATIENCE_MS)
    assert_fits(page)
    phone.assert_accessible()
