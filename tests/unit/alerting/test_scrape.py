from math import isnan
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.exposition import generate_latest

from farmiq.alerting.disks import distinct, watch_disks
from farmiq.alerting.history import Sample
from farmiq.alerting.scrape import SERIES_MAX, NotScraped, own_samples, parse


def test_what_the_rules_ask_for_is_read_and_nothing_else() -> None:
    registry = CollectorRegistry()
    Counter("farmiq_dead_letters", "Given up.", ["queue"], registry=registry).labels('a "q"\\').inc(3)
    Gauge("outbox_pending_total", "Waiting.", registry=registry).set(7)
    Gauge("something_else", "Not asked for.", registry=registry).set(1)
    wanted = {"farmiq_dead_letters_total", "outbox_pending_total"}
    expected = {
        Sample("farmiq_dead_letters_total", (("job", "edge"), ("queue", 'a "q"\\')), 3.0),
        Sample("outbox_pending_total", (("job", "edge"),), 7.0),
    }
    assert set(parse("edge", generate_latest(registry), wanted)) == expected
    assert set(own_samples("edge", registry, wanted)) == expected


def test_a_label_that_prometheus_would_rename_is_renamed() -> None:
    (sample,) = parse("edge", b'x{job="their own"} 1\n', {"x"})
    assert sample.labels == (("exported_job", "their own"), ("job", "edge"))


@pytest.mark.parametrize("body", [b"<html>captive portal</html>", b"x{a=", b"\xff\xfe", b'x{a="b"} not-a-number\n'])
def test_an_answer_that_is_no_metrics_is_no_answer(body: bytes) -> None:
    with pytest.raises(NotScraped):
        parse("edge", body, {"x"})


def test_a_service_that_shows_too_many_series_is_cut_short() -> None:
    body = "".join(f'x{{n="{n}"}} 1\n' for n in range(SERIES_MAX + 10)).encode()
    assert len(parse("edge", body, {"x"})) == SERIES_MAX


def test_the_disk_of_a_path_is_measured_and_one_that_is_gone_is_not_a_full_one(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    here = tmp_path
    watch_disks(registry, [here, here / "gone"])
    ratio = registry.get_sample_value("farmiq_disk_free_ratio", {"path": str(here)})
    assert ratio is not None
    assert 0 <= ratio <= 1
    gone = registry.get_sample_value("farmiq_disk_free_ratio", {"path": str(here / "gone")})
    assert gone is not None
    assert isnan(gone)


def test_a_disk_is_watched_once_however_many_folders_are_on_it(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()
    gone = tmp_path / "not-there-yet"
    assert distinct([tmp_path, tmp_path / "postgres", gone]) == [tmp_path, gone]
    other = next((path for path in (Path("/dev/shm"), Path("/proc")) if path.exists()), None)
    assert other is not None
    assert distinct([tmp_path, other]) == [tmp_path, other]
