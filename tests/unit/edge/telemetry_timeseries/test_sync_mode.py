from datetime import timedelta

import pytest

from farmiq.edge.ingress_gateway.settings import GatewaySettings
from farmiq.edge.telemetry_timeseries.sync_mode import SyncPlan, is_recent, to_tell
from farmiq.kit.settings import BadSettings, load
from farmiq.timeseries.rollup import Bucket
from support.telemetry import HERE, NOW, START_US

NEEDED = {"DATABASE_URL": "postgresql://x", "MQTT_URL": "mqtt://x", "ADMIN_TOKEN": "x"}


def test_the_cloud_is_told_of_one_window() -> None:
    touched = [Bucket(HERE, "co2", "", "ppm", window, START_US) for window in ("1m", "1h", "1d")]
    assert to_tell(touched, SyncPlan("both", "1h")) == [touched[1]]


def test_what_has_just_closed_goes_ahead_of_what_a_replay_opened() -> None:
    assert is_recent(NOW - timedelta(seconds=95), "1m", NOW)
    assert not is_recent(NOW - timedelta(minutes=4), "1m", NOW)
    assert is_recent(NOW - timedelta(minutes=4), "1h", NOW)


def test_the_mode_is_read_from_the_environment_and_raw_by_default() -> None:
    plan = load(GatewaySettings, NEEDED).sync_plan
    assert (plan.has_raw, plan.has_aggregates) == (True, False)
    both = load(GatewaySettings, NEEDED | {"TELEMETRY_SYNC_MODE": "both", "TELEMETRY_SYNC_WINDOW": "1h"}).sync_plan
    assert (both.has_raw, both.has_aggregates, both.window) == (True, True, "1h")
    only = load(GatewaySettings, NEEDED | {"TELEMETRY_SYNC_MODE": "aggregated"}).sync_plan
    assert (only.has_raw, only.has_aggregates) == (False, True)
    with pytest.raises(BadSettings, match=r"TELEMETRY_SYNC_MODE is 'some', .* raw, aggregated or both"):
        load(GatewaySettings, NEEDED | {"TELEMETRY_SYNC_MODE": "some"})
