"""The farm of an older release, stopped in the middle of its work, goes on under the code of today: nothing is lost, and whoever
was let in is still let in.

The tests run in the order in which they stand here, on one farm. What they promise: docs/internals/golden-farm.md."""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pytest

from e2e.farm import Farm, Tier
from farmiq.cli import exits
from farmiq.stack import control
from farmiq.stack.mosquitto import MqttRefused, log_in
from support.golden_farm import FOREVER, GOLDEN, IMPATIENT, Golden, devices_running, lay_out, mqtt_url
from support.golden_ledger import altered_objects, complaints
from support.golden_responses import CLIENTS, fields_gone, lacking, undecodable
from support.waiting import run_apart, wait_for

KEPT_FOR_EVER: dict[Tier, tuple[str, ...]] = {
    "edge": ("stream_losses", "station_losses", "devices", "weight_sessions", "session_operations", "inference_models"),
    "cloud": (
        "telemetry_raw", "streams", "stream_losses", "station_losses", "edges", "edge_tokens", "viewer_tokens",
        "weight_sessions", "recorded_weights", "captured_images", "inference_results", "device_events", "media_objects",
        "dead_letter_actions", "discarded_letters",
    ),
}  # fmt: skip
"""Tables that no later release may take a row from. Where one moves, this names its new place."""


@pytest.fixture(scope="module", params=sorted(path.name for path in GOLDEN.iterdir()))
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(GOLDEN / request.param)


@pytest.fixture(scope="module")
def farm(golden: Golden, run_folder: Path) -> Iterator[Farm]:
    """Laid out, migrated and started; its devices are switched on again by the tests."""
    farm = Farm(run_folder / f"golden-{golden.folder.name}")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (FOREVER | IMPATIENT | golden.manifest["settings"]).items():
            patch.setenv(name, value)
        try:
            lay_out(golden, farm)
            farm.up()
            yield farm
        finally:
            farm.command("down", "--purge", "--yes")


def test_the_clients_of_today_read_what_the_services_of_then_answered(golden: Golden) -> None:
    nothing(undecodable(golden))


def test_every_route_that_a_client_of_today_reads_was_recorded(golden: Golden) -> None:
    recorded = {(one["service"], one["route"]) for one in golden.responses}
    assert [client for client in CLIENTS if client[:2] not in recorded] == []


def test_the_migrations_take_no_row_away(golden: Golden, farm: Farm) -> None:
    rows = {
        (tier, table): farm.fetch(tier, f"SELECT count(*) FROM {table}")[0][0]  # noqa: S608 - names from above
        for tier, tables in KEPT_FOR_EVER.items()
        for table in tables
    }
    assert not {
        place: (count, golden.manifest["rows"][place[0]][place[1]])
        for place, count in rows.items()
        if count < golden.manifest["rows"][place[0]][place[1]]
    }


def test_devices_log_in_with_their_old_passwords_and_revoked_ones_do_not(golden: Golden, farm: Farm) -> None:
    for device in golden.manifest["devices"]:
        url = urlsplit(mqtt_url(golden, farm, device))
        login = partial(log_in, str(url.hostname), url.port or 0, device, urllib.parse.unquote(url.password or ""))
        answer = wait_for(partial(login_result, login), what=f"the broker answers {device}")
        assert answer == ("refused" if device == "golden-gone" else "accepted"), device


def test_the_tokens_of_edges_and_viewers_and_a_persons_password_still_work(golden: Golden, farm: Farm) -> None:
    environment, credentials = control.environment(farm.home), golden.manifest["credentials"]
    wanted = environment["CLOUD_MEDIA_STORE_URL"] + "/api/v1/media/wanted"
    assert status_of(wanted, credentials["edge_rotated"]["token"]) == 200
    assert status_of(wanted, credentials["viewer"]["token"]) == 401
    metrics = environment["CLOUD_TELEMETRY_SERVICE_URL"] + "/api/v1/telemetry/metrics?tenant_id="
    assert status_of(f"{metrics}demo", credentials["viewer"]["token"]) == 200
    assert status_of(f"{metrics}tenant-1", credentials["viewer"]["token"]) == 403
    assert console_login(environment["CONSOLE_URL"], credentials["person"]) == 303
    assert console_login(environment["CONSOLE_URL"], credentials["person"] | {"password": "wrong"}) == 401


def test_every_route_of_then_answers_with_at_least_the_fields_of_then(golden: Golden, farm: Farm) -> None:
    nothing(lacking(golden, control.environment(farm.home)))


def test_dead_letters_are_still_there_and_what_is_good_in_them_is_stored_by_a_replay(
    golden: Golden, farm: Farm
) -> None:
    letters = golden.manifest["dead_letters"]
    expected = {(service, one["message_id"]) for one in letters["poison"] for service in one["services"]}
    expected |= {("cloud-telemetry-service", event_id) for event_id in letters["replayable"]}
    assert expected - letters_of(farm) == set()
    for event_id in letters["replayable"]:
        command(farm, "dlq", "replay", "--service", "cloud-telemetry-service", "--id", event_id)
    for one in letters["poison"]:
        for service in one["services"]:
            command(farm, "dlq", "discard", "--service", service, "--id", one["message_id"], "--yes")
    query = "SELECT event_id::text FROM device_events WHERE event_id = ANY($1::uuid[])"
    wait_for(
        lambda: {row[0] for row in farm.fetch("cloud", query, letters["replayable"])} == set(letters["replayable"]),
        60, f"the letters {letters['replayable']} are stored",
    )  # fmt: skip
    assert letters_of(farm) & expected == set()


def test_everything_that_was_accepted_is_in_the_cloud_once_or_declared_lost(golden: Golden, farm: Farm) -> None:
    """The events that it had made dead letters for a cloud that failed are tried again by themselves."""
    redrive_pictures(farm)
    left: list[str] = []

    def is_complete() -> bool:
        left[:] = complaints(golden, farm)
        return not left

    with devices_running(golden, farm):
        try:
            wait_for(is_complete, 60, "what the release had accepted arrives")
        except AssertionError as error:
            raise AssertionError("\n".join([str(error), *left, farm.command("status").stdout])) from error
        nothing(altered_objects(golden, farm))
        nothing(balance(farm))


def test_what_is_gone_is_named(golden: Golden, farm: Farm) -> None:
    """The comparisons above can fail."""
    sample = golden.manifest["samples"]["golden-node-1"]
    deletion = "DELETE FROM telemetry_raw WHERE stream_id = $1 AND seq = 7 RETURNING seq"
    assert len(farm.fetch("cloud", deletion, UUID(sample["stream_id"]))) == 1
    gone = complaints(golden, farm)
    assert gone == ["golden-node-1: captured, and neither stored nor declared lost: 1: 7"], "\n".join(gone)


def test_a_field_that_is_gone_is_named() -> None:
    then = {
        "devices": [{"device_id": "a", "status": None}, {"device_id": "b", "status": {"state": "online"}}],
        "next": None,
    }
    now = {"devices": [{"device_id": "a", "status": {"condition": "online"}}]}
    assert list(fields_gone(then, now, "$")) == ["$.devices[].status.state is gone", "$.next is gone"]
    assert list(fields_gone(then, then | {"more": 1}, "$")) == []


def login_result(login: Callable[[], Awaitable[None]]) -> str | None:
    """None when it did not answer in time."""
    try:
        run_apart(login)
    except MqttRefused:
        return "refused"
    except TimeoutError:
        return None
    return "accepted"


def balance(farm: Farm) -> list[str]:
    """What `farmiq audit` still finds when it had time to see everything arrive."""
    found: list[str] = []

    def is_balanced() -> bool:
        finished = farm.command("audit", "--json")
        findings = json.loads(finished.stdout or "{}").get("findings", [])
        found[:] = [f"audit: exit code {finished.returncode} {finished.stderr}", *map(json.dumps, findings)]
        return finished.returncode == exits.OK

    try:
        wait_for(is_balanced, 30, "farmiq audit balances")
    except AssertionError:
        return found
    return []


def nothing(complaints: list[str]) -> None:
    assert not complaints, "\n".join(complaints)


def letters_of(farm: Farm) -> set[tuple[str, str]]:
    """Each with its service, by the id of its message and by that of its event: what is unreadable has only the first."""
    found = set()
    for service in ("cloud-telemetry-service", "cloud-analytics-service", "cloud-media-store"):
        for one in json.loads(command(farm, "dlq", "show", "--service", service, "--limit", "200", "--json")):
            found |= {
                (service, str(one["letter"][name])) for name in ("message_id", "event_id") if one["letter"].get(name)
            }
    return found


def command(farm: Farm, *arguments: str) -> str:
    finished = farm.command(*arguments)
    assert finished.returncode == exits.OK, f"farmiq {' '.join(arguments)}: {finished.stdout}{finished.stderr}"
    return finished.stdout


def redrive_pictures(farm: Farm) -> None:
    environment = control.environment(farm.home)
    headers = {"authorization": f"Bearer {environment['ADMIN_TOKEN']}", "content-type": "application/json"}
    url = f"{environment['EDGE_SYNC_FORWARDER_URL']}/api/v1/sync/media/redrive"
    with urllib.request.urlopen(urllib.request.Request(url, b'{"allFailed": true}', headers), timeout=60) as answer:  # noqa: S310 - ours
        assert json.loads(answer.read())["redriven"] > 0


def status_of(url: str, token: str) -> int:
    request = urllib.request.Request(url, headers={"authorization": f"Bearer {token}"})  # noqa: S310 - our own farm
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - our own farm
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """The answer itself is what counts."""


def console_login(url: str, person: dict[str, str]) -> int:
    form = urllib.parse.urlencode({"name": person["name"], "password": person["password"]}).encode()
    try:
        with urllib.request.build_opener(_NoRedirect).open(f"{url}/login", form, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
