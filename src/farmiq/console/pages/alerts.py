"""What a person has to know of: open, known of by somebody, and closed, each with what the runbook says."""

from typing import Annotated, Any, Final, Literal

from litestar import Response, get, post
from litestar.response import Redirect
from msgspec import Meta, Struct

from farmiq.console.alarms import runbook
from farmiq.console.alarms.rows import AlarmRow, EdgeAlert, in_order, of_edge, of_rule
from farmiq.console.csv_export import csv_response
from farmiq.console.desk import AnyRequest, Desk, Page, Place
from farmiq.console.forms import FORM, Form
from farmiq.console.guarding import NotForAll, session_of
from farmiq.console.neighbours import Away, Refused
from farmiq.kit.http_server import ApiError

EDGE: Final = "edge-telemetry-timeseries"
CLOSED_SHOWN: Final = 50
ALERTS_MAX: Final = 1000


class EdgeAlerts(Struct, frozen=True):
    alerts: list[EdgeAlert] = []


class AcknowledgeForm(Form, frozen=True, kw_only=True):
    source: Literal["rule", "edge"]
    id: Annotated[str, Meta(pattern=r"^[0-9a-f-]{36}\Z")]
    note: Annotated[str, Meta(max_length=2000)] = ""


def routes(desk: Desk) -> list[Any]:
    @get("/alerts")
    async def alerts(request: AnyRequest) -> Page:
        return desk.show(request, "alerts.html", **await _found(desk, request))

    @get("/alerts/bell")
    async def bell(request: AnyRequest) -> Page:
        """For the head of each page. Alerts of the rules only: they are in a file of ours, and a look costs nothing."""
        return desk.show(request, "alerts_bell.html", open_alerts=desk.open_alerts())

    @get("/alerts.csv")
    async def as_csv(request: AnyRequest) -> Response[bytes]:
        found = await _found(desk, request)
        if found["trouble"]:
            # A file that says less than there is would be taken for the truth.
            raise Away(EDGE, found["trouble"])
        rows = [*found["open"], *found["acknowledged"], *found["closed"]]
        fields = [field for field in AlarmRow.__struct_fields__ if field != "leads"]
        return csv_response("alerts", fields, ([getattr(row, field) for field in fields] for row in rows))

    @post("/alerts/acknowledge", status_code=303)
    async def acknowledge(request: AnyRequest, data: Annotated[AcknowledgeForm, FORM]) -> Redirect:
        name = session_of(request).person.name
        async with desk.deed(request, "alert.acknowledge", data.id, source=data.source, note=data.note):
            if data.source == "rule":
                # One alert for all tenants: known to one of them, it would be silent for the others.
                if not session_of(request).person.sees_all:
                    raise NotForAll
                desk.alerts.acknowledge(data.id, name, data.note, desk.clock.now())
            else:
                await _acknowledge_at_edge(desk, request, data, name)
        return Redirect("/alerts", status_code=303)

    return [alerts, bell, as_csv, acknowledge]


async def _acknowledge_at_edge(desk: Desk, request: AnyRequest, form: AcknowledgeForm, name: str) -> None:
    """Only what is on this person's page."""
    edge, _ = await _edge_alerts(desk, request)
    if form.id not in {alert.id for alert in edge}:
        raise ApiError(404, "unknown_alert", "There is no such alert")
    body = {"by": name, "note": form.note}
    await desk.neighbours.post(EDGE, f"/api/v1/alerts/{form.id}/acknowledge", body, dict[str, Any])


async def _found(desk: Desk, request: AnyRequest) -> dict[str, Any]:
    edge, trouble = await _edge_alerts(desk, request)
    rows = [of_rule(alert) for alert in desk.alerts.not_closed()]
    rows += [of_rule(alert) for alert in desk.alerts.alerts("closed", limit=CLOSED_SHOWN)]
    rows += [of_edge(alert) for alert in edge]
    return {
        "open": in_order(row for row in rows if row.status == "open"),
        "acknowledged": in_order(row for row in rows if row.status == "acknowledged"),
        "closed": sorted((row for row in rows if row.closed_at), key=lambda row: row.closed_at or 0, reverse=True),
        "runbook": runbook.entries(),
        "trouble": trouble,
    }


async def _edge_alerts(desk: Desk, request: AnyRequest) -> tuple[list[EdgeAlert], str]:
    if not desk.neighbours.knows(EDGE):
        return [], ""
    try:
        found = await desk.neighbours.get(
            EDGE, "/api/v1/alerts", EdgeAlerts, tenant_id=desk.tenant(request), limit=ALERTS_MAX
        )
    except (Away, Refused) as error:
        return [], str(error)
    return found.alerts, ""


PLACE = Place("alerts", "Alerts", "/alerts", routes)
