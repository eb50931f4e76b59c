import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from farmiq.device import handover
from farmiq.device.boot import boot_id
from farmiq.device.node_agent.backlog import Backlog
from farmiq.device.node_agent.delivery import deliver
from farmiq.device.node_agent.drivers import simulated
from farmiq.device.node_agent.health import Health
from farmiq.device.node_agent.sampler import Group, sample
from farmiq.device.node_agent.sensors_file import Equipment, channel_table, equip, load_sensors
from farmiq.device.node_agent.settings import AgentSettings
from farmiq.device.node_agent.stamps import Stamps
from farmiq.kit.clock import Clock
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.settings import load
from farmiq.kit.time_quality import TimeQuality

log = get_logger(__name__)


async def serve(environ: Mapping[str, str], life: Lifetime) -> None:
    settings = load(AgentSettings, environ)
    equipment = _equipment(settings)
    hello = handover.Hello(boot_id(), channel_table(equipment))
    backlog = Backlog(settings.node_agent_backlog_samples)
    health = Health(backlog.news)
    stamps = Stamps(life.clock, TimeQuality(life.clock))
    async with asyncio.TaskGroup() as tasks:
        for group in _groups(equipment, life.clock):
            tasks.create_task(sample(life, group, stamps, backlog, health))
        tasks.create_task(deliver(life, settings.node_forwarder_socket, hello, backlog, health))
    log.info(
        "sampling_ended",
        sampled=backlog.added,
        captured=backlog.captured,
        not_captured=backlog.not_captured,
        waiting=len(backlog),
    )


def _equipment(settings: AgentSettings) -> list[Equipment]:
    if settings.node_agent_sensors is not None:
        return load_sensors(Path(settings.node_agent_sensors), settings.sample_interval_ms)
    barn = simulated.barn(settings.device_id)
    return [equip("barn", barn, simulated.PLUGIN, settings.sample_interval_ms)]


def _groups(equipment: Sequence[Equipment], clock: Clock) -> list[Group]:
    groups: list[Group] = []
    first_index = 0
    for one in equipment:
        groups.append(Group(one.name, one.open(clock), one.device.channel, first_index, one.pace))
        first_index += len(one.device.channel)
    return groups
