"""What was measured: a line for each sensor, with what was lost, is missing or came late shaded beside it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from litestar import Response, get
from litestar.di import NamedDependency, Provide
from litestar.params import QueryParameter
from msgspec import Struct

from farmiq.console.addresses import address, linker
from farmiq.console.chart import Chart
from farmiq.console.csv_export import csv_response
from farmiq.console.curves.answers import Series
from farmiq.console.curves.asking import Wanted, devices_of_barn, draw, series_of, tier_state
from farmiq.console.curves.choosing import SERVICE_OF, AskedTier, tier_to_show
from farmiq.console.curves.drawing import CSV_COLUMNS, Drawing, chart_of, rows_of
from farmiq.console.desk import AnyRequest, Desk, Page, Place
from farmiq.console.neighbours import Away, Refused
from farmiq.console.ranges import LENGTHS, TimeRange, time_range
from farmiq.contracts.ids import ID_PATTERN
from farmiq.kit.http_server import ApiError

DEVICES_MAX: Final = 6
LENGTH: Final = "1h"
METRIC: Final = "temperature"
"""Shown first where it is measured."""
SUGGESTED_MAX: Final = 1000
BESIDE_MAX: Final = 24
REFRESH_SECONDS: Final = {"15m": 3, "1h": 5, "6h": 15, "24h": 30}
REFRESH_SECONDS_MAX: Final = 60

Names = Annotated[list[str] | None, QueryParameter(name="device", max_items=DEVICES_MAX + 1)]
Metric = Annotated[str | None, QueryParameter(pattern=ID_PATTERN, max_length=64)]
Sensor = Annotated[str | None, QueryParameter(max_length=64)]
AskedOf = Annotated[AskedTier, QueryParameter(name="tier")]
AnyLength = Annotated[str | None, QueryParameter(name="range", max_length=8)]
At = Annotated[datetime | None, QueryParameter()]


class Asked(Struct, frozen=True):
    devices: list[str]
    metric: str | None
    sensor: str | None
    time: TimeRange
    tier: AskedTier

    def parameters(self, *, is_fixed: bool = False) -> dict[str, Any]:
        """As an address has them. `is_fixed`: with both ends of the time, so that the link goes on showing the same."""
        is_fixed = is_fixed or self.time.name is None
        return {
            "device": self.devices,
            "metric": self.metric,
            "sensor": self.sensor,
            "tier": None if self.tier == "auto" else self.tier,
            "range": None if is_fixed else self.time.name,
            "since": self.time.since.isoformat() if is_fixed else None,
            "until": self.time.until.isoformat() if is_fixed else None,
        }


class Choice(Struct, frozen=True, kw_only=True):
    """What can be chosen: devices, the metrics and sensors of the one that is shown first, and those that stand beside it."""

    devices: Sequence[str] = ()
    has_more: bool = False
    metrics: Sequence[str] = ()
    sensors: Sequence[str] = ()
    beside: Sequence[str] = ()
    trouble: Away | Refused | None = None


def routes(desk: Desk) -> list[Any]:
    async def asked_for(
        device: Names = None,
        metric: Metric = None,
        sensor: Sensor = None,
        length: AnyLength = None,
        since: At = None,
        until: At = None,
        tier: AskedOf = "auto",
    ) -> Asked:
        time = time_range(length, since, until, desk.clock.now(), default=LENGTH)
        return Asked(chosen_devices(device), metric, sensor or None, time, tier)

    given = {"asked": Provide(asked_for)}

    @get("/telemetry", dependencies=given)
    async def telemetry(request: AnyRequest, asked: NamedDependency[Asked]) -> Page:
        choice = await _choice(desk, desk.tenant(request), asked)
        asked = completed(asked, choice)
        fixed = asked.parameters(is_fixed=True)
        return desk.show(
            request,
            "telemetry.html",
            asked=asked,
            choice=choice,
            lengths=LENGTHS,
            devices_max=DEVICES_MAX,
            refresh_seconds=REFRESH_SECONDS.get(asked.time.name, REFRESH_SECONDS_MAX) if asked.time.name else 0,
            link=linker("/telemetry", asked.parameters()),
            data_address=address("/telemetry/data", asked.parameters()),
            csv_address=address("/telemetry/figures.csv", fixed),
            permalink=address("/telemetry", fixed),
        )

    @get("/telemetry/data", dependencies=given)
    async def data(request: AnyRequest, asked: NamedDependency[Asked]) -> Chart:
        """What charts.js draws. A service that is away is a note in the chart, not an error."""
        try:
            return chart_of(await _drawing(desk, request, asked))
        except (Away, Refused) as error:
            return Chart(title=asked.metric or "", lines=[], summary="Nothing can be shown.", notes=[str(error)])

    @get("/telemetry/figures.csv", dependencies=given)
    async def figures(request: AnyRequest, asked: NamedDependency[Asked]) -> Response[bytes]:
        found = await _drawing(desk, request, asked)
        return csv_response(f"telemetry-{asked.metric}", CSV_COLUMNS, rows_of(found))

    return [telemetry, data, figures]


def chosen_devices(names: list[str] | None) -> list[str]:
    """Each once, without those that were left empty in the form."""
    return list(dict.fromkeys(name.strip() for name in names or () if name.strip()))[:DEVICES_MAX]


def completed(asked: Asked, choice: Choice) -> Asked:
    """Who asked for nothing in particular is shown something."""
    return msgspec.structs.replace(
        asked,
        devices=asked.devices or list(choice.devices[:1]),
        metric=asked.metric or (METRIC if METRIC in choice.metrics else next(iter(choice.metrics), None)),
    )


def choice_of(series: Sequence[Series], asked: Asked, of_first: Sequence[Series]) -> Choice:
    metrics = list(dict.fromkeys(each.metric_type for each in of_first))
    names = list(dict.fromkeys([*asked.devices, *(each.device_id for each in series)]))
    shown = completed(asked, Choice(metrics=metrics)).metric
    return Choice(
        devices=names[:SUGGESTED_MAX],
        has_more=len(names) > SUGGESTED_MAX,
        metrics=metrics,
        sensors=sorted({each.sensor for each in of_first if each.metric_type == shown and each.sensor}),
        beside=list(dict.fromkeys(each.device_id for each in series if each.metric_type == shown)),
    )


async def _choice(desk: Desk, tenant_id: str, asked: Asked) -> Choice:
    tier = tier_to_show(asked.tier, tier_state(desk.neighbours, desk.pulse), asked.time.length).tier
    try:
        known = await series_of(desk.neighbours, tenant_id, tier)
        first = next(iter([*asked.devices, *(each.device_id for each in known.metrics)]), None)
        of_first = [each for each in known.metrics if each.device_id == first]
        if first is not None and known.next is not None and not of_first:
            of_first = (await series_of(desk.neighbours, tenant_id, tier, first)).metrics
    except (Away, Refused) as error:
        return Choice(devices=asked.devices, trouble=error)
    choice = choice_of(known.metrics, asked, of_first)
    beside = await _beside(desk, tenant_id, first, choice.beside)
    return msgspec.structs.replace(choice, beside=beside, has_more=choice.has_more or known.next is not None)


async def _beside(desk: Desk, tenant_id: str, first: str | None, measured: Sequence[str]) -> list[str]:
    """Devices of the same barn that measure the same: what one would compare."""
    if first is None or len(measured) < 2 or not desk.neighbours.knows(SERVICE_OF["edge"]):
        return []
    try:
        return (await devices_of_barn(desk.neighbours, tenant_id, first, measured))[:BESIDE_MAX]
    except (Away, Refused):
        # Whoever is not offered here can still be named in the form.
        return []


async def _drawing(desk: Desk, request: AnyRequest, asked: Asked) -> Drawing:
    if not asked.devices or asked.metric is None:
        raise ApiError(400, "nothing_chosen", "Choose a device and a metric")
    wanted = Wanted(desk.tenant(request), asked.devices, asked.metric, asked.sensor, asked.time)
    return await draw(desk.neighbours, wanted, asked.tier, tier_state(desk.neighbours, desk.pulse))


PLACE = Place("telemetry", "Telemetry", "/telemetry", routes)
