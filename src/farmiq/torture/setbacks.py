"""What goes back or is lost with a disk, and what a person does about it: a node's spool, RabbitMQ, and sending again."""

import asyncio
import shutil
import signal
from datetime import timedelta
from pathlib import Path
from typing import Final

from farmiq.contracts.timestamps import to_us
from farmiq.kit.clock import Clock
from farmiq.stack.processes import Process, family_of, process_of
from farmiq.timeseries.coverage import Span, normalise, without
from farmiq.torture.farm import Farm
from farmiq.torture.ledger import BusLost, LedgerWriter, SetBack, Stored, read_ledger
from farmiq.torture.plan import Fault
from farmiq.torture.recovery import until

RESEND_SECONDS_MAX: Final = 60.0
DEAD_SECONDS_MAX: Final = 20.0
BUS_SECONDS_MAX: Final = 120.0
SINCE: Final = timedelta(hours=24)
_AT_THE_EDGE: Final = """
    SELECT lower(span) AS first, upper(span) AS "end" FROM streams, unnest(received + lost) AS span WHERE device_id = $1
"""


async def resend(farm: Farm) -> bool:
    """As a person would give the order. False: the cloud's database did not answer for a while."""

    async def is_ordered() -> bool:
        since = f"{int(SINCE.total_seconds() // 3600)}h"
        code, _, _ = await farm.command("cloud", "resend", "--since", since, "--yes")
        return code == 0

    return await until(is_ordered, RESEND_SECONDS_MAX) is not None


async def lose_bus(farm: Farm, rabbitmq: Process, ledger: LedgerWriter, clock: Clock) -> bool:
    """RabbitMQ dies and comes back with an empty disk; then every edge is to send again. The supervisor stands still meanwhile,
    or it would start RabbitMQ on the disk that it still has."""
    supervisor = process_of(farm.home.lock_file.read_text(encoding="ascii"))
    if supervisor is None:
        return False
    supervisor.signal(signal.SIGSTOP)
    try:
        family = await asyncio.to_thread(family_of, rabbitmq)
        for member in family:
            member.signal(signal.SIGKILL)

        async def are_dead() -> bool:
            return not any(member.is_alive() for member in family)

        await until(are_dead, DEAD_SECONDS_MAX)
        await asyncio.to_thread(shutil.rmtree, farm.home.server_folder("rabbitmq") / "data")
    finally:
        supervisor.signal(signal.SIGCONT)

    async def is_back() -> bool:
        return any(child.name == "rabbitmq" and child.state == "healthy" for child in farm.state().children) and (
            farm.pid_of("rabbitmq") != rabbitmq.pid
        )

    await until(is_back, BUS_SECONDS_MAX)
    ledger.note(BusLost(to_us(clock.now())))
    return await resend(farm)


async def set_spool_back(farm: Farm, fault: Fault, ledger: LedgerWriter) -> bool:
    """The spool as it was when the fault began, some seconds later. What was stored between and had not reached the edge was on
    this disk alone, and is written down as gone with it."""
    device = farm.device_of(fault.target)
    spool = farm.home.spool_folder(device)
    copy = farm.folder / f"{device}-{fault.number}"
    await farm.stop_forwarder(fault.target)
    try:
        await asyncio.to_thread(shutil.copytree, spool, copy)
        stored_then = await asyncio.to_thread(_stored, farm, device)
    finally:
        farm.start_forwarder(fault.target)
    await asyncio.sleep(fault.seconds)
    await farm.stop_forwarder(fault.target)
    try:
        stored_now = await asyncio.to_thread(_stored, farm, device)
        for first, end in without([(stored_then + 1, stored_now + 1)], await _at_the_edge(farm, device)):
            ledger.note(SetBack(device, first, end - 1))
        ledger.note(
            SetBack(device, stored_now + 1, stored_now)
        )  # whether or not anything is gone, its sequences begin anew
        await asyncio.to_thread(_replace, spool, copy)
    finally:
        farm.start_forwarder(fault.target)
    return True


def _stored(farm: Farm, device: str) -> int:
    lines = read_ledger([farm.folder / "ledger.jsonl"])
    return max((line.last for line in lines if isinstance(line, Stored) and line.device == device), default=0)


async def _at_the_edge(farm: Farm, device: str) -> list[Span]:
    rows = await farm.fetch_patiently("edge", _AT_THE_EDGE, device)
    return normalise((row["first"], row["end"]) for row in rows)


def _replace(folder: Path, copy: Path) -> None:
    shutil.rmtree(folder)
    shutil.move(copy, folder)
