"""Phase 2: a picture every so often, whoever stands there, with what the scale shows if that is wanted."""

from farmiq.device.weighvision_agent.messages import Messages
from farmiq.device.weighvision_agent.photographer import Photographer
from farmiq.device.weighvision_agent.recorder import Recorder
from farmiq.device.weighvision_agent.scale_watch import ScaleWatch
from farmiq.device.weighvision_agent.station_file import ScheduleTable
from farmiq.device.weighvision_agent.weighing import keep
from farmiq.kit.ids import new_trace_id
from farmiq.kit.lifecycle import Lifetime


def next_due(due_at: float, now: float, every_seconds: float) -> float:
    """The next point of the grid that is still ahead: what was missed is not made up for."""
    missed = max(0, int((now - due_at) // every_seconds))
    return due_at + (missed + 1) * every_seconds


async def capture_on_schedule(
    life: Lifetime,
    table: ScheduleTable,
    messages: Messages,
    recorder: Recorder,
    photographer: Photographer,
    scale: ScaleWatch,
) -> None:
    """Until the service is asked to stop."""
    due_at = life.clock.monotonic()
    while await life.pause(due_at - life.clock.monotonic()):
        due_at = next_due(due_at, life.clock.monotonic(), table.every_seconds)
        if (shot := await photographer.take()) is None:
            continue
        trace_id, weight_kg = new_trace_id(), scale.shown_kg() if table.with_weight else None
        beside = [] if weight_kg is None else [messages.reading(shot.captured_at, trace_id, weight_kg)]
        await keep(recorder, shot, trace_id, None, beside)
