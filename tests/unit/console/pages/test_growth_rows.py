from datetime import UTC, date, datetime
from typing import Any

from farmiq.console.growth.answers import Comfort, Kpi
from farmiq.console.pages.growth import _with_barns

DAY = date(2026, 11, 15)


def kpi(scope: str, day: date = DAY, barn_id: str = "barn-1", **more: Any) -> Kpi:
    given: dict[str, Any] = {
        "farm_id": "farm-1", "barn_id": barn_id, "day": day, "scope": scope, "computed_at": datetime(2026, 11, 16, tzinfo=UTC),
        "batch_id": "batch-1" if scope == "batch" else None,
    }  # fmt: skip
    return Kpi(**given | more)


def test_a_batch_is_shown_with_the_climate_of_its_barn_that_day() -> None:
    comfort = Comfort(hours_measured=24, hours_outside=3, hours_thi_over=0)
    rows = [kpi("barn", comfort=comfort), kpi("barn", barn_id="barn-2"), kpi("batch"), kpi("batch", date(2026, 11, 14))]
    shown = _with_barns(rows, "batch")
    assert [(row.day.day, barn.comfort) for row, barn in shown] == [(14, None), (15, comfort)]
    assert [barn for _, barn in _with_barns(rows, "barn")] == [rows[1], rows[0]]
