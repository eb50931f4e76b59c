"""The steps of the outbox's "How to Verify" on a whole farm, as docs/operations/sync.md tells them.

What needs a cloud that answers 500 is in tests/integration/edge/sync_forwarder/test_documented_steps.py."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from e2e.farm import FARMIQ, Farm
from farmiq.stack.ports import free_port
from support.waiting import wait_for

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("curl") is None, reason="the document's steps are curl commands"),
]
ROWS = 200
SEED = """
INSERT INTO sync_outbox (id, tenant_id, event_type, status, next_attempt_at, payload_json)
SELECT gen_random_uuid(), 'tenant-1', 'test.event', 'pending', NOW(), '{"test": 1}' FROM generate_series(1, $1::int)
"""
THEIRS = "FROM sync_outbox WHERE tenant_id = 'tenant-1' AND event_type = 'test.event'"


@pytest.fixture(scope="module")
def replicas(farm: Farm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Two more, started as the page says. Yields their names."""
    told = farm.command("edge", "add", "replicas", "--tenant", "demo", "--tenant", "tenant-1", "--json")
    environ = os.environ | json.loads(told.stdout)["environment"]
    environ["DATABASE_URL"] = farm.environment()["EDGE_DATABASE_URL"]
    folder, names, processes = tmp_path_factory.mktemp("replicas"), ["second", "third"], []
    for name in names:
        with (folder / f"{name}.log").open("wb") as log:
            own = {"PORT": str(free_port()), "INSTANCE_ID": name, "FARMIQ_STACK": str(farm.home.path)}
            processes.append(
                subprocess.Popen([FARMIQ, "run", "edge-sync-forwarder"], env=environ | own, stdout=log, stderr=log)
            )
    for name in names:
        wait_for(partial(is_listening, folder / f"{name}.log"), 60, f"{name} to listen")
    yield names
    for process in processes:
        process.terminate()
    for process in processes:
        assert process.wait(60) == 0


def is_listening(log: Path) -> bool:
    return "port_opened" in log.read_text()


def curl(*arguments: str) -> Any:
    told = subprocess.run(
        ["curl", "-sS", "--fail-with-body", *arguments], capture_output=True, text=True, timeout=60, check=True
    )
    return json.loads(told.stdout)


def statuses(farm: Farm) -> dict[str, int]:
    rows = farm.fetch("edge", f"SELECT status, count(*) {THEIRS} GROUP BY status")
    return {row["status"]: row["count"] for row in rows}


def test_1_basic_functionality(farm: Farm) -> None:
    url = farm.environment()["EDGE_SYNC_FORWARDER_URL"]
    assert curl(f"{url}/api/health")["status"] == "ok"
    assert curl(f"{url}/api/v1/sync/state")["dlq_count"] == 0
    assert curl("-X", "POST", f"{url}/api/v1/sync/trigger") == {"status": "triggered"}


def test_2_three_replicas_claim_each_row_once_and_the_cloud_has_each_once(farm: Farm, replicas: list[str]) -> None:
    farm.fetch("edge", SEED, ROWS)
    curl("-X", "POST", f"{farm.environment()['EDGE_SYNC_FORWARDER_URL']}/api/v1/sync/trigger")
    wait_for(lambda: statuses(farm) == {"acked": ROWS}, 90, "every row to be acknowledged")
    rows = farm.fetch("edge", f"SELECT id, claim_token {THEIRS}")
    assert {row["claim_token"] for row in rows} == {1}
    known = farm.fetch("cloud", "SELECT event_id FROM ingest_dedupe WHERE tenant_id = 'tenant-1'")
    assert sorted(row["event_id"] for row in known) == sorted(row["id"] for row in rows)


def test_5_what_a_dead_pod_had_claimed_is_unclaimed_and_sent(farm: Farm, replicas: list[str]) -> None:
    farm.fetch(
        "edge",
        "INSERT INTO sync_outbox (id, tenant_id, event_type, payload_json, status, claimed_by, claimed_at, lease_expires_at)"
        " VALUES (gen_random_uuid(), 'tenant-1', 'test.event', '{}', 'claimed', 'dead-pod-1', now(), now() + interval '1 hour')",
    )
    farm.fetch(
        "edge",
        "UPDATE sync_outbox SET lease_expires_at = NOW() - INTERVAL '1 minute' WHERE claimed_by = 'dead-pod-1'",
    )
    environment = farm.environment()
    answer = curl(
        *("-X", "POST", f"{environment['EDGE_SYNC_FORWARDER_URL']}/api/v1/sync/unclaim-stuck"),
        *("-H", f"Authorization: Bearer {environment['ADMIN_TOKEN']}"),
        *("-H", "Content-Type: application/json", "-d", '{"olderThanSeconds": 300}'),
    )
    # The forwarders rescue expired leases by themselves too, and may have been first.
    assert answer["unclaimed"] in (0, 1)
    wait_for(lambda: statuses(farm) == {"acked": ROWS + 1}, 60, "another replica to send it")
