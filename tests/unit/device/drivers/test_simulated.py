from datetime import UTC, datetime

from farmiq.device.node_agent.drivers import Pace
from farmiq.device.node_agent.drivers.simulated import SimulatedBarn, barn
from farmiq.kit.clock import Clock

PACE = Pace(1.0, 0.7)


class WallClock(Clock):
    def __init__(self, hour: int) -> None:
        self._at = datetime(2026, 7, 1, hour, tzinfo=UTC)

    def now(self) -> datetime:
        return self._at


async def test_the_same_seed_measures_the_same_barn_and_afternoons_are_warmer_and_drier_than_nights() -> None:
    night = await SimulatedBarn(barn("node-1"), PACE, WallClock(3)).read()
    assert night == await SimulatedBarn(barn("node-1"), PACE, WallClock(3)).read()
    assert night != await SimulatedBarn(barn("node-2"), PACE, WallClock(3)).read()
    afternoon = await SimulatedBarn(barn("node-1"), PACE, WallClock(15)).read()
    assert len(night) == len(barn("node-1").channel)
    assert afternoon[0] > night[0] + 4
    assert afternoon[2] < night[2] - 10
