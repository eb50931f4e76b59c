"""An answer that costs something, asked once for everybody and then left to rest for a multiple of what it took."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from farmiq.kit.clock import Clock

REST_FACTOR: Final = 20
"""Whoever asks as often as they like costs the one who answers at most a twentieth of its time."""

T_co = TypeVar("T_co", covariant=True)


class Rested(Generic[T_co]):
    """Callers get what is known, at most `rest_seconds` old or `rest_factor` times what asking took. While it is asked anew they
    wait for `patience_seconds` at most, and have the old answer then. Only the very first has to wait to the end."""

    def __init__(
        self,
        ask: Callable[[], Awaitable[T_co]],
        clock: Clock,
        *,
        rest_seconds: float,
        rest_factor: float = REST_FACTOR,
        patience_seconds: float = 0.5,
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._rest_seconds = rest_seconds
        self._rest_factor = rest_factor
        self._patience_seconds = patience_seconds
        self._asking: asyncio.Task[T_co] | None = None
        self._due_at = 0.0
        self._answer: tuple[T_co] | None = None
        self._error: Exception | None = None

    @property
    def last(self) -> T_co | None:
        """What was answered last, however old it is."""
        return self._answer[0] if self._answer else None

    async def get(self) -> T_co:
        """Raises what the last asking ended with, if that was an error."""
        if self._asking is None and self._clock.monotonic() >= self._due_at:
            self._asking = asyncio.create_task(self._renew())
            self._asking.add_done_callback(_look_at_error)
        if self._asking is not None:
            # Not this caller's alone: it goes on when the caller gives up.
            patience = self._patience_seconds if self._answer or self._error else None
            await asyncio.wait({self._asking}, timeout=patience)
        if self._error is not None:
            raise self._error
        if self._answer is None:  # the process ends, and the asking with it
            raise asyncio.CancelledError
        return self._answer[0]

    async def _renew(self) -> T_co:
        started, factor = self._clock.monotonic(), self._rest_factor
        try:
            answer = await self._ask()
        except Exception as error:
            self._error = error
            factor = min(factor, 1.0)  # whoever did not answer in time may be back soon
            raise
        else:
            self._answer, self._error = (answer,), None
            return answer
        finally:
            ended = self._clock.monotonic()
            self._due_at = ended + max(self._rest_seconds, factor * (ended - started))
            self._asking = None


def _look_at_error(task: "asyncio.Task[T_co]") -> None:
    """It was kept for the callers; asyncio would call it forgotten."""
    if not task.cancelled():
        task.exception()
