"""Devices on the page: seen, added, connected with what the page showed, and taken out again."""

import csv
import io
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from e2e.console.speaking_device import SpeakingDevice
from e2e.console_visit import Visitor, assert_fits
from e2e.farm import Farm
from farmiq.stack.mosquitto import MqttRefused, log_in
from support.paho_client import Client
from support.waiting import run_apart, wait_for

HOSTILE = '<img src=x onerror="document.title=1">'
VIEWER_PASSWORD = "a password for a viewer"


def is_let_in(port: int, user: str, password: str) -> bool:
    async def attempt() -> bool:
        try:
            await log_in("127.0.0.1", port, user, password)
        except MqttRefused:
            return False
        return True

    return run_apart(attempt)


def broker_port(environment: dict[str, str]) -> int:
    return int(environment["MQTT_DEVICE_URL"].rpartition(":")[2].rstrip("/"))


def test_the_table_shows_three_marks_that_follow_each_other(farm: Farm, visitor: Visitor) -> None:
    farm.wait_until_cloud_has(50)
    page = visitor.open("/devices")
    row = page.get_by_role("row", name=re.compile("^node-1 "))
    expect(row).to_contain_text("online")

    for column in (2, 3, 4):
        expect(row.locator("td").nth(column)).to_have_text(re.compile(r"^\d"), timeout=30_000)
    # All of them with one question: the table goes on by itself.
    cells = row.locator("td").all_inner_texts()[2:5]
    on_disk, in_edge, in_cloud = (int(re.findall(r"^[\d,]+", cell)[0].replace(",", "")) for cell in cells)
    assert on_disk >= in_edge > 0
    assert in_cloud > 0
    expect(page.locator("#devices [role=status]")).to_contain_text(re.compile(r"\d+ online"))
    station = page.get_by_role("row", name=re.compile("^station-1 "))
    expect(station.locator("td").nth(2)).to_have_text(re.compile(r"^\d+ events?, \d+ pictures? wait$"), timeout=30_000)
    visitor.assert_accessible()
    visitor.take_picture("devices")
    lines = list(csv.DictReader(io.StringIO(page.request.get(f"{visitor.address}/devices.csv?q=node-1").text())))
    assert (lines[0]["device_id"], lines[0]["state"]) == ("node-1", "online")
    page.fill("main input[name=q]", "NODE-1")
    page.locator("form[action='/devices'] button").click()
    expect(page.locator("#devices tbody tr")).to_have_count(1)
    page.select_option("select[name=state]", "revoked")
    page.locator("form[action='/devices'] button").click()
    expect(page.locator("#devices .empty")).to_contain_text("No device fits")
    visitor.assert_no_trouble()


def test_a_device_added_on_the_page_connects_is_seen_and_is_out_once_revoked(
    farm: Farm, visitor: Visitor, environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = visitor.open("/devices")
    form = page.locator("form[action='/devices/add']")
    form.locator("[name=device_id]").fill("page-pump")
    form.locator("[name=farm_id]").fill("farm-1")
    form.locator("[name=barn_id]").fill("barn-1")
    form.locator("[name=kind]").select_option("sensor")
    form.get_by_role("button", name="Add").click()
    expect(page.get_by_role("heading", name="page-pump was added")).to_be_visible()
    password = page.locator("#mqtt-password").inner_text()
    expect(page.locator(".ways pre").first).to_contain_text(password)
    assert page.locator(".ways summary").all_inner_texts() == ["Python", "Shell", "Environment"]
    visitor.assert_accessible()
    port = broker_port(environment)
    wait_for(lambda: is_let_in(port, "page-pump", password), 20, "the broker to know the device")

    device = Client(f"mqtt://page-pump:{password}@127.0.0.1:{port}", "page-pump")
    script = page.locator(".ways pre").first.inner_text()
    monkeypatch.chdir(tmp_path)  # what is not acknowledged yet is kept in a folder
    exec(compile(script, "what the page says to paste", "exec"), {})  # noqa: S102 - this is what a person does with it
    page.goto(f"{visitor.address}/devices/page-pump")

    def is_online() -> bool:
        page.reload()
        return "online" in page.locator("h1").inner_text()

    wait_for(is_online, 30, "the device to be online on the page")
    expect(page.locator("main")).to_contain_text("26.400")
    expect(page.locator("main")).not_to_contain_text(password)
    revoke(visitor, "page-pump")
    expect(page.locator("h1")).to_contain_text("revoked")
    wait_for(lambda: not is_let_in(port, "page-pump", password), 20, "the broker to refuse the device")
    wait_for(lambda: device.disconnects > 0, 20, "the end of its connection")
    device.close()
    page.goto(f"{visitor.address}/people")
    expect(page.locator("main")).to_contain_text("device.revoke")
    expect(page.locator("main")).not_to_contain_text(password)
    logs = [path.read_text(errors="replace") for path in (farm.home.path / "logs").iterdir()]
    assert not [text for text in logs if password in text], "a secret stands in no log"
    visitor.assert_no_trouble()


def revoke(visitor: Visitor, device_id: str) -> None:
    form = visitor.page.locator(f"form[action='/devices/{device_id}/revoke']")
    form.locator("[name=reason]").fill("it is sold")
    form.locator("[name=confirmation]").fill(device_id)
    form.get_by_role("button", name="Revoke").click()


def test_new_secrets_need_the_name_typed_and_the_old_ones_stop_working(
    farm: Farm, visitor: Visitor, environment: dict[str, str]
) -> None:
    page = visitor.page
    with SpeakingDevice(farm, "rotated-1") as device:
        old = device.password
        visitor.open("/devices/rotated-1")
        form = page.locator("form[action='/devices/rotated-1/rotate']")
        form.locator("[name=confirmation]").fill("rotated-2")
        form.get_by_role("button", name="New secrets").click()
        expect(page.locator("main")).to_contain_text("Type rotated-1 to confirm; nothing was changed")
        assert is_let_in(broker_port(environment), "rotated-1", old)
        visitor.open("/devices/rotated-1")
        form.locator("[name=confirmation]").fill("rotated-1")
        form.get_by_role("button", name="New secrets").click()
        expect(page.get_by_role("heading", name="rotated-1 has new secrets")).to_be_visible()
        new = page.locator("#mqtt-password").inner_text()
        wait_for(lambda: is_let_in(broker_port(environment), "rotated-1", new), 20, "the new password")
        assert not is_let_in(broker_port(environment), "rotated-1", old)


def test_a_name_that_is_not_allowed_or_taken_is_refused_in_words(visitor: Visitor) -> None:
    page = visitor.page
    for name, words in (
        (HOSTILE, "is not allowed"),
        ("operator", "is not allowed"),
        ("node-1", "run by this farm itself"),
    ):
        visitor.open("/devices")
        form = page.locator("form[action='/devices/add']")
        form.evaluate("form => { form.noValidate = true }")
        form.locator("[name=device_id]").fill(name)
        form.get_by_role("button", name="Add").click()
        expect(page.locator("main")).to_contain_text(words)
        assert page.locator("img[src='x']").count() == 0


def test_what_a_device_says_is_text_and_is_never_run(farm: Farm, visitor: Visitor) -> None:
    with SpeakingDevice(farm, "hostile-1") as device:
        device.measure(1, 5, unit=HOSTILE[:32])
        device.status(software_version=HOSTILE, last_captured_seq=5, spool_bytes=10, spool_bytes_max=100)
        device.event("door.opened", {"door": HOSTILE})
        page = visitor.open("/devices/hostile-1")

        def is_shown() -> bool:
            page.reload()
            told = page.locator("main").inner_text()
            return HOSTILE in told and HOSTILE[:32] in told and "door.opened" in told

        wait_for(is_shown, 30, "the hostile words on the page")
    assert page.title() == "hostile-1 · FarmIQ"
    assert page.locator("img[src='x']").count() == 0
    visitor.assert_accessible()
    visitor.assert_no_trouble()


def test_a_weigh_station_shows_what_waits_and_which_of_its_sessions_failed(farm: Farm, visitor: Visitor) -> None:
    session_id = "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0200"
    with SpeakingDevice(farm, "failing-scale", "weigh-station") as station:
        station.status(
            unacked_count=4,
            pictures_waiting_count=1,
            failed_sessions_count=2,
            failed_sessions=[{"session_id": session_id, "reason": HOSTILE}],
            upload_trouble="HTTP 403: SignatureDoesNotMatch",
        )
        page = visitor.open("/devices/failing-scale")

        def is_shown() -> bool:
            page.reload()
            return "2 sessions failed" in page.locator("main").inner_text()

        wait_for(is_shown, 30, "the failed sessions on the page")
        expect(page.locator("main")).to_contain_text("4 events, 1 picture wait")
        expect(page.locator("main")).to_contain_text("SignatureDoesNotMatch")
        expect(page.get_by_role("row", name=session_id)).to_contain_text(HOSTILE)
        visitor.assert_accessible()
        row = visitor.open("/devices?q=failing").get_by_role("row", name=re.compile("^failing-scale "))
        expect(row).to_contain_text("4 events, 1 picture wait")
        expect(row).to_contain_text("2 sessions failed")
        visitor.assert_accessible()
    visitor.assert_no_trouble()


def test_a_viewer_sees_devices_and_can_let_none_in(browser: Browser, visitor: Visitor) -> None:
    page = visitor.open("/people")
    form = page.locator("form[action='/people/add']")
    form.locator("[name=name]").fill("devices-viewer")
    form.locator("[name=role]").select_option("viewer")
    form.locator("[name=password]").fill(VIEWER_PASSWORD)
    form.get_by_role("button", name="Add").click()
    expect(page.get_by_role("cell", name="devices-viewer", exact=True).first).to_be_visible()
    context = browser.new_context()
    viewer = Visitor(context.new_page(), visitor.address)
    viewer.log_in("devices-viewer", VIEWER_PASSWORD)
    seen = viewer.open("/devices")
    expect(seen.get_by_role("row", name=re.compile("^node-1 "))).to_be_visible()
    expect(seen.locator("form[action='/devices/add']")).to_have_count(0)
    status = seen.evaluate(
        """async () => (await fetch('/devices/add', {method: 'POST', body: new URLSearchParams({
            device_id: 'sneaky', farm_id: 'f', barn_id: 'b', kind: 'node',
            csrf: JSON.parse(document.body.getAttribute('hx-headers'))['x-csrf-token']})})).status"""
    )
    assert status == 403
    context.close()


def test_it_fits_a_phone(phone: Visitor) -> None:
    for path in ("/devices", "/devices/node-1"):
        page = phone.open(path)
        expect(page.locator("h1")).to_be_visible()
        assert_fits(page)
        phone.assert_accessible()
    phone.take_picture("device-phone")
    phone.assert_no_trouble()
