"""Devices over HTTP: let in, given new secrets, taken out; by an administrator only, and only those of the named tenant."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from farmiq.edge.ingress_gateway import devices
from farmiq.edge.ingress_gateway.main import serve
from farmiq.kit.postgres import Pool
from support.gateway import SERVICE
from support.mosquitto import Broker
from support.service_process import running

TOKEN = "for-this-test-only"
NEW = {"device_id": "pump-7", "tenant_id": "demo", "farm_id": "farm-1", "barn_id": "barn-1", "kind": "sensor"}


class Gateway:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def post(
        self, path: str, body: object = None, token: str | None = TOKEN, **query: str
    ) -> tuple[int, dict[str, Any]]:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        async with self._session.post(
            f"{self._url}/api/v1{path}", json=body or {}, headers=headers, params=query
        ) as answer:
            return answer.status, await answer.json()


@pytest.fixture
def environ(edge_url: str, mosquitto: Broker) -> dict[str, str]:
    return {
        "DATABASE_URL": edge_url,
        "MQTT_URL": mosquitto.url(SERVICE),
        "ADMIN_TOKEN": TOKEN,
        "MQTT_DEVICE_URL": "mqtt://broker.example:1884",
        "BROKER_LOGINS_KEPT": "true",
        "FIXED_DEVICES": "node-1",
    }


@asynccontextmanager
async def gateway(environ: dict[str, str]) -> AsyncIterator[Gateway]:
    async with running(serve, SERVICE, environ) as url, aiohttp.ClientSession() as session:
        yield Gateway(session, url)


async def holder(pool: Pool, token: str) -> str | None:
    async with pool.acquire() as connection:
        found = await devices.holder_of(connection, token)
    return None if found is None else found.device_id


async def test_a_device_is_let_in_rotated_and_taken_out(
    environ: dict[str, str], edge_pool: Pool, capfd: pytest.CaptureFixture[str]
) -> None:
    async with gateway(environ) as api:
        status, added = await api.post("/devices", NEW)
        assert status == 201
        assert (added["mqtt_username"], added["kind"], added["for_the_broker"]) == ("pump-7", "sensor", None)
        assert added["mqtt_url"] == f"mqtt://pump-7:{added['mqtt_password']}@broker.example:1884"
        assert [way["title"] for way in added["ways"]] == ["Python", "Shell", "Environment"]
        assert all(added["mqtt_password"] in way["text"] for way in added["ways"])
        assert await holder(edge_pool, added["http_token"]) == "pump-7"
        status, rotated = await api.post("/devices/pump-7/rotate", tenant_id="demo")
        assert (status, await holder(edge_pool, added["http_token"])) == (200, None)
        assert await holder(edge_pool, rotated["http_token"]) == "pump-7"
        status, revoked = await api.post("/devices/pump-7/revoke", tenant_id="demo")
        assert (status, revoked["device_id"], bool(revoked["revoked_at"])) == (200, "pump-7", True)
        assert await holder(edge_pool, rotated["http_token"]) is None
        status, again = await api.post("/devices/pump-7/rotate", tenant_id="demo")
        assert (status, again["error"]["code"]) == (409, "device_revoked")
        status, back = await api.post("/devices", NEW)
        assert (status, back["mqtt_password"] != added["mqtt_password"]) == (201, True)
    written = "".join(capfd.readouterr())
    assert "device_added" in written
    assert not [
        told for told in (added, rotated, back) for name in ("mqtt_password", "http_token") if told[name] in written
    ]


async def test_a_node_and_a_weigh_station_get_what_they_need_first(environ: dict[str, str]) -> None:
    async with gateway(environ) as api:
        ways = {
            kind: (await api.post("/devices", NEW | {"device_id": f"one-{kind}", "kind": kind}))[1]["ways"][0]
            for kind in ("node", "weigh-station")
        }
    assert "farmiq run node-agent node-forwarder" in ways["node"]["text"]
    assert "farmiq run weighvision-agent" in ways["weigh-station"]["text"]


async def test_only_an_administrator_and_only_devices_of_the_tenant_that_is_named(environ: dict[str, str]) -> None:
    async with gateway(environ) as api:
        for token in (None, "wrong"):
            assert (await api.post("/devices", NEW, token))[0] == 401
            assert (await api.post("/devices/pump-7/revoke", token=token, tenant_id="demo"))[0] == 401
        await api.post("/devices", NEW)
        for deed in ("rotate", "revoke"):
            status, answer = await api.post(f"/devices/pump-7/{deed}", tenant_id="other")
            assert (status, answer["error"]["code"]) == (404, "device_unknown")
            status, answer = await api.post(f"/devices/nobody/{deed}", tenant_id="demo")
            assert (status, answer["error"]["code"]) == (404, "device_unknown")
            assert (await api.post(f"/devices/pump-7/{deed}"))[0] == 400
        status, answer = await api.post("/devices", NEW | {"tenant_id": "other"})
        assert (status, answer["error"]["code"]) == (409, "device_taken")
        assert "belongs to demo/farm-1/barn-1" in answer["error"]["message"]
        status, answer = await api.post("/devices", NEW)
        assert (status, answer["error"]["code"]) == (409, "device_known")


@pytest.mark.parametrize(
    "changed",
    [
        {"device_id": "a/b"},
        {"device_id": "+"},
        {"device_id": "pump-7\nuser x"},
        {"device_id": "<script>alert(1)</script>"},
        {"device_id": "operator"},
        {"device_id": "edge-ingress-gateway"},
        {"device_id": "telemetry"},
        {"device_id": "x" * 65},
        {"device_id": "x" * 5000},
        {"tenant_id": "../x"},
        {"farm_id": ""},
        {"kind": "a b"},
        {"more": 1},
    ],
)
async def test_a_name_that_could_be_mistaken_for_another_is_refused(
    environ: dict[str, str], edge_pool: Pool, changed: dict[str, Any]
) -> None:
    async with gateway(environ) as api:
        status, answer = await api.post("/devices", NEW | changed)
    assert status in {400, 422}, json.dumps(answer)
    assert await edge_pool.fetchval("SELECT count(*) FROM devices") == 0


async def test_devices_of_the_farm_itself_are_left_to_it(environ: dict[str, str]) -> None:
    async with gateway(environ) as api:
        for path, body in (("/devices", NEW | {"device_id": "node-1"}), ("/devices/node-1/revoke", None)):
            status, answer = await api.post(path, body, tenant_id="demo")
            assert (status, answer["error"]["code"]) == (409, "device_fixed")


async def test_where_the_broker_is_not_ours_its_keeper_is_told_what_to_add_and_remove(environ: dict[str, str]) -> None:
    async with gateway(environ | {"BROKER_LOGINS_KEPT": "false"}) as api:
        _, added = await api.post("/devices", NEW)
        _, revoked = await api.post("/devices/pump-7/revoke", tenant_id="demo")
    assert "pump-7:$7$" in added["for_the_broker"]
    assert "user pump-7\n  topic write iot/telemetry/demo/farm-1/barn-1/pump-7/+" in added["for_the_broker"]
    assert "remove user pump-7" in revoked["for_the_broker"]
