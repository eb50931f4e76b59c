from prometheus_client import CollectorRegistry

from farmiq.spool.losses import Cause
from farmiq.timeseries.loss_totals import CAUSES, STATION_CAUSES, LossTotals, Lost


def shown(registry: CollectorRegistry, cause: str) -> float | None:
    return registry.get_sample_value("farmiq_samples_lost_total", {"cause": cause})


def test_every_cause_that_a_node_names_has_its_series() -> None:
    assert set(Cause) <= set(CAUSES)


def test_nothing_is_shown_before_the_ledger_was_read_and_every_cause_after() -> None:
    registry = CollectorRegistry()
    totals = LossTotals(registry)
    assert shown(registry, "damaged") is None
    totals.saw(Lost({"damaged": 40}, {}))
    assert (shown(registry, "damaged"), shown(registry, "cap_reached")) == (40, 0)


def test_a_total_follows_the_ledger_and_never_goes_back() -> None:
    registry = CollectorRegistry()
    totals = LossTotals(registry)
    for ledger, expected in ((40, 40), (40, 40), (43, 43), (10, 43), (42, 43), (50, 50)):
        totals.saw(Lost({"damaged": ledger}, {}))
        assert shown(registry, "damaged") == expected


def test_a_device_can_not_make_series_of_its_own() -> None:
    registry = CollectorRegistry()
    words = {f"word-{number}": 1 for number in range(500)} | {"other": 1}
    LossTotals(registry).saw(Lost(words, words))
    assert shown(registry, "other") == 501
    samples, of_stations = registry.collect()
    assert len(samples.samples) == 2 * len(CAUSES), "each with its _created"
    assert len(of_stations.samples) == 2 * len(STATION_CAUSES)


def test_what_stations_give_up_is_counted_beside_samples() -> None:
    registry = CollectorRegistry()
    LossTotals(registry).saw(Lost({}, {"queue_full": 7}))
    assert registry.get_sample_value("farmiq_station_lost_total", {"cause": "queue_full"}) == 7
    assert shown(registry, "damaged") == 0
