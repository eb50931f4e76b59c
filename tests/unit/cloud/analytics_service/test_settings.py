import pytest

from farmiq.cloud.analytics_service.comfort import Limits
from farmiq.cloud.analytics_service.settings import JudgementSettings, Rules, rules_of
from farmiq.kit.settings import BadSettings, load


def rules(**environ: str) -> Rules:
    return rules_of(load(JudgementSettings, environ))


def test_the_nearest_limits_count() -> None:
    limits = """
        {"demo": {"temperature_c_max": 30}, "demo/farm-1": {"temperature_c_max": 31, "thi_max": null},
         "demo/farm-1/barn-7": {"formula": "broiler", "thi_max": 26.5, "temperature_c_max": 34, "temperature_c_min": 20}}
    """
    found = rules(COMFORT_LIMITS=limits)
    assert found.comfort_of("other", "farm-1", "barn-7") == Limits()
    assert found.comfort_of("demo", "farm-2", "barn-7").temperature_c_max == 30
    assert found.comfort_of("demo", "farm-1", "barn-1").thi_max is None
    barn = found.comfort_of("demo", "farm-1", "barn-7")
    assert (barn.formula, barn.temperature_c_max, barn.thi_max) == ("broiler", 34, 26.5)


def test_a_farm_has_a_clock_and_limits_of_its_own() -> None:
    found = rules(FARM_TIMEZONE="Asia/Bangkok", ANOMALY_UNUSUAL_Z="6", GROWTH_RECENT_DAYS="7")
    assert found.calendar.zone.key == "Asia/Bangkok"
    assert (found.anomalies.unusual_z, found.anomalies.recent_days) == (6.0, 7)


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"FARM_TIMEZONE": "Mars/Olympus"}, "FARM_TIMEZONE"),
        ({"FARM_TIMEZONE": "../etc/passwd"}, "FARM_TIMEZONE"),
        ({"COMFORT_LIMITS": "{"}, "COMFORT_LIMITS"),
        ({"COMFORT_LIMITS": '{"demo": {"temperatur_c_max": 30}}'}, "COMFORT_LIMITS"),
        ({"COMFORT_LIMITS": '{"demo": {"temperature_c_max": 300}}'}, "COMFORT_LIMITS"),
        ({"ANOMALY_WEIGHT_JUMP": "-1"}, "ANOMALY_WEIGHT_JUMP"),
    ],
)
def test_a_wrong_setting_stops_the_start_and_is_named(environ: dict[str, str], named: str) -> None:
    with pytest.raises(BadSettings, match=named):
        rules(**environ)
