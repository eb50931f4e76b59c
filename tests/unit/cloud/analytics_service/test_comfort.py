import numpy as np
import pytest

from farmiq.cloud.analytics_service.barn_day import DAYS_BEFORE
from farmiq.cloud.analytics_service.comfort import Limits, comfort_of, thi, wet_bulb_c
from farmiq.cloud.analytics_service.inputs import SeriesHours
from farmiq.cloud.analytics_service.kpis import Comfort
from support.analytics_days import hours, series, tracks, window


def comfort(rows: list[SeriesHours], limits: Limits | None = None) -> Comfort | None:
    return comfort_of(window(), tracks(rows), limits or Limits())


def test_the_index_for_livestock_by_hand() -> None:
    # 30 degrees and 60 %: 86 - (0.55 - 0.33) * 28 = 79.84. 20 degrees and 50 %: 68 - 0.275 * 10 = 65.25.
    found = thi(np.array([30.0, 20.0, np.nan]), np.array([60.0, 50.0, 50.0]), "livestock")
    assert found[:2] == pytest.approx([79.84, 65.25])
    assert np.isnan(found[2])


def test_the_index_for_broilers_has_the_wet_bulb() -> None:
    # Stull gives 13.7 degrees for air of 20 degrees and 50 %.
    assert wet_bulb_c(np.array([20.0]), np.array([50.0]))[0] == pytest.approx(13.7, abs=0.01)
    assert thi(np.array([20.0]), np.array([50.0]), "broiler")[0] == pytest.approx(17 + 0.15 * 13.7, abs=0.01)


def test_hours_outside_are_counted_once_each() -> None:
    rows = [
        hours(series(), lambda day, hour: (30.0 if hour < 4 else 20.0) if day == DAYS_BEFORE else 99.0),
        hours(series(metric="humidity", sensor="", unit="%"), lambda _day, hour: 85.0 if hour in (3, 4) else 60.0),
    ]
    found = comfort(rows)
    assert found is not None
    assert (found.hours_measured, found.hours_too_hot, found.hours_too_humid) == (24, 4, 2)
    assert found.hours_outside == 5  # hours 0 to 4
    assert found.hours_thi_over == 4
    assert (found.hours_too_cold, found.hours_too_dry) == (0, 0)
    assert (found.temperature_min_c, found.temperature_max_c) == (20.0, 30.0)
    assert found.temperature_mean_c == pytest.approx((4 * 30 + 20 * 20) / 24)
    assert found.thi_max == pytest.approx(86 - (0.55 - 0.0055 * 85) * 28)


def test_a_broken_sensor_does_not_heat_the_barn() -> None:
    rows = [
        hours(series(sensor="t1"), lambda _day, _hour: 21.0),
        hours(series(sensor="t2"), lambda _day, _hour: 22.0),
        hours(series(sensor="t3"), lambda _day, _hour: 75.0),
        hours(series(sensor="t4", unit="F"), lambda _day, _hour: 71.6),  # 22 degrees Celsius
        hours(series(sensor="t5"), lambda _day, _hour: 3000.0),  # no air is that hot
        hours(series(sensor="t6", unit="volt"), lambda _day, _hour: 1.0),
    ]
    found = comfort(rows)
    assert found is not None
    assert found.temperature_mean_c == pytest.approx(22.0)
    assert found.hours_outside == 0
    assert found.thi_mean is None
    assert found.humidity_mean_percent is None


def test_a_limit_that_is_null_is_not_judged() -> None:
    rows = [hours(series(), lambda _day, _hour: 40.0)]
    found = comfort(rows, Limits(temperature_c_max=None, thi_max=None))
    assert found is not None
    assert found.hours_outside == 0


def test_a_barn_without_climate_has_no_comfort() -> None:
    assert comfort([hours(series(metric="co2", unit="ppm"), lambda _day, _hour: 800.0)]) is None
    assert comfort([hours(series(), lambda day, _hour: None if day == DAYS_BEFORE else 20.0)]) is None
