"""Asking again what looks wrong: a farm that runs is never at rest, and something that moved is not something that is missing."""

from collections.abc import Awaitable, Callable
from typing import Final

from msgspec.structs import replace

from farmiq.audit.balance import Balance, Reading, balance
from farmiq.audit.device_reading import DeviceReading, Earlier
from farmiq.audit.findings import Finding, is_doubtful

PAUSES_SECONDS: Final = (0.3, 1.0, 2.0, 4.0, 8.0)
"""In all longer than a service takes that was killed with messages in hand: nobody can see those until they are given back."""

Look = Callable[[], Awaitable[Reading]]
Pause = Callable[[float], Awaitable[None]]


async def look_until_sure(look: Look, pause: Pause) -> Balance:
    """Until nothing is wrong, or the same has been wrong each time."""
    first = last = await look()
    verdict = balance(first)
    for times, seconds in enumerate(PAUSES_SECONDS, 1):
        if not is_doubtful(verdict.findings):
            break
        before: list[Finding] = verdict.findings
        await pause(seconds)
        now = await look()
        verdict = balance(remembering(now, first, last if times == len(PAUSES_SECONDS) else None), before)
        last = now
    return verdict


def remembering(now: Reading, first: Reading, last: Reading | None) -> Reading:
    """With what the edge said at `first`, and what the outbox held the `last` time when there will be no other."""
    began, ended = _by_name(first), _by_name(last) if last else None

    def earlier(key: tuple[str, str]) -> Earlier:
        edge = began[key].edge if key in began else None
        if ended is None:
            return Earlier(edge)
        return Earlier(edge, ended[key].single_old_in_outbox if key in ended else 0)

    return replace(
        now,
        tenants=[
            replace(
                tenant,
                devices=[
                    replace(one, earlier=earlier((tenant.situation.tenant_id, one.device_id))) for one in tenant.devices
                ],
            )
            for tenant in now.tenants
        ],
    )


def _by_name(reading: Reading) -> dict[tuple[str, str], DeviceReading]:
    return {(tenant.situation.tenant_id, one.device_id): one for tenant in reading.tenants for one in tenant.devices}
