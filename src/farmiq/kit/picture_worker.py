"""`look_at` and `thumbnail` of `pictures`, in a process of their own with limits on memory and time.

A picture that kills the process is tried once more in a fresh one, because the first may have died of something else (the kernel
short of memory, an operator); after that it is refused, and only it. That no process can be started says nothing about the
picture: it is to be tried again later.

    async with PictureWorker() as pictures:
        seen = await pictures.look_at(data, content_type="image/jpeg")
        small = await pictures.thumbnail(data, edge_pixels_max=256)
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

import msgspec

from farmiq.kit import pictures
from farmiq.kit.errors import Transient
from farmiq.kit.logging import get_logger
from farmiq.kit.picture_tasks import (
    LENGTH,
    REPLY_BYTES_MAX,
    Drawn,
    LookAt,
    Looked,
    OutOfMemory,
    Ready,
    Refused,
    Reply,
    Task,
    Thumbnail,
    framed,
)
from farmiq.kit.pictures import PIXELS_MAX, Look, NotAPicture, PictureRefused

MEMORY_BYTES_MAX: Final = 512 * 1024 * 1024
"""Of address space. The process alone has 37 MB; 25 million pixels took it to 158 MB as a JPEG, and to 477 MB as a WebP."""
CPU_SECONDS_MAX: Final = 10
WALL_SECONDS_MAX: Final = 60.0
"""For one that waits for something that never comes. Long, because a busy machine is no fault of the picture."""
TRIES: Final = 2

# Whatever else is in our environment may be a secret of ours.
_PASSED_ON: Final = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "PYTHONHOME")

_REFUSALS: Final[Mapping[str, type[PictureRefused]]] = {
    kind.__name__: kind
    for kind in (
        pictures.NotAPicture,
        pictures.OtherContentType,
        pictures.SeveralFrames,
        pictures.BytesAfterEnd,
        pictures.TooManyPixels,
    )
}

log = get_logger(__name__)


class PictureTooCostly(PictureRefused):
    """The picture took more memory or time than a picture may, or killed the process that looked at it, twice."""

    code = "picture_too_costly"


class PictureWorkerAway(Transient):
    """No process could be started to look at pictures. Check how many processes and how much memory this service may have."""

    code = "picture_worker_away"


class _Died(Exception):
    """The process ended, or had to be ended, in the middle of a picture."""


class PictureWorker:
    """One process, started when it is needed, one picture at a time. Callers wait their turn."""

    def __init__(
        self,
        *,
        memory_bytes_max: int = MEMORY_BYTES_MAX,
        cpu_seconds_max: int = CPU_SECONDS_MAX,
        wall_seconds_max: float = WALL_SECONDS_MAX,
    ) -> None:
        self._memory_bytes_max = memory_bytes_max
        self._cpu_seconds_max = cpu_seconds_max
        self._wall_seconds_max = wall_seconds_max
        self._turn = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._replies = msgspec.msgpack.Decoder(Reply)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.close()

    async def look_at(self, data: bytes, *, content_type: str, pixels_max: int = PIXELS_MAX) -> Look:
        reply = await self._ask(LookAt(data, content_type, pixels_max, self._cpu_seconds_max))
        if not isinstance(reply, Looked) or reply.format not in pictures.CONTENT_TYPES.values():
            raise PictureTooCostly("the process that looked at it gave a wrong answer")
        return msgspec.convert(msgspec.to_builtins(reply), Look)

    async def thumbnail(self, data: bytes, *, edge_pixels_max: int, pixels_max: int = PIXELS_MAX) -> bytes:
        reply = await self._ask(Thumbnail(data, edge_pixels_max, pixels_max, self._cpu_seconds_max))
        if not isinstance(reply, Drawn):
            raise PictureTooCostly("the process that looked at it gave a wrong answer")
        return reply.data

    async def close(self) -> None:
        async with self._turn:
            await self._end()

    async def _ask(self, task: Task) -> Reply:
        async with self._turn:
            for attempt in range(1, TRIES + 1):
                try:
                    reply = await self._exchange(task)
                except _Died as death:
                    log.warning("picture_worker_died", attempt=attempt, reason=str(death))
                    continue
                if isinstance(reply, Refused):
                    raise _REFUSALS.get(reply.kind, NotAPicture)(reply.reason[:300])
                return reply
        raise PictureTooCostly("the picture took more memory or time than a picture may")

    async def _exchange(self, task: Task) -> Reply:
        """Whatever ends this early ends the process too: its late answer would be taken for the next picture's."""
        process = await self._started()
        try:
            async with asyncio.timeout(self._wall_seconds_max):
                reply = await self._converse(process, task)
        except TimeoutError as error:
            await self._end()
            raise _Died(f"no answer within {self._wall_seconds_max:g} s") from error
        except (OSError, EOFError, msgspec.MsgspecError) as error:
            status = await self._end()
            raise _Died(f"exit status {status}: {type(error).__name__}") from error
        except asyncio.CancelledError:
            await self._end()
            raise
        if isinstance(reply, OutOfMemory):
            await self._end()
            raise _Died("out of memory")
        return reply

    async def _converse(self, process: asyncio.subprocess.Process, task: Task) -> Reply:
        assert process.stdin is not None  # noqa: S101 - a pipe was asked for
        process.stdin.write(framed(task))
        await process.stdin.drain()
        return await self._reply(process)

    async def _reply(self, process: asyncio.subprocess.Process) -> Reply:
        assert process.stdout is not None  # noqa: S101 - a pipe was asked for
        (length,) = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))
        if length > REPLY_BYTES_MAX:
            raise EOFError(f"an answer of {length} bytes")
        reply: Reply = self._replies.decode(await process.stdout.readexactly(length))
        return reply

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is not None and self._process.returncode is None:
            return self._process
        try:
            self._process = await self._start()
            async with asyncio.timeout(self._wall_seconds_max):
                is_ready = isinstance(await self._reply(self._process), Ready)
        except (OSError, EOFError, TimeoutError, msgspec.MsgspecError) as error:
            await self._end()
            raise PictureWorkerAway(f"no process could be started: {type(error).__name__}: {error}") from error
        except asyncio.CancelledError:
            await self._end()
            raise
        if not is_ready:
            await self._end()
            raise PictureWorkerAway("the process began with a wrong word")
        return self._process

    async def _start(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "farmiq.kit.picture_child",
            str(self._memory_bytes_max),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
            start_new_session=True,
        )

    async def _end(self) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        return await process.wait()
