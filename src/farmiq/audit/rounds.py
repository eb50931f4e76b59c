"""Asking again what looks wrong: a farm that runs is never at rest, and something that moved is not something that is missing."""

from collections.abc import Awaitable, Callable
from typing import Final

from farmiq.audit.balance import Balance, Reading, balance
from farmiq.audit.findings import Finding, is_doubtful

PAUSES_SECONDS: Final = (0.3, 1.0, 2.0, 4.0, 8.0)
"""In all longer than a service takes that was killed with messages in hand: nobody can see those until they are given back."""

Look = Callable[[], Awaitable[Reading]]
Pause = Callable[[float], Awaitable[None]]


async def look_until_sure(look: Look, pause: Pause) -> Balance:
    """Until nothing is wrong, or the same has been wrong each time."""
    verdict = balance(await look())
    for seconds in PAUSES_SECONDS:
        if not is_doubtful(verdict.findings):
            break
        before: list[Finding] = verdict.findings
        await pause(seconds)
        verdict = balance(await look(), before)
    return verdict
