"""A device that was let in, beside a gateway that listens: what the programs of docs/guides/connect-a-device.md need."""

import json
from pathlib import Path

import pytest

from farmiq.kit.postgres import Pool
from farmiq.stack.mosquitto_users import gateway_rights
from support.device_farm import DeviceFarm
from support.gateway import wait_until_ready
from support.service_process import StartService


@pytest.fixture
def device_file(farm: DeviceFarm, edge_url: str, start_service: StartService, tmp_path: Path) -> Path:
    """What `farmiq device add` printed."""
    farm.broker.add_user("gateway", gateway_rights())
    environ = {"DATABASE_URL": edge_url, "MQTT_URL": farm.broker.url("gateway"), "ADMIN_TOKEN": "for-this-test-only"}
    wait_until_ready(start_service("edge-ingress-gateway", environ))
    issued = farm.told("add", "pump-7", "--kind", "sensor", "--tenant", "demo", "--farm", "farm-1", "--barn", "barn-1")
    path = tmp_path / "pump-7.json"
    path.write_text(json.dumps(issued))
    return path


async def stored_ids(pool: Pool) -> list[str]:
    rows = await pool.fetch("SELECT id FROM telemetry_raw WHERE device_id = 'pump-7' AND metric_type = 'pressure'")
    return [str(row["id"]) for row in rows]


async def has_stored(pool: Pool, count: int) -> bool:
    return len(await stored_ids(pool)) >= count
