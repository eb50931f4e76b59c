"""The pages about weigh sessions, with the farm's own station weighing, and with one that leaves things out."""

import csv
import io
import json
import re
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pytest
from playwright.sync_api import Page, expect

from e2e.console.spoken import Device, Services, device
from e2e.console_visit import Visitor, assert_fits
from e2e.farm import Farm
from farmiq.contracts import event_types
from farmiq.contracts.weighvision import (
    ImageCaptured,
    StationSessionCancelled,
    StationSessionCreated,
    StationSessionFinalized,
    WeightRecorded,
)
from farmiq.kit.ids import new_id
from support.waiting import wait_for

HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script>'
SESSIONS = "/api/v1/weighvision/sessions"
# All in one look: the page is live, and an element that one look has found may be replaced before the next.
ARE_LOADED = """selector => {
  const images = [...document.querySelectorAll(selector)];
  images.forEach(image => image.scrollIntoView());
  return images.length > 0 && images.every(image => image.complete && image.naturalWidth > 0);
}"""


@pytest.fixture
def services(environment: dict[str, str]) -> Services:
    return Services(environment)


@pytest.fixture
def weighed(services: Services) -> dict[str, Any]:
    """A session of the farm's station of which everything is in the cloud, as the cloud has it."""

    def found() -> dict[str, Any] | None:
        for session in services.get("cloud-telemetry-service", SESSIONS, limit=5)["sessions"]:
            view: dict[str, Any] = services.get("cloud-telemetry-service", f"{SESSIONS}/{session['id']}")
            if view["lacks"] == [] and view["session"]["status"] == "finalized" and len(view["inferences"]) >= 2:
                return view
        return None

    return wait_for(found, 90, "a weigh session in the cloud, with its pictures and predictions") or {}


def loaded(page: Page, selector: str) -> None:
    """Every picture there has come, and is one."""
    expect(page.locator(selector).first).to_be_visible()
    wait_for(lambda: page.evaluate(ARE_LOADED, selector), 15, f"the pictures at {selector}")


def test_the_gallery_shows_the_animals_with_their_weights_and_leads_to_a_session(
    visitor: Visitor, weighed: dict[str, Any]
) -> None:
    page = visitor.open("/sessions")
    session = weighed["session"]
    card = page.locator(f'.gallery li:has(a[href="/sessions/{session["id"]}"])')
    expect(card).to_contain_text(f"{session['final_weight_kg']:.2f} kg")
    expect(card).to_contain_text("complete")
    expect(card).to_contain_text("in the cloud")
    loaded(page, f'.gallery a[href="/sessions/{session["id"]}"] img')
    visitor.assert_accessible()
    visitor.take_picture("sessions", "jpg")
    card.get_by_role("link").click()
    expect(page.locator("h1")).to_contain_text("Session of station-1")
    visitor.assert_no_trouble()


def test_a_session_shows_pictures_weights_and_predictions_as_the_api_tells_them(
    visitor: Visitor, weighed: dict[str, Any]
) -> None:
    session, count = weighed["session"], weighed["session"]["image_count"]
    page = visitor.open(f"/sessions/{session['id']}")
    expect(page.locator(".sentence")).to_have_text(f"Expected {count}, present {count}.")
    expect(page.locator(".facts")).to_contain_text(f"{session['final_weight_kg']:.2f} kg")
    expect(page.locator(".pictures li")).to_have_count(count)
    loaded(page, ".pictures img")
    for result in weighed["inferences"]:
        error = result["predicted_weight_kg"] - session["final_weight_kg"]
        expect(page.locator(".pictures")).to_contain_text(
            f"{result['predicted_weight_kg']:.2f} kg ({error:+.2f} kg against the scale)"
        )
        expect(page.locator(".pictures")).to_contain_text(result["model_version"])
    for step in ("Created", "Finalized", "Last word of a model", "Last changed in the cloud"):
        expect(page.locator(".story li", has_text=step)).to_contain_text(re.compile(r"\d{4}-\d\d-\d\d"))
    expect(page.locator("figure.chart canvas")).to_be_visible()
    page.locator("figure.chart details summary").click()
    shown = page.locator("figure.chart tbody tr", has_text="scale").locator("td:nth-child(3)").all_inner_texts()
    assert [float(text) for text in shown] == [
        pytest.approx(one["weight_kg"], rel=1e-5) for one in reversed(weighed["weights"])
    ]
    visitor.assert_accessible()
    visitor.take_picture("session", "jpg")
    visitor.assert_no_trouble()


def test_a_picture_comes_through_the_console_as_a_picture_and_nothing_else(
    visitor: Visitor, weighed: dict[str, Any]
) -> None:
    media_id = weighed["pictures"]["pictures"][0]["media_id"]
    for path in (f"/pictures/{media_id}", f"/pictures/{media_id}/thumbnail"):
        answer = visitor.page.request.get(visitor.address + path)
        assert (answer.status, answer.headers["content-type"]) == (200, "image/jpeg")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"].startswith("private")
        assert answer.body().startswith(b"\xff\xd8\xff")
    assert visitor.page.request.get(f"{visitor.address}/pictures/{new_id()}").status == 404
    nobody = visitor.page.context.browser
    assert nobody is not None
    stranger = nobody.new_context()
    assert stranger.request.get(f"{visitor.address}/pictures/{media_id}", max_redirects=0).status in {303, 401}
    stranger.close()


def test_the_model_looks_again_when_it_is_asked_to_and_the_trail_says_who_asked(
    visitor: Visitor, weighed: dict[str, Any]
) -> None:
    page = visitor.open(f"/sessions/{weighed['session']['id']}")
    page.get_by_role("button", name="Let the model look again").click()
    expect(page.locator(".notice.good")).to_contain_text("The model looks at the pictures again")
    page = visitor.open("/people")
    row = page.locator("tr", has_text="inference.again").first
    expect(row).to_contain_text(weighed["session"]["id"])
    expect(row).to_contain_text("pictures asked for, 0 not stored")
    visitor.assert_no_trouble()


def presign(environment: dict[str, str], station: Device, session_id: UUID) -> UUID:
    """A place to upload a picture to, which is then not used."""
    asked = {
        "tenantId": station.place["tenant_id"], "farmId": station.place["farm_id"], "barnId": station.place["barn_id"],
        "deviceId": station.device_id, "sessionId": str(session_id), "traceId": "trace-1", "contentType": "image/jpeg",
        "capturedAt": datetime.now(UTC).isoformat(),
    }  # fmt: skip
    request = urllib.request.Request(  # noqa: S310 - an address of the farm under test
        f"{environment['EDGE_MEDIA_STORE_URL']}/api/v1/media/images/presign",
        data=json.dumps(asked).encode(),
        headers={"authorization": f"Bearer {station.http_token}", "content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - as above
        return UUID(json.load(answer)["media_id"])


def test_what_is_missing_is_counted_and_placed_while_the_page_is_open(
    visitor: Visitor, farm: Farm, environment: dict[str, str]
) -> None:
    session_id, now = new_id(), datetime.now(UTC)
    with device(farm, "weigh-station") as station:
        station.of_session(session_id, event_types.SESSION_CREATED, StationSessionCreated(batch_id="batch-t"), now)
        station.of_session(session_id, event_types.WEIGHT_RECORDED, WeightRecorded(weight_kg=77.5), now)
        page_url = f"/sessions/{session_id}"
        wait_for(
            lambda: visitor.page.request.get(visitor.address + page_url).status == 200, what="the session at the edge"
        )
        page = visitor.open(page_url)
        expect(page.locator(".sentence")).to_have_text("How many there will be is not known yet, present 0.")
        announced, _silent = [presign(environment, station, session_id) for _ in range(2)]
        later = now + timedelta(seconds=1)
        station.of_session(session_id, event_types.IMAGE_CAPTURED, ImageCaptured(media_id=announced), later)
        ended = StationSessionFinalized(image_count=3, final_weight_kg=77.5)
        station.of_session(session_id, event_types.SESSION_FINALIZED, ended, now + timedelta(seconds=2))
        sentence = page.locator(".sentence")
        expect(sentence).to_contain_text("Expected 3, present 0;", timeout=20_000)
        expect(sentence).to_contain_text(
            "announced by the station, upload not seen yet: on the station", timeout=30_000
        )
        expect(sentence).to_contain_text("has not said yet that it did: on the station")
        expect(sentence).to_contain_text("picture 3: not announced yet")
        expect(page.locator(".pictures .none")).to_have_count(3)
        page = visitor.open(f"/sessions?device={station.device_id}")
        expect(page.locator(".gallery li")).to_have_count(1)
        expect(page.locator(".gallery li")).to_contain_text("waits for 3 pictures")
        expect(page.locator(".gallery li")).to_contain_text("77.50 kg")
        visitor.open("/sessions?batch=batch-t&status=finalized")
        expect(page.locator(f'.gallery a[href="/sessions/{session_id}"]')).to_be_visible()
        visitor.open(f"/sessions?device={station.device_id}&status=cancelled")
        expect(page.locator(".empty")).to_have_text("No weigh session in this time.")
    visitor.assert_no_trouble()


def test_what_a_station_says_in_words_is_shown_as_words(visitor: Visitor, farm: Farm, services: Services) -> None:
    session_id, now = new_id(), datetime.now(UTC)
    with device(farm, "weigh-station") as station:
        station.of_session(session_id, event_types.SESSION_CREATED, StationSessionCreated(), now)
        cancelled = StationSessionCancelled(reason=HOSTILE)
        station.of_session(session_id, event_types.SESSION_CANCELLED, cancelled, now + timedelta(seconds=1))

        def is_told() -> bool:
            found = services.get("cloud-telemetry-service", SESSIONS, device_id=station.device_id)["sessions"]
            return [one["cancel_reason"] for one in found] == [HOSTILE]

        wait_for(is_told, 40, "the reason in the cloud")
    page = visitor.open(f"/sessions/{session_id}")
    expect(page.locator(".facts")).to_contain_text(HOSTILE)
    assert page.locator("main img").count() == 0
    expect(page).to_have_title("Weigh session · FarmIQ")
    visitor.assert_no_trouble()


def test_every_session_of_the_gallery_is_in_the_csv_and_in_the_permalink(
    visitor: Visitor, weighed: dict[str, Any]
) -> None:
    page = visitor.open("/sessions?status=finalized&tier=cloud")
    expect(page.locator("#gallery")).to_contain_text("As the cloud has it.")
    answer = page.request.get(visitor.address + (page.locator("a[download]").get_attribute("href") or ""))
    rows = {row["session_id"]: row for row in csv.DictReader(io.StringIO(answer.text()))}
    assert float(rows[weighed["session"]["id"]]["final_weight_kg"]) == weighed["session"]["final_weight_kg"]
    page.get_by_role("link", name="Permalink").click()
    page.wait_for_url(re.compile("since="))
    expect(page.locator(f'.gallery a[href="/sessions/{weighed["session"]["id"]}"]')).to_be_visible()
    visitor.assert_no_trouble()


def test_without_the_edge_the_gallery_is_the_clouds_and_a_session_says_what_is_not_known(
    visitor: Visitor, farm: Farm, weighed: dict[str, Any]
) -> None:
    with farm.stopped("edge-weighvision-session"):
        page = visitor.open("/sessions")
        expect(page.locator("#gallery")).to_contain_text(
            "edge-weighvision-session does not answer: this is what the cloud has."
        )
        page = visitor.open(f"/sessions/{weighed['session']['id']}")
        expect(page.locator(".notice.bad")).to_contain_text("edge-weighvision-session does not answer")
        expect(page.locator(".facts")).to_contain_text(f"{weighed['session']['final_weight_kg']:.2f} kg")
    visitor.assert_no_trouble()


def test_a_session_that_nobody_knows_is_not_there(visitor: Visitor) -> None:
    answer = visitor.page.goto(f"{visitor.address}/sessions/{new_id()}")
    assert answer is not None
    assert answer.status == 404
    assert visitor.hosts == {urlsplit(visitor.address).netloc}


def test_on_a_phone_in_the_dark(phone: Visitor, weighed: dict[str, Any]) -> None:
    for path, name in (("/sessions", "sessions-phone"), (f"/sessions/{weighed['session']['id']}", "session-phone")):
        page = phone.open(path)
        expect(page.locator("main img").first).to_be_visible()
        assert_fits(page)
        phone.assert_accessible()
        phone.take_picture(name)
    phone.assert_no_trouble()
