"""A tenant is erased on a farm on which others go on measuring: everything of it goes, and nothing else."""

import json
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any, Final

import asyncpg
import pytest

from e2e.console.speaking_device import SpeakingDevice
from e2e.farm import Farm, Tier
from farmiq.cli import exits
from farmiq.kit import erasure
from farmiq.kit.amqp import Publisher
from farmiq.kit.s3 import ObjectStore
from farmiq.stack.demo_farm import EDGE_CLUSTER_ID
from farmiq.stack.mosquitto import MqttRefused, log_in
from support.dead_letters import SERVICE, letter
from support.paho_client import Client
from support.waiting import run_apart, wait_for

TIERS: Final[tuple[Tier, ...]] = ("edge", "cloud")
GONE, STAYS = "zebra", "okapi"
ELSEWHERE: Final = "gnu"
"""Another edge's: this farm's cloud has a dead letter of it."""
SAMPLES: Final = 40
REASON = ("--reason", "the contract has ended")


@pytest.fixture(scope="module")
def devices(farm: Farm) -> Iterator[dict[str, SpeakingDevice]]:
    """One of each tenant, whose samples are in the cloud, with a picture in each object store."""
    for tenant_id in (GONE, STAYS):
        assert farm.command("edge", "grant", EDGE_CLUSTER_ID, "--tenant", tenant_id).returncode == exits.OK
    with (
        SpeakingDevice(farm, "node-of-zebra", tenant_id=GONE) as gone,
        SpeakingDevice(farm, "node-of-okapi", tenant_id=STAYS) as stays,
    ):
        for device in (gone, stays):
            device.measure(1, SAMPLES)
            device.status(is_retained=True)
        for tier in TIERS:
            for tenant_id in (GONE, STAYS):
                run_apart(partial(put_picture, farm, tier, tenant_id))
                wait_until_stored(farm, tier, tenant_id, SAMPLES)
        for viewer, tenants in {"both": (GONE, STAYS), "one": (GONE,)}.items():
            named = [word for tenant_id in tenants for word in ("--tenant", tenant_id)]
            assert farm.command("viewer", "add", viewer, *named).returncode == exits.OK
        assert farm.command("bus", "user", "add", "reader-of-zebra", "--tenant", GONE).returncode == exits.OK
        run_apart(lambda: put_dead_letters(farm, GONE, ELSEWHERE))
        yield {GONE: gone, STAYS: stays}


def test_without_yes_it_shows_what_there_is_and_erases_nothing(farm: Farm, devices: dict[str, SpeakingDevice]) -> None:
    told = farm.command("tenant", "erase", GONE)
    assert told.returncode == exits.OK, told.stderr
    for shown in (
        "40 rows in telemetry_raw",
        "1 objects",
        "devices: node-of-zebra",
        f"erase {GONE} --reason TEXT --yes",
    ):
        assert shown in told.stdout
    assert farm.command("tenant", "erase", GONE, "--yes").returncode == exits.USAGE, "the record wants a reason"
    assert [samples_at(farm, tier, GONE) for tier in TIERS] == [SAMPLES, SAMPLES]


def test_the_farms_own_tenant_can_not_be_erased(farm: Farm) -> None:
    told = farm.command("tenant", "erase", "demo", *REASON, "--yes")
    assert told.returncode == exits.FAILED
    assert "demo is a tenant of this farm itself" in told.stderr


def test_all_of_it_goes_at_both_tiers_and_what_others_have_stays(
    farm: Farm, devices: dict[str, SpeakingDevice]
) -> None:
    assert tenants_with_a_status(farm) >= {GONE, STAYS}
    told = farm.command("tenant", "erase", GONE, *REASON, "--yes")
    assert told.returncode == exits.OK, told.stdout + told.stderr
    for tier in TIERS:
        assert f"{tier}: tenant {GONE}: " in told.stdout
        assert run_apart(partial(left_of, farm, tier, GONE)) == ({}, (0, 0))
        rows, pictures = run_apart(partial(left_of, farm, tier, STAYS))
        assert rows["telemetry_raw"] == SAMPLES
        assert pictures[0] == 1
    assert "node-of-zebra keeps on its own disk what it had not sent" in told.stdout
    assert {GONE, STAYS} & tenants_with_a_status(farm) == {STAYS}
    devices[STAYS].measure(SAMPLES + 1, 2 * SAMPLES)
    wait_until_stored(farm, "cloud", STAYS, 2 * SAMPLES)


def test_its_devices_do_not_come_in_any_more_and_its_edges_may_not_deliver_for_it(
    farm: Farm, devices: dict[str, SpeakingDevice]
) -> None:
    port = farm.child("mosquitto").port
    assert port is not None
    gone = devices[GONE]
    with pytest.raises(MqttRefused):
        run_apart(lambda: log_in("127.0.0.1", port, gone.device_id, gone.password))
    granted = farm.fetch("cloud", "SELECT tenant_ids FROM edges WHERE edge_cluster_id = $1", EDGE_CLUSTER_ID)[0][0]
    assert STAYS in granted
    assert GONE not in granted


def test_nobody_reads_it_any_more_and_who_reads_others_too_goes_on(
    farm: Farm, devices: dict[str, SpeakingDevice]
) -> None:
    viewers = {one["viewer"]: one for one in json.loads(farm.command("viewer", "ls", "--json").stdout)}
    assert (viewers["both"]["state"], viewers["both"]["tenant_ids"]) == ("live", [STAYS])
    assert viewers["one"]["state"] == "revoked"
    assert json.loads(farm.command("bus", "user", "ls", "--json").stdout) == []


def test_its_dead_letters_are_gone_and_those_of_others_wait(farm: Farm, devices: dict[str, SpeakingDevice]) -> None:
    told = farm.command("dlq", "show", "--service", SERVICE, "--json")
    assert [one["letter"]["tenant_id"] for one in json.loads(told.stdout)] == [ELSEWHERE]
    assert farm.fetch("cloud", "SELECT count(*) FROM discarded_letters")[0][0] == 0
    assert farm.command("tenant", "erase", ELSEWHERE, "--tier", "cloud", *REASON, "--yes").returncode == exits.OK
    assert json.loads(farm.command("dlq", "show", "--service", SERVICE, "--json").stdout) == []


def test_a_record_says_who_did_it_why_and_how_much_it_was(farm: Farm, devices: dict[str, SpeakingDevice]) -> None:
    records = json.loads(farm.command("tenant", "erasures", GONE, "--json").stdout)
    assert [one["tier"] for one in records] == list(TIERS)
    for record in records:
        assert record["reason"] == REASON[1]
        assert "@" in record["erased_by"]
        assert record["rows_by_table"]["telemetry_raw"] == SAMPLES
        assert (record["objects"], record["object_bytes"]) == (1, 5)
        assert record["finished_at"] is not None
    assert REASON[1] in farm.command("tenant", "erasures").stdout
    again = farm.command("tenant", "erase", GONE)
    assert f"The edge has nothing of tenant {GONE}." in again.stdout


def test_the_audit_balances_and_names_a_tenant_that_only_the_cloud_has_erased(
    farm: Farm, devices: dict[str, SpeakingDevice]
) -> None:
    assert audit(farm)["findings"] == []
    told = farm.command("tenant", "erase", STAYS, "--tier", "cloud", *REASON, "--yes")
    assert told.returncode == exits.OK, told.stdout + told.stderr
    assert f"{EDGE_CLUSTER_ID} still has what it had not delivered" in told.stdout
    (finding,) = audit(farm)["findings"]
    assert (finding["kind"], finding["tenant_id"]) == ("half_erased", STAYS)
    assert "node-of-okapi" in finding["subject"]
    assert finding["fix"] == f"farmiq tenant erase {STAYS} --tier edge --reason TEXT --yes"
    told = farm.command("tenant", "erase", STAYS, "--tier", "edge", *REASON, "--yes")
    assert told.returncode == exits.OK, told.stdout + told.stderr
    assert audit(farm)["findings"] == []


def audit(farm: Farm) -> Any:
    told = farm.command("audit", "--json")
    assert told.stdout, told.stderr
    return json.loads(told.stdout)


def samples_at(farm: Farm, tier: Tier, tenant_id: str) -> int:
    query = "SELECT count(*) FROM telemetry_raw WHERE tenant_id = $1"
    return int(farm.fetch(tier, query, tenant_id)[0][0])


def wait_until_stored(farm: Farm, tier: Tier, tenant_id: str, samples: int) -> None:
    wait_for(lambda: samples_at(farm, tier, tenant_id) == samples, 60)


async def left_of(farm: Farm, tier: Tier, tenant_id: str) -> tuple[dict[str, int], tuple[int, int]]:
    environment = farm.environment()
    connection = await asyncpg.connect(environment[f"{tier.upper()}_DATABASE_URL"])
    try:
        rows = await erasure.count_rows(connection, tenant_id)
    finally:
        await connection.close()
    objects, bucket = store_of(environment, tier)
    with closing(objects):
        return rows, await erasure.count_objects(objects, bucket, [f"tenants/{tenant_id}/"])


async def put_picture(farm: Farm, tier: Tier, tenant_id: str) -> None:
    objects, bucket = store_of(farm.environment(), tier)
    with closing(objects):
        await objects.put(bucket, f"tenants/{tenant_id}/x.jpg", b"12345", content_type="image/jpeg")


async def put_dead_letters(farm: Farm, *tenant_ids: str) -> None:
    publisher = Publisher(farm.environment()["AMQP_URL"], name="test")
    await publisher.start()
    try:
        await publisher.wait_connected()
        letters = [letter(number, tenant_id=tenant_id) for number, tenant_id in enumerate(tenant_ids)]
        assert await publisher.publish_many(letters) == [None] * len(letters)
    finally:
        await publisher.stop()


def store_of(environment: dict[str, str], tier: Tier) -> tuple[ObjectStore, str]:
    prefix = "CLOUD_" if tier == "cloud" else ""
    names = ("S3_ENDPOINT", "S3_ACCESS_KEY", "S3_SECRET_KEY", "MEDIA_BUCKET")
    endpoint, access_key, secret_key, bucket = (environment[prefix + name] for name in names)
    return ObjectStore(endpoint, access_key=access_key, secret_key=secret_key), bucket


def tenants_with_a_status(farm: Farm) -> set[str]:
    """Of whom the broker keeps one. It sends what it has kept before anything that is published later."""
    marker = "iot/status/marker/f/b/d"  # an empty message says nothing to anybody
    client = Client(farm.environment()["MQTT_URL"], "erasure-test")
    try:
        assert client.subscribe("iot/status/#")
        client.publish(marker, b"")
        topics = [topic for topic, _ in iter(client.hears, (marker, b""))]
    finally:
        client.close()
    return {topic.split("/")[2] for topic in topics}
