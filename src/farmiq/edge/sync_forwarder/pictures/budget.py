"""How many bytes of pictures may be under way at the same time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Budget:
    """A picture that is larger than the whole budget goes alone."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._taken = 0
        self._freed = asyncio.Condition()

    @asynccontextmanager
    async def taken(self, size_bytes: int) -> AsyncIterator[None]:
        size = min(size_bytes, self._bytes_max)
        async with self._freed:
            await self._freed.wait_for(lambda: self._taken + size <= self._bytes_max)
            self._taken += size
        try:
            yield
        finally:
            async with self._freed:
                self._taken -= size
                self._freed.notify_all()
