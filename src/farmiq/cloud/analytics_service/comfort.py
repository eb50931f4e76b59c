"""How comfortable the barn was, hour by hour: the middle of its sensors' hourly means against limits.

The temperature-humidity index has two formulas here, by species:

    livestock   (1.8 T + 32) - (0.55 - 0.0055 RH) (1.8 T - 26)    cattle and pigs. It is the one of the Livestock Weather Safety
                Index, which calls 75 to 78 alert, 79 to 83 danger and 84 and more emergency
    broiler     0.85 T + 0.15 Tw    market-size broilers, with the wet-bulb temperature Tw from T and RH after Stull

T is in degrees Celsius, RH in percent.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np
from msgspec import Meta

from farmiq.cloud.analytics_service.days import Flags, Values, Window
from farmiq.cloud.analytics_service.inputs import Track
from farmiq.cloud.analytics_service.kpis import Comfort
from farmiq.cloud.analytics_service.robust import column_medians

Formula = Literal["livestock", "broiler"]
Celsius = Annotated[float, Meta(ge=-60, le=80)]
Percent = Annotated[float, Meta(ge=0, le=100)]

CELSIUS: Final = frozenset({"", "c", "°c", "degc", "celsius"})
FAHRENHEIT: Final = frozenset({"f", "°f", "degf", "fahrenheit"})
PERCENT: Final = frozenset({"", "%", "%rh", "rh%", "percent"})


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the animals of a barn stand well. The defaults are for growing and finishing pigs; a null one is not judged."""

    formula: Formula = "livestock"
    temperature_c_min: Celsius | None = 15.0
    temperature_c_max: Celsius | None = 27.0
    humidity_percent_min: Percent | None = 40.0
    humidity_percent_max: Percent | None = 80.0
    thi_max: Annotated[float, Meta(ge=0, le=150)] | None = 74.0
    temperature_metric: str = "temperature"
    humidity_metric: str = "humidity"


class _Convert(msgspec.Struct, frozen=True):
    """From a sensor's unit to ours: added to, then multiplied. Units that it does not know are left out, never guessed."""

    units: dict[str, tuple[float, float]]
    lowest: float
    highest: float

    def __call__(self, track: Track) -> Values | None:
        known = self.units.get(track.series.unit.strip().lower())
        if known is None:
            return None
        values = (track.mean + known[0]) * known[1]
        # What no air has is a broken sensor's word; a percentage below nothing has no root.
        return np.where((values >= self.lowest) & (values <= self.highest), values, np.nan)


_to_celsius: Final = _Convert(
    {**dict.fromkeys(CELSIUS, (0.0, 1.0)), **dict.fromkeys(FAHRENHEIT, (-32.0, 5 / 9))}, -60, 80
)
_to_percent: Final = _Convert(dict.fromkeys(PERCENT, (0.0, 1.0)), 0, 100)


def comfort_of(window: Window, tracks: Sequence[Track], limits: Limits) -> Comfort | None:
    """None when the barn has neither temperature nor humidity on this day."""
    temperature = _barn(window, tracks, limits.temperature_metric, _to_celsius)
    humidity = _barn(window, tracks, limits.humidity_metric, _to_percent)
    index = thi(temperature, humidity, limits.formula)
    is_measured = ~np.isnan(temperature) | ~np.isnan(humidity)
    if not is_measured.any():
        return None
    hot, cold = _above(temperature, limits.temperature_c_max), _below(temperature, limits.temperature_c_min)
    humid, dry = _above(humidity, limits.humidity_percent_max), _below(humidity, limits.humidity_percent_min)
    over = _above(index, limits.thi_max)
    return Comfort(
        formula=limits.formula,
        hours_measured=int(is_measured.sum()),
        hours_outside=int((hot | cold | humid | dry | over).sum()),
        hours_too_hot=int(hot.sum()),
        hours_too_cold=int(cold.sum()),
        hours_too_humid=int(humid.sum()),
        hours_too_dry=int(dry.sum()),
        hours_thi_over=int(over.sum()),
        temperature_mean_c=_known(temperature, np.mean),
        temperature_min_c=_known(temperature, np.min),
        temperature_max_c=_known(temperature, np.max),
        humidity_mean_percent=_known(humidity, np.mean),
        thi_mean=_known(index, np.mean),
        thi_max=_known(index, np.max),
    )


def thi(temperature_c: Values, humidity_percent: Values, formula: Formula) -> Values:
    if formula == "broiler":
        return 0.85 * temperature_c + 0.15 * wet_bulb_c(temperature_c, humidity_percent)
    return (1.8 * temperature_c + 32) - (0.55 - 0.0055 * humidity_percent) * (1.8 * temperature_c - 26)


def wet_bulb_c(temperature_c: Values, humidity_percent: Values) -> Values:
    """At sea level, within 1 degree for 5 to 99 % and -20 to 50 degrees."""
    rh = humidity_percent
    return np.asarray(
        temperature_c * np.arctan(0.151977 * np.sqrt(rh + 8.313659))
        + np.arctan(temperature_c + rh)
        - np.arctan(rh - 1.676331)
        + 0.00391838 * rh**1.5 * np.arctan(0.023101 * rh)
        - 4.686035
    )


def _barn(window: Window, tracks: Sequence[Track], metric: str, convert: _Convert) -> Values:
    """The middle of the sensors, so that one that is broken does not heat the whole barn."""
    means = [convert(track) for track in tracks if track.series.metric == metric]
    known = [mean for mean in means if mean is not None]
    if not known:
        return np.full(int(window.is_today.sum()), np.nan)
    return column_medians(np.array(known)[:, window.is_today])[0]


def _above(values: Values, limit: float | None) -> Flags:
    """NaN is above and below nothing."""
    return np.zeros(len(values), dtype=np.bool_) if limit is None else np.asarray(values > limit)


def _below(values: Values, limit: float | None) -> Flags:
    return np.zeros(len(values), dtype=np.bool_) if limit is None else np.asarray(values < limit)


def _known(values: Values, summary: Callable[[Values], Any]) -> float | None:
    known = values[~np.isnan(values)]
    return float(summary(known)) if len(known) else None
