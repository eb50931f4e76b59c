"""Weigh stations on a running farm: its own, one that is played by hand as the guide says, and one that a farm of an older
version gets.

The tests run in the order in which they stand here, on one farm."""

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import boto3
import pytest

from e2e.farm import Farm, Tier, reader_shell
from farmiq.cli import exits
from farmiq.stack.demo_farm import STATION_ID
from farmiq.stack.mosquitto_users import change_files, password_file
from farmiq.stack.private_files import remove
from support.page_runner import run_page
from support.waiting import wait_for

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "weigh-stations.md"
TIERS: tuple[Tier, Tier] = ("edge", "cloud")
# Four animals come in that time, of which one in twenty does not stand still.
FIRST_SESSION_SECONDS = 200

pytestmark = pytest.mark.timeout(500)

COMPLETE = """
    SELECT id, batch_id, image_count, initial_weight_kg, final_weight_kg, inference_result_id FROM weight_sessions
     WHERE device_id = $1 AND status = 'finalized' AND inference_result_id IS NOT NULL AND start_at >= $2
       AND image_count = (SELECT count(*) FROM media_objects stored
                           WHERE stored.session_id = weight_sessions.id AND stored.state = 'stored')
     ORDER BY start_at LIMIT 1
"""
PICTURES = (
    "SELECT id, object_key, sha256, size_bytes FROM media_objects WHERE id = ANY($1::uuid[]) AND state = 'stored'"
)
OF_SESSION = "SELECT id FROM media_objects WHERE session_id = $1"
RESULTS = "SELECT predicted_weight_kg, confidence FROM inference_results WHERE media_id = ANY($1::uuid[])"


def picture_bytes(farm: Farm, tier: Tier, object_key: str) -> bytes:
    variables, prefix = farm.environment(), "" if tier == "edge" else "CLOUD_"
    store = boto3.client(
        "s3",
        endpoint_url=variables[f"{prefix}S3_ENDPOINT"],
        aws_access_key_id=variables[f"{prefix}S3_ACCESS_KEY"],
        aws_secret_access_key=variables[f"{prefix}S3_SECRET_KEY"],
        region_name="us-east-1",
    )
    body: bytes = store.get_object(Bucket=variables[f"{prefix}MEDIA_BUCKET"], Key=object_key)["Body"].read()
    return body


def assert_pictures_are_in_both_stores(farm: Farm, media_ids: list[UUID]) -> set[str]:
    """Their SHA-256, after their bytes were read from the object store of each tier."""
    found: set[str] = set()
    for tier in TIERS:
        for row in wait_for_rows(farm, tier, PICTURES, media_ids):
            data = picture_bytes(farm, tier, row["object_key"])
            digest = hashlib.sha256(data).hexdigest()
            assert (len(data), digest) == (row["size_bytes"], row["sha256"])
            found.add(digest)
    return found


def wait_for_rows(farm: Farm, tier: Tier, query: str, media_ids: list[UUID]) -> "list[asyncpg.Record]":
    """One for each picture."""

    def found() -> "list[asyncpg.Record] | None":
        rows = farm.fetch(tier, query, media_ids)
        return rows if len(rows) == len(media_ids) else None

    rows = wait_for(found, 60, f"what the {tier} should know of {len(media_ids)} pictures")
    assert rows
    return rows


def wait_for_a_session_of_the_farms_own_station(farm: Farm, since: datetime) -> None:
    (session,) = wait_for(
        lambda: farm.fetch("cloud", COMPLETE, STATION_ID, since),
        FIRST_SESSION_SECONDS,
        "a complete session in the cloud",
    )
    (at_edge,) = farm.fetch("edge", COMPLETE, STATION_ID, since)
    assert dict(at_edge) == dict(session)
    assert session["batch_id"].startswith("batch-")
    assert session["image_count"] == 2
    assert 16 < session["final_weight_kg"] < 138
    media_ids = [row["id"] for row in farm.fetch("edge", OF_SESSION, session["id"])]
    assert len(assert_pictures_are_in_both_stores(farm, media_ids)) == 2
    for tier in TIERS:
        for row in wait_for_rows(farm, tier, RESULTS, media_ids):
            assert row["predicted_weight_kg"] > 0
            assert 0 <= row["confidence"] <= 1


def test_a_newcomer_sees_an_animal_weighed_soon_after_the_start(farm: Farm) -> None:
    wait_for_a_session_of_the_farms_own_station(farm, datetime(2024, 1, 1, tzinfo=UTC))


@pytest.fixture(scope="module")
def by_hand(farm: Farm, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The ids that the guide's commands made, run as they stand in the shell of somebody who has just started a farm."""
    names = ("SESSION", "MEDIA_ID", "SCHEDULED_ID", "WEIGHED_ID")
    with reader_shell(farm, tmp_path_factory.mktemp("guide")) as shell:
        assert run_page(GUIDE, shell) >= 15
        status, output = shell.run("printf '%s=%s\\n' " + " ".join(f'{name} "${name}"' for name in names))
        assert status == 0, output
    return dict(line.split("=", 1) for line in output.split())


def test_a_session_made_by_hand_as_the_guide_says_is_complete_in_both_databases_and_stores(
    farm: Farm, by_hand: dict[str, str]
) -> None:
    session_id, media_id = UUID(by_hand["SESSION"]), UUID(by_hand["MEDIA_ID"])
    for tier in TIERS:
        (session,) = farm.fetch(tier, COMPLETE, "scale-1", datetime(2024, 1, 1, tzinfo=UTC))
        assert session["id"] == session_id
        assert (session["batch_id"], session["image_count"]) == ("batch-7", 1)
        assert (session["initial_weight_kg"], session["final_weight_kg"]) == (83.6, 84.0)
        (result,) = wait_for_rows(farm, tier, RESULTS, [media_id])
        assert result["predicted_weight_kg"] > 0
    assert assert_pictures_are_in_both_stores(farm, [media_id]) == {sha256_of_the_guides_picture()}


def test_scheduled_captures_by_hand_are_in_both_databases_and_stores_with_a_weight_and_without(
    farm: Farm, by_hand: dict[str, str]
) -> None:
    scheduled, weighed = UUID(by_hand["SCHEDULED_ID"]), UUID(by_hand["WEIGHED_ID"])
    assert assert_pictures_are_in_both_stores(farm, [scheduled, weighed]) == {sha256_of_the_guides_picture()}
    for tier in TIERS:
        unbound = farm.fetch(tier, "SELECT id FROM media_objects WHERE device_id = 'scale-1' AND session_id IS NULL")
        assert {row["id"] for row in unbound} == {scheduled, weighed}
        wait_for_rows(farm, tier, RESULTS, [scheduled, weighed])
        (reading,) = farm.fetch(
            tier, "SELECT metric_type, metric_value, unit FROM telemetry_raw WHERE device_id = 'scale-1'"
        )
        assert dict(reading) == {"metric_type": "weight", "metric_value": 84.2, "unit": "kg"}


def test_nothing_that_the_guide_publishes_was_rejected(farm: Farm, by_hand: dict[str, str]) -> None:
    assert set(by_hand) == {"SESSION", "MEDIA_ID", "SCHEDULED_ID", "WEIGHED_ID"}
    assert farm.fetch("edge", "SELECT reason FROM ingress_rejected") == []


def test_a_farm_of_an_older_version_starts_cleanly_and_has_a_station_from_then_on(farm: Farm) -> None:
    environment = farm.environment()
    _make_it_older(farm)
    since = datetime.now(UTC)
    farm.up()
    assert farm.environment() == environment
    assert {check["name"] for check in _doctor(farm) if check["verdict"] == "failed"} == set()
    wait_for_a_session_of_the_farms_own_station(farm, since)


def _make_it_older(farm: Farm) -> None:
    """Without the station's row, its login, its folder and its secrets: as a version left the farm that had no station."""
    assert farm.fetch("edge", "DELETE FROM devices WHERE device_id = $1 RETURNING device_id", STATION_ID)
    assert farm.command("down").returncode == exits.OK
    broker = farm.home.server_folder("mosquitto")
    change_files(broker, drop=[STATION_ID])
    assert STATION_ID not in password_file(broker).read_text()
    remove([farm.home.station_folder(STATION_ID)])
    secrets = json.loads(farm.home.secrets_file.read_text())
    older = {name: value for name, value in secrets.items() if "station" not in name}
    assert older != secrets
    farm.home.secrets_file.write_text(json.dumps(older))


def _doctor(farm: Farm) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = json.loads(farm.command("doctor", "--json").stdout)
    return told


def sha256_of_the_guides_picture() -> str:
    return hashlib.sha256((ROOT / "docs" / "images" / "pig.jpg").read_bytes()).hexdigest()
