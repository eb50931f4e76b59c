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
    """The spool as it was when the fault began, some seconds later."""
    copy = farm.folder / f"{fault.target}-{fault.number}"
    stored_then = await copy_spool(farm, fault.target, copy)
    await asyncio.sleep(fault.seconds)
    await put_back(farm, fault.target, copy, stored_then, ledger)
    return True


async def copy_spool(farm: Farm, forwarder: str, copy: Path) -> int:
    """How far its node was told that its samples are stored, at the time of the copy."""
    device = farm.device_of(forwarder)
    await farm.stop_forwarder(forwarder)
    try:
        await asyncio.to_thread(shutil.copytree, farm.home.spool_folder(device), copy)
        return await asyncio.to_thread(_stored, farm, device)
    finally:
        farm.start_forwarder(forwarder)


async def put_back(farm: Farm, forwarder: str, copy: Path, stored_then: int, ledger: LedgerWriter) -> None:
    """What was stored since the copy and is not at the edge was on this disk alone, and is written down as gone with it."""
    device = farm.device_of(forwarder)
    await farm.stop_forwarder(forwarder)
    try:
        stored_now = await asyncio.to_thread(_stored, farm, device)
        for first, end in without([(stored_then + 1, stored_now + 1)], await _at_the_edge(farm, device)):
            ledger.note(SetBack(device, first, end - 1))
        ledger.note(
            SetBack(device, stored_now + 1, stored_now)
        )  # whether or not anything is gone, its sequences begin anew
        await asyncio.to_thread(_replace, farm.home.spool_folder(device), copy)
    finally:
        farm.start_forwarder(forwarder)


def _stored(farm: Farm, device: str) -> int:
    lines = read_ledger([farm.folder / "ledger.jsonl"])
    return max((line.last for line in lines if isinstance(line, Stored) and line.device == device), default=0)


async def _at_the_edge(farm: Farm, device: str) -> list[Span]:
    rows = await farm.fetch_patiently("edge", _AT_THE_EDGE, device)
    return normalise((row["first"], row["end"]) for row in rows)


def _replace(folder: Path, copy: Path) -> None:
    shutil.rmtree(folder)
    shutil.move(copy, folder)
