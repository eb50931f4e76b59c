"""One campaign: start the farm and its load, carry out the plan, heal, look, judge."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from farmiq.edge.ingress_gateway.put_off import ASK_AGAIN_SECONDS
from farmiq.kit.clock import Clock
from farmiq.stack.home import Home
from farmiq.timeseries.stream import Origin
from farmiq.torture import recovery
from farmiq.torture.bus import Poisoner, dead_letters
from farmiq.torture.farm import SENSOR, STATION, Farm
from farmiq.torture.feeding import Feeding
from farmiq.torture.generators import NodeTask, Progress, Task
from farmiq.torture.holdings import Devices, Verdicts, judge_tier
from farmiq.torture.inflicting import Inflictor
from farmiq.torture.judge import Ledger, Tally, judge_bus_poison
from farmiq.torture.ledger import LedgerWriter, read_ledger
from farmiq.torture.plan import TIER_CLOCKS, Fault, Kind, make_plan
from farmiq.torture.recovery import Recovery, until
from farmiq.torture.strangers import DEVICES, Strangers


@dataclass(frozen=True)
class Wishes:
    """What a campaign is asked to be."""

    seed: int
    faults: int
    seconds: float
    rate: float
    nodes: int = 3
    readings_per_second: float = 20.0
    session_seconds: float = 5.0
    recover_seconds_max: float = 600.0
    fresh_seconds_max: float = 30.0
    """From the last fault until a sample that every node took after it is in the cloud."""
    has_strangers: bool = True
    """Neighbours with valid credentials of their own attack too."""
    also: frozenset[Kind] = frozenset()
    """Kinds of fault that only come when they are asked for."""


@dataclass
class Standing:
    """How far it is, for whoever watches."""

    phase: str = "starting the farm"
    planned: int = 0
    inflicted: int = 0
    passed_over: int = 0
    under_way: list[str] = field(default_factory=list)
    progress: Progress = field(default_factory=Progress)


@dataclass
class Result:
    seed: int
    planned: int
    inflicted: Counter[str] = field(default_factory=Counter)
    passed_over: int = 0
    left_out: list[str] = field(default_factory=list)
    seconds: float = 0.0
    repeated: int = 0
    pubacked_only: int = 0
    cloud: Verdicts = field(default_factory=Verdicts)
    edge: Verdicts = field(default_factory=Verdicts)
    poison: Tally = field(default_factory=Tally)
    recovery: Recovery = field(default_factory=Recovery)
    is_all_acknowledged: bool = False
    audit: str = "not run"

    @property
    def tallies(self) -> dict[str, Tally]:
        return {
            **{name: getattr(self.cloud, name) for name in Verdicts.__dataclass_fields__},
            "bus poison": self.poison,
            **{f"{name} at the edge": getattr(self.edge, name) for name in Verdicts.__dataclass_fields__},
        }

    @property
    def has_passed(self) -> bool:
        return (
            all(tally.is_clean for tally in self.tallies.values())
            and self.recovery.is_whole
            and self.is_all_acknowledged
            and self.audit == "balanced"
        )


class Campaign:
    def __init__(self, home: Home, wishes: Wishes, watch: Callable[[Standing], None]) -> None:
        self._wishes = wishes
        self._clock = Clock()
        self._farm = Farm(home, wishes.nodes, self._clock, moves_clocks=bool(TIER_CLOCKS & wishes.also))
        self._standing = Standing()
        self._watch = watch
        self._result = Result(wishes.seed, wishes.faults)
        self._put_off_at: float | None = None

    async def run(self, environ: Mapping[str, str], *, keep: bool) -> Result:
        """What was started is ended again, however it goes. The data stays with `keep`, and when it did not pass."""
        try:
            await self._farm.start(environ)
            feeding = await Feeding.start(self._task(), self._farm.folder)
            watching = asyncio.create_task(self._report(feeding))
            try:
                await self._torture(feeding)
                await self._look_and_judge(feeding)
            finally:
                watching.cancel()
                await feeding.end()
        finally:
            self._standing.phase = "stopping the farm"
            self._watch(self._standing)
            await self._farm.stop(keep=keep or not self._result.has_passed)
        return self._result

    async def _torture(self, feeding: Feeding) -> None:
        strangers = await Strangers.add(self._farm, self._clock) if self._wishes.has_strangers else None
        targets = self._farm.targets(() if strangers is None else DEVICES)
        if not targets.small_disks:
            self._result.left_out.append("disk-full: this user may not mount a tmpfs")
        plan = make_plan(self._wishes.seed, self._wishes.seconds, self._wishes.faults, targets, self._wishes.also)
        ledger = LedgerWriter(self._farm.folder / "bus.jsonl")
        poisoner = Poisoner(self._farm.environment["AMQP_URL"], ledger)
        inflictor = Inflictor(self._farm, feeding.tell, poisoner.poison, ledger, self._clock, strangers)
        self._standing.phase, self._standing.planned = "faults", len(plan)
        began_at = time.monotonic()
        try:
            async with asyncio.TaskGroup() as group:
                for fault in plan:
                    await asyncio.sleep(max(0.0, began_at + fault.at_seconds - time.monotonic()))
                    group.create_task(self._inflict(inflictor, fault))
        finally:
            self._result.seconds = round(time.monotonic() - began_at, 1)
            await inflictor.heal()
            ledger.close()

    async def _inflict(self, inflictor: Inflictor, fault: Fault) -> None:
        name = f"{fault.kind} {fault.target}"
        self._standing.under_way.append(name)
        try:
            is_done = await inflictor.inflict(fault)
        finally:
            self._standing.under_way.remove(name)
        if fault.kind is Kind.REGISTER and fault.target in self._farm.nodes:
            self._put_off_at = time.monotonic()
        if is_done:
            self._standing.inflicted += 1
            self._result.inflicted[fault.kind] += 1
        else:
            self._standing.passed_over += 1
            self._result.passed_over += 1

    async def _look_and_judge(self, feeding: Feeding) -> None:
        farm, result, found = self._farm, self._result, self._result.recovery
        self._standing.phase = "recovering"
        taken, healed_at = dict(feeding.progress.taken), time.monotonic()
        seconds_max, is_set_back = self._wishes.recover_seconds_max, Kind.DISK_BACK in self._wishes.also

        async def is_healthy() -> bool:
            return await asyncio.to_thread(farm.is_healthy)

        healthy, fresh = await asyncio.gather(
            until(is_healthy, seconds_max),
            until(lambda: recovery.has_fresh(farm, taken, is_set_back=is_set_back), seconds_max),
        )
        found.healthy_seconds, found.fresh_seconds = healthy, fresh
        fresh_max = self._wishes.fresh_seconds_max + self._still_put_off_seconds(healed_at)
        if fresh is None or fresh > fresh_max:
            found.left.append(f"no fresh sample of every node in the cloud within {fresh_max:g} s: {fresh} s")
        found.left += farm.unwell()
        self._standing.phase = "finishing"
        result.is_all_acknowledged = await feeding.finish(seconds_max)
        result.repeated, result.pubacked_only = feeding.progress.repeated, feeding.progress.pubacked_only
        finished_at = datetime.now(UTC)
        self._standing.phase = "draining"

        async def is_drained() -> bool:
            self._standing.under_way = await recovery.leftovers(farm, finished_at)
            return not self._standing.under_way

        found.drained_seconds = await until(is_drained, seconds_max)
        if found.drained_seconds is None:
            found.left += await recovery.leftovers(farm, finished_at)
        self._standing.under_way = []
        found.stuck = await recovery.stuck_rows(farm)
        self._standing.phase = "judging"
        await self._judge()
        result.audit = await self._audit()

    def _still_put_off_seconds(self, healed_at: float) -> float:
        """A node that was not in the register asks again after a time that the edge named, not as soon as it is back in it."""
        put_off_at = self._put_off_at
        return 0.0 if put_off_at is None else max(0.0, ASK_AGAIN_SECONDS - (healed_at - put_off_at))

    async def _judge(self) -> None:
        farm, result = self._farm, self._result
        ledger = Ledger.of(read_ledger([farm.folder / "ledger.jsonl", farm.folder / "bus.jsonl"]))
        origins = {name: Origin(**login.place, device_id=name) for name, login in farm.logins.items()}
        devices = Devices([origins[name] for name in farm.nodes], origins[SENSOR], origins[STATION])
        result.cloud = await judge_tier("cloud", farm.environment, ledger, devices)
        result.edge = await judge_tier("edge", farm.environment, ledger, devices)
        letters = await dead_letters(farm.environment["CLOUD_DATABASE_URL"], farm.environment["AMQP_URL"])
        result.poison = judge_bus_poison(ledger.bus_poison, letters)

    async def _audit(self) -> str:
        """The farm's own proof, beside ours."""
        code, told, complaint = await self._farm.command("audit", "--json")
        try:
            return "balanced" if json.loads(told)["balanced"] and code == 0 else "not balanced"
        except (ValueError, KeyError):
            return f"failed with code {code}: {complaint.decode(errors='replace')[-300:]}"

    def _task(self) -> Task:
        farm, wishes = self._farm, self._wishes
        rate = wishes.rate / max(1, len(farm.nodes))
        return Task(
            seed=wishes.seed,
            ledger=str(farm.folder / "ledger.jsonl"),
            nodes=[NodeTask(name, str(farm.home.forwarder_socket(name)), rate) for name in farm.nodes],
            sensor=farm.logins[SENSOR],
            readings_per_second=wishes.readings_per_second,
            station=farm.logins[STATION],
            media_url=farm.environment["EDGE_MEDIA_STORE_URL"],
            session_seconds=wishes.session_seconds,
        )

    async def _report(self, feeding: Feeding) -> None:
        while True:
            self._standing.progress = feeding.progress
            self._watch(self._standing)
            await asyncio.sleep(1.0)
