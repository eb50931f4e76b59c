import json

import pytest
from typer.testing import CliRunner

from farmiq.cli import exits
from farmiq.cli.app import app
from farmiq.cli.errors import BadUsage
from farmiq.cli.size_report import report_of
from farmiq.cli.size_words import bits_written, bytes_written, read_bytes, read_seconds
from farmiq.sizing import Farm

GIB = 1 << 30


def run(*arguments: str) -> str:
    answer = CliRunner().invoke(app, ["size", *arguments])
    assert answer.exit_code == exits.OK, answer.output
    return answer.stdout


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("200ms", 0.2), ("30s", 30), ("5m", 300), ("48h", 172_800), ("14d", 1_209_600), ("1.5 h", 5400)],
)
def test_times_are_read_as_they_are_written(text: str, seconds: float) -> None:
    assert read_seconds("--outage", text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "count"), [("300kB", 300_000), ("64GB", 64 * 10**9), ("32GiB", 32 * GIB), ("1.5MB", 1_500_000), ("10", 10)]
)
def test_sizes_are_read_as_they_are_written(text: str, count: int) -> None:
    assert read_bytes("--edge-disk", text) == count


@pytest.mark.parametrize("text", ["", "h", "48", "1y", "-1h", "1e9h", "nan", "٣h"])
def test_a_time_that_cannot_be_read_says_what_is_allowed(text: str) -> None:
    with pytest.raises(BadUsage, match="--outage"):
        read_seconds("--outage", text)


@pytest.mark.parametrize("text", ["", "GB", "1 gb", "1Gb", "-1GB", "inf"])
def test_a_size_that_cannot_be_read_says_what_is_allowed(text: str) -> None:
    with pytest.raises(BadUsage, match="--edge-disk"):
        read_bytes("--edge-disk", text)


def test_bytes_and_bits_have_three_digits() -> None:
    shown = [bytes_written(count) for count in (0, 999, 1000, 74_800_000, 1_090_000_000_000)]
    assert shown == ["0 B", "999 B", "1 kB", "74.8 MB", "1.09 TB"]
    assert [bits_written(rate) for rate in (1.25, 1250, 203_000)] == ["10.0 bit/s", "10.0 kbit/s", "1.62 Mbit/s"]


def test_the_table_has_each_disk_and_the_line() -> None:
    text = run("--stations", "1", "--pictures", "100", "--node-disk", "16GB", "--edge-disk", "1TB")
    headings = [line for line in text.splitlines() if line and not line.startswith(" ")]
    assert headings[1:] == ["On each node", "On each station", "On the edge's disk", "From the edge to the cloud"]
    assert text.count("its disk lasts") == 2


def test_json_has_the_same_numbers() -> None:
    found = json.loads(run("--json", "--edge-disk", "10GB"))
    assert found["sizes"]["node"]["samples_per_second"] == 10
    edge = found["sizes"]["edge"]
    assert edge["total"] == pytest.approx(sum(value for name, value in edge.items() if name != "total"))
    assert (found["fits_edge_disk"], found["edge_runway_seconds"]) == (False, None)


def test_settings_are_named_only_where_the_defaults_would_give_something_up() -> None:
    assert report_of(Farm()).settings == {}
    large = Farm(channels=1000, stations=1, pictures_per_day=3000, picture_bytes=10**6, outage_seconds=5 * 86_400)
    settings = report_of(large).settings
    assert set(settings) == {
        "NODE_FORWARDER_MAX_SPOOL_BYTES",
        "WEIGHVISION_PICTURES_BYTES_MAX",
        "WEIGHVISION_EVENTS_MAX",
        "WEIGHVISION_HOURS_MAX",
        "MEDIA_SYNC_BYTES_PER_SECOND",
    }
    assert settings["WEIGHVISION_HOURS_MAX"] == 120
    assert settings["NODE_FORWARDER_MAX_SPOOL_BYTES"] >= 1000 * 40 * 5 * 86_400


def test_a_disk_that_is_too_small_gets_the_number_of_days_that_fits_it() -> None:
    settings = report_of(Farm(), edge_disk_bytes=40 * 10**9).settings
    assert 1 <= settings["TELEMETRY_RAW_RETENTION_DAYS"] < Farm().kept.raw_days
    assert report_of(Farm(), edge_disk_bytes=10**12).settings == {}
