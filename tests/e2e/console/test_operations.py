"""The pages where things are repaired: Sync, Dead letters, Alerts, People. With a farm running, in a real browser."""

import json
import re
from uuid import UUID

import aio_pika
from playwright.sync_api import Browser, expect

from e2e.console_visit import Visitor, assert_fits
from e2e.farm import Farm
from farmiq.kit.ids import new_id
from support.waiting import run_apart, wait_for

HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script>'
OTHER_PASSWORD = "a password for somebody"


def bury_on_the_edge(farm: Farm, count: int) -> list[UUID]:
    """Dead letters as a cloud that refused them would have left them."""
    ids = [new_id() for _ in range(count)]
    for event_id in ids:
        farm.fetch(
            "edge",
            "INSERT INTO sync_outbox (id, tenant_id, device_id, event_type, occurred_at, payload_json, parked, next_attempt_at)"
            " VALUES ($1, 'demo', 'node-1', 'test.event', now(), '{\"n\": 1}', true, now() + interval '1 hour')",
            event_id,
        )
        farm.fetch(
            "edge",
            "UPDATE sync_outbox SET status = 'claimed', parked = false, claimed_by = 'gone', claimed_at = now(),"
            " lease_expires_at = now() + interval '1 hour', claim_token = claim_token + 1 WHERE id = $1",
            event_id,
        )
        farm.fetch(
            "edge",
            "UPDATE sync_outbox SET status = 'dlq', claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL,"
            " failed_at = now(), last_error_code = 'bad_day', last_error_message = $2, dlq_reason = 'refused' WHERE id = $1",
            event_id,
            HOSTILE,
        )
    return ids


def publish_poison(amqp_url: str, body: bytes) -> None:
    async def publish() -> None:
        async with await aio_pika.connect(amqp_url) as connection:
            channel = await connection.channel()
            exchange = await channel.get_exchange("farmiq.telemetry.exchange", ensure=False)
            await exchange.publish(aio_pika.Message(body), "telemetry.ingested")

    run_apart(publish)


def test_dead_letters_of_the_edge_are_counted_first_and_then_sent_again(visitor: Visitor, farm: Farm) -> None:
    ids = bury_on_the_edge(farm, 3)
    page = visitor.open("/dead-letters")
    row = page.locator("#edge-letters tr", has_text="bad_day")
    expect(row.locator("td").nth(2)).to_have_text("3")
    expect(row).to_contain_text("<img src=x")
    row.get_by_role("button", name="Dry run").click()
    expect(row.locator(".outcome")).to_contain_text("3 events would be sent again")
    visitor.assert_accessible()
    visitor.take_picture("dead-letters")
    row.get_by_role("button", name="Send again").click()
    expect(row.locator(".outcome")).to_contain_text("3 events are sent again")

    def are_in_the_cloud() -> bool:
        rows = farm.fetch("edge", "SELECT status FROM sync_outbox WHERE id = ANY ($1)", ids)
        return [row["status"] for row in rows] == ["acked"] * 3

    wait_for(are_in_the_cloud, 30, "the dead letters to be sent")
    page = visitor.open("/dead-letters")
    expect(page.get_by_text("None on the edge")).to_be_visible()
    page = visitor.open("/people")
    expect(page.get_by_role("row", name=re.compile("dead_letters.redrive")).first).to_contain_text("sent again")
    visitor.assert_no_trouble()


def test_poison_on_the_bus_is_looked_at_replayed_and_discarded_with_a_reason(
    visitor: Visitor, environment: dict[str, str]
) -> None:
    publish_poison(
        environment["AMQP_URL"], json.dumps({"event_type": "telemetry.ingested", "payload": HOSTILE}).encode()
    )
    page = visitor.open("/dead-letters")

    def is_there() -> bool:
        visitor.open("/dead-letters")
        return page.get_by_role("button", name="Replay").count() > 0

    wait_for(is_there, 30, "the poison to be a dead letter")
    page.get_by_role("link", name="Look").first.click()
    expect(page.locator("pre").first).to_contain_text("onerror")
    assert page.title().startswith("Dead letters of"), "what is in a message is shown, not run"
    visitor.assert_accessible()
    page = visitor.open("/dead-letters")
    page.get_by_role("button", name="Replay").first.click()
    expect(page.locator("form[action$=replay] .outcome").first).to_contain_text("put back into the queue")
    wait_for(is_there, 30, "the poison to be back, for it is still poison")
    page.locator("summary", has_text="Discard").first.click()
    page.get_by_label("Why").first.fill("made by a test")
    page.get_by_label("Type “discard”").first.fill("yes")
    page.get_by_role("button", name=re.compile("^Discard 1$")).first.click()
    expect(page.locator("form[action$=discard] .outcome").first).to_contain_text("nothing was done")
    page.get_by_label("Type “discard”").first.fill("discard")
    page.get_by_role("button", name=re.compile("^Discard 1$")).first.click()
    expect(page.locator("form[action$=discard] .outcome").first).to_contain_text("1 messages were discarded")
    # The refused one is in the browser's console as a failed request, which is what it was.
    visitor.troubles = [trouble for trouble in visitor.troubles if "422" not in trouble]
    visitor.assert_no_trouble()


def test_sync_shows_what_waits_while_nobody_sends_and_when_it_is_there(visitor: Visitor, farm: Farm) -> None:
    page = visitor.open("/sync")
    waiting = page.locator(".tile", has_text="Waiting for the cloud").locator(".value")
    with farm.stopped("cloud-ingestion"):
        expect(waiting).not_to_have_text("0", timeout=30_000)
        expect(page.get_by_role("row", name=re.compile("^demo"))).not_to_contain_text("up", timeout=30_000)
        visitor.take_picture("sync")
    expect(waiting).to_have_text("0", timeout=60_000)
    expect(page.get_by_role("row", name=re.compile("demo.*up"))).to_be_visible(timeout=60_000)
    page.get_by_role("button", name="Send now").click()
    expect(page).to_have_url(re.compile("/sync$"))
    with page.expect_download() as download:
        page.locator("a[href='/sync/outbox.csv']").click()
    assert "event_type" in download.value.path().read_text()
    visitor.assert_accessible()
    visitor.assert_no_trouble()


def test_the_alerts_page_shows_what_the_edge_noted_and_who_knows_of_it(visitor: Visitor, farm: Farm) -> None:
    session_id = str(new_id())
    farm.fetch(
        "edge",
        "INSERT INTO ops_alerts (tenant_id, kind, subject, dedupe_key, evidence)"
        " VALUES ('demo', 'picture_missing', $1, 'test-alert', jsonb_build_object('session_id', $2::text)),"
        " ('another', 'picture_missing', 'of another tenant', 'test-alert', '{}')",
        HOSTILE,
        session_id,
    )
    page = visitor.open("/alerts")
    card = page.locator("article", has_text=re.compile(r"picture_missing\s+<"))
    expect(card).to_contain_text("onerror")
    expect(page.get_by_text("of another tenant")).to_have_count(0)
    expect(card.locator(".runbook")).to_contain_text("announced by its station and never came")
    expect(card.get_by_role("link", name=re.compile("Weigh session"))).to_have_attribute(
        "href", f"/sessions/{session_id}"
    )
    card.get_by_label("Note").fill("camera is being cleaned")
    card.get_by_role("button", name="I know of it").click()
    expect(card).to_contain_text("admin knows: camera is being cleaned")
    visitor.assert_accessible()
    visitor.take_picture("alerts")
    visitor.assert_no_trouble()


def test_a_viewer_is_let_in_and_finds_no_buttons(visitor: Visitor, browser: Browser) -> None:
    page = visitor.open("/people")
    page.get_by_label("Name").fill("eve-only-looks")
    page.get_by_label("Password, at least 12 characters").fill(OTHER_PASSWORD)
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_role("cell", name="eve-only-looks").first).to_be_visible()
    visitor.assert_accessible()
    context = browser.new_context()
    viewer = Visitor(context.new_page(), visitor.address)
    viewer.log_in("eve-only-looks", OTHER_PASSWORD)
    for path in ("/sync", "/dead-letters", "/alerts"):
        page = viewer.open(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.locator("main button").count() == 0, path
    expect(page.get_by_role("link", name="People")).to_have_count(0)
    viewer.assert_no_trouble()
    context.close()


def test_the_search_finds_pages_and_devices_with_the_keyboard_alone(visitor: Visitor) -> None:
    page = visitor.open("/sync")
    page.keyboard.press("/")
    page.keyboard.type("node-1")
    expect(page.locator("#found a").first).to_contain_text("node-1")
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("dead")
    expect(page.locator("#found a").first).to_contain_text("Dead letters")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/search\?q=dead"))
    page.get_by_role("link", name="page Dead letters").click()
    expect(page).to_have_url(re.compile("/dead-letters$"))
    assert page.title() == "Dead letters · FarmIQ"
    visitor.assert_no_trouble()


def test_the_pages_fit_a_phone_and_the_dark(phone: Visitor) -> None:
    for path in ("/sync", "/dead-letters", "/alerts", "/people", "/me"):
        page = phone.open(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert_fits(page)
        phone.assert_accessible()
    phone.assert_no_trouble()


def test_a_page_in_the_background_stops_asking(visitor: Visitor) -> None:
    page = visitor.open("/sync")
    expect(page.locator("#freshness")).to_have_text("live")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.evaluate(
        "Object.defineProperty(document, 'hidden', {value: true, configurable: true});"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    expect(page.locator("#freshness")).to_have_text("paused")
    before = len(asked)
    with visitor.another_page() as other:
        beat = other.locator("#freshness")
        first = int(beat.get_attribute("data-beat") or 0)
        expect(beat).to_have_attribute("data-beat", re.compile(f"^(?!{first}$)"), timeout=15_000)
    assert len(asked) == before, "while another page goes on being told"
    page.evaluate(
        "Object.defineProperty(document, 'hidden', {value: false, configurable: true});"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    expect(page.locator("#freshness")).to_have_text("live")
