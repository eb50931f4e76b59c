"""When each device was heard last, asked of the service that knows. A service that is away is part of the answer."""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

TIMEOUT_SECONDS = 5.0
ANSWER_BYTES_MAX = 16 << 20
PAGE_DEVICES = 100
ROUTE = "/api/v1/devices"


@dataclass(frozen=True)
class Liveness:
    is_online: bool
    last_rx_at: str | None


@dataclass(frozen=True)
class Unknown:
    """Nobody could be asked, and why."""

    reason: str


def ask_liveness(environment: Mapping[str, str], tenant_ids: Iterable[str]) -> dict[str, Liveness] | Unknown:
    """By device id. A device that was never heard is not in it."""
    url, token = environment.get("EDGE_TELEMETRY_TIMESERIES_URL"), environment.get("ADMIN_TOKEN")
    if not url or not token:
        return Unknown("no edge-telemetry-timeseries runs here")
    try:
        return {
            device["device_id"]: Liveness(device["online"], device["last_rx_at"])
            for tenant_id in sorted(set(tenant_ids))
            for device in _devices(url, token, tenant_id)
        }
    except (OSError, ValueError, KeyError) as error:
        return Unknown(f"edge-telemetry-timeseries does not say: {error}")


def _devices(url: str, token: str, tenant_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after: str | None = None
    while True:
        query = {"tenant_id": tenant_id, "limit": PAGE_DEVICES} | ({"after": after} if after else {})
        page = _get(f"{url.rstrip('/')}{ROUTE}?{urllib.parse.urlencode(query)}", token)
        found += page["devices"]
        after = page["next"]
        if after is None:
            return found


def _get(url: str, token: str) -> Any:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})  # noqa: S310 - a URL of our own stack
    # A proxy of the environment is meant for the internet, and would only say that it does not know our loopback.
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(request, timeout=TIMEOUT_SECONDS) as answer:
        return json.loads(answer.read(ANSWER_BYTES_MAX))
