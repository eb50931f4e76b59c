import asyncio
from collections.abc import Mapping

from farmiq.device import handover
from farmiq.device.node_agent.backlog import Backlog
from farmiq.device.node_agent.boot import boot_id
from farmiq.device.node_agent.delivery import deliver
from farmiq.device.node_agent.drivers.simulated import SimulatedBarn
from farmiq.device.node_agent.sampler import sample
from farmiq.device.node_agent.settings import AgentSettings
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.settings import load


async def serve(environ: Mapping[str, str], life: Lifetime) -> None:
    settings = load(AgentSettings, environ)
    driver = SimulatedBarn(seed=settings.device_id)
    backlog = Backlog(settings.node_agent_backlog_samples)
    hello = handover.Hello(boot_id(), list(driver.channels))
    async with asyncio.TaskGroup() as group:
        group.create_task(sample(life, driver, backlog, settings.sample_interval_ms / 1000))
        group.create_task(deliver(life, settings.node_forwarder_socket, hello, backlog))
