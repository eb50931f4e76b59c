"""What happened in a session, when, and how well scale and camera agree. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from statistics import fmean
from typing import Final
from uuid import UUID

from msgspec import Struct

from farmiq.console.chart import Chart, Curve, Point, line_of, summary_of
from farmiq.console.weighings.answers import CloudView, EdgeDetail, EdgePicture, Result, Status, Weight

CHART_MARGIN_SECONDS: Final = 2.0


class Facts(Struct, frozen=True, kw_only=True):
    """A session as the two tiers together know it: the edge where it answers, else the cloud."""

    id: UUID
    device_id: str
    barn_id: str
    batch_id: str | None
    status: Status
    start_at: datetime | None
    end_at: datetime | None
    final_weight_kg: float | None
    expected: int | None
    chosen_result_id: UUID | None
    cancel_reason: str | None
    weights: Sequence[Weight]
    results: Sequence[Result]


class Step(Struct, frozen=True):
    """`delay_seconds` since the step before. `at` is None for what has not happened, or is not known."""

    title: str
    at: datetime | None
    note: str = ""
    delay_seconds: float | None = None


class Compared(Struct, frozen=True):
    """Camera against scale: positive means that the camera says more."""

    result: Result
    error_kg: float | None
    error_percent: float | None
    is_chosen: bool


def facts_of(edge: EdgeDetail | None, cloud: CloudView | None) -> Facts | None:
    if edge is not None:
        session = edge.session
        return Facts(
            id=session.id, device_id=session.device_id, barn_id=session.barn_id, batch_id=session.batch_id,
            status=session.status, start_at=session.start_at, end_at=session.end_at,
            final_weight_kg=session.final_weight_kg, expected=session.pictures.expected,
            chosen_result_id=session.inference_result_id, cancel_reason=cloud.session.cancel_reason if cloud else None,
            weights=_in_order(edge.weights), results=edge.results,
        )  # fmt: skip
    if cloud is None:
        return None
    kept = cloud.session
    return Facts(
        id=kept.id, device_id=kept.device_id or "", barn_id=kept.barn_id or "", batch_id=kept.batch_id,
        status=kept.status, start_at=kept.start_at, end_at=kept.end_at, final_weight_kg=kept.final_weight_kg,
        expected=kept.image_count, chosen_result_id=kept.inference_result_id, cancel_reason=kept.cancel_reason,
        weights=_in_order(cloud.weights), results=cloud.inferences,
    )  # fmt: skip


def steps_of(facts: Facts, edge: EdgeDetail | None, cloud: CloudView | None) -> list[Step]:
    """In the order of time, what has not happened last."""
    pictures = edge.pictures if edge is not None else []
    ending = "Cancelled" if facts.status == "cancelled" else "Finalized"
    steps = [
        Step("Created", facts.start_at),
        Step("Heard of by the edge", edge.session.first_heard_at if edge is not None else None),
        Step("Last weight", _last(weight.occurred_at for weight in facts.weights), _count(len(facts.weights), "weight")),
        Step("Last picture taken", _last(_times(pictures, "captured_at")), _count(len(pictures), "picture")),
        Step("Last picture in the edge", _last(_times(pictures, "stored_at")), _stored(pictures, facts.expected)),
        Step(ending, facts.end_at, facts.cancel_reason or ""),
        Step("Last word of a model", _last(result.occurred_at for result in facts.results), _count(len(facts.results), "result")),
        Step("First heard of in the cloud", cloud.first_stored_at if cloud is not None else None),
        Step("Last changed in the cloud", cloud.last_stored_at if cloud is not None else None),
    ]  # fmt: skip
    return _with_delays(steps)


def compared(facts: Facts) -> dict[UUID | None, list[Compared]]:
    """By picture, each with every model that spoke of it, the newest first."""
    found: dict[UUID | None, list[Compared]] = {}
    for result in sorted(facts.results, key=lambda one: one.occurred_at, reverse=True):
        error = error_kg(result.predicted_weight_kg, facts.final_weight_kg)
        percent = 100 * error / facts.final_weight_kg if error is not None and facts.final_weight_kg else None
        is_chosen = result.result_id is not None and result.result_id == facts.chosen_result_id
        found.setdefault(result.media_id, []).append(Compared(result, error, percent, is_chosen))
    return found


def error_kg(predicted_kg: float | None, scale_kg: float | None) -> float | None:
    return None if predicted_kg is None or scale_kg is None else predicted_kg - scale_kg


def agreement(by_picture: Mapping[UUID | None, Sequence[Compared]]) -> tuple[float, float] | None:
    """The mean error in kilograms and in percent, of the newest result of each picture."""
    newest = [results[0] for results in by_picture.values() if results]
    kg = [one.error_kg for one in newest if one.error_kg is not None]
    percent = [one.error_percent for one in newest if one.error_percent is not None]
    return (fmean(kg), fmean(percent)) if kg and percent else None


def chart_of(facts: Facts, taken_at: Mapping[UUID, datetime]) -> Chart:
    """Scale and camera over the seconds of a session. A prediction stands where its picture was taken."""
    weighed = [Point(weight.occurred_at, weight.weight_kg) for weight in facts.weights]
    scale = Curve("scale", "kg", weighed, is_points=len(weighed) == 1)
    seen = [
        Point(taken_at.get(result.media_id, result.occurred_at) if result.media_id else result.occurred_at, predicted)
        for result in facts.results
        if (predicted := result.predicted_weight_kg) is not None
    ]
    camera = Curve("camera", "kg", sorted(seen, key=lambda point: point.at), is_points=True)
    times = [point.at for curve in (scale, camera) for point in curve.points]
    ends = [at for at in (facts.start_at, facts.end_at, *times) if at is not None]
    curves = [curve for curve in (scale, camera, _final(facts, ends)) if curve is not None and curve.points]
    return Chart(
        title="Scale and camera",
        since=min(ends).timestamp() - CHART_MARGIN_SECONDS if ends else None,
        until=max(ends).timestamp() + CHART_MARGIN_SECONDS if ends else None,
        lines=[line_of(curve) for curve in curves],
        summary=summary_of(curves) if curves else "Nothing was weighed.",
        notes=["The station tells a weight when the scale has stood still for its whole window."],
    )


def _final(facts: Facts, ends: Sequence[datetime]) -> Curve | None:
    if facts.final_weight_kg is None or not ends:
        return None
    length = (max(ends) - min(ends)).total_seconds()
    return Curve(
        "final weight", "kg", [Point(at, facts.final_weight_kg) for at in (min(ends), max(ends))], length or 1.0
    )


def _with_delays(steps: Sequence[Step]) -> list[Step]:
    happened = sorted(
        (step for step in steps if step.at is not None), key=lambda step: step.at.timestamp() if step.at else 0
    )
    told: list[Step] = []
    for step in happened:
        before = told[-1].at if told else None
        delay = (step.at - before).total_seconds() if step.at and before else None
        told.append(Step(step.title, step.at, step.note, delay))
    return told + [step for step in steps if step.at is None]


def _in_order(weights: Iterable[Weight]) -> list[Weight]:
    return sorted(weights, key=lambda weight: weight.occurred_at)


def _times(pictures: Iterable[EdgePicture], name: str) -> list[datetime]:
    return [at for picture in pictures if (at := getattr(picture, name)) is not None]


def _last(times: Iterable[datetime]) -> datetime | None:
    return max(times, default=None)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _stored(pictures: Sequence[EdgePicture], expected: int | None) -> str:
    stored = sum(picture.where == "stored" for picture in pictures)
    return f"{stored} of {expected if expected is not None else len(pictures)}"
