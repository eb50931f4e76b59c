import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from farmiq.torture.clocks import TierClocks

_NOW = "from farmiq.kit.clock import Clock; print(Clock().now().isoformat())"
DAY = timedelta(days=1)


def ahead(environment: Mapping[str, str], *words: str) -> timedelta:
    """How far the clock of a process with such a command line is from ours, in whole days."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", _NOW, *words],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return DAY * round((datetime.fromisoformat(done.stdout.strip()) - datetime.now(UTC)) / DAY)


def test_the_services_of_one_tier_see_its_clock_and_nobody_else_does(tmp_path: Path) -> None:
    clocks = TierClocks(tmp_path / "clocks")
    environment = clocks.environment()
    clocks.move("edge", 86_400.0)
    clocks.move("cloud", -365 * 86_400.0)
    assert ahead(environment, "run", "edge-sync-forwarder") == DAY
    assert ahead(environment, "run", "cloud-ingestion") == -365 * DAY
    assert ahead(environment, "run", "node-forwarder") == 0 * DAY
    assert ahead(environment, "supervise", "edge-sync-forwarder") == 0 * DAY
    clocks.move("edge", 0.0)
    assert ahead(environment, "run", "edge-sync-forwarder") == 0 * DAY
