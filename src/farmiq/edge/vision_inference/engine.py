"""One model at work, in a process of its own with limits on memory and time.

Whatever a picture does to the process is a failure of that picture, and the next one gets a fresh process. That no process
can be started, or that it does not load a model which it has loaded before, says nothing about any picture.

    engine = Engine(model, limits)
    await engine.start()
    seen = await engine.look_at(data)
"""

import asyncio
import contextlib
import os
import sys
from typing import Final

import msgspec
from msgspec import Struct

from farmiq.edge.vision_inference.card import Model
from farmiq.edge.vision_inference.messages import (
    LENGTH,
    REPLY_BYTES_MAX,
    Failed,
    Load,
    Loaded,
    LookAt,
    NotLoaded,
    OutOfMemory,
    Refused,
    Reply,
    Saw,
    Task,
    framed,
)
from farmiq.edge.vision_inference.seen import Seen, seen_of
from farmiq.kit.errors import FarmiqError, Transient
from farmiq.kit.logging import get_logger
from farmiq.kit.pictures import NotAPicture, PictureRefused, TooManyPixels

# Whatever else is in our environment may be a secret of ours.
_PASSED_ON: Final = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "PYTHONHOME")
# Libraries below would otherwise start a thread for each core, each with address space of its own.
_ONE_THREAD: Final = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_REFUSALS: Final[dict[str, type[PictureRefused]]] = {kind.__name__: kind for kind in (NotAPicture, TooManyPixels)}

log = get_logger(__name__)


class EngineAway(Transient):
    """No process with the model could be started. Check how many processes and how much memory this service may have."""

    code = "engine_away"


class EngineDied(FarmiqError):
    """The process with the model ended in the middle of a picture: more memory or time than a picture may take, or a crash."""

    code = "engine_died"


class ModelFailed(FarmiqError):
    """The model itself gave up on the picture."""

    code = "model_failed"


class Limits(Struct, frozen=True, kw_only=True):
    threads: int = 1
    memory_bytes_max: int = 1024 * 1024 * 1024
    pixels_max: int = 25_000_000
    cpu_seconds_max: int = 10
    wall_seconds_max: float = 60.0
    """For a process that waits for something that never comes. Long, because a busy machine is no fault of the picture."""


class Engine:
    """One process, started again when it has died, one picture at a time. Callers wait their turn."""

    def __init__(self, model: Model, limits: Limits) -> None:
        self._model = model
        self._limits = limits
        self._turn = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._is_closed = False
        self._replies = msgspec.msgpack.Decoder(Reply)

    async def start(self) -> None:
        """Raises `EngineAway`, with what the runtime said of the model where it said something."""
        async with self._turn:
            await self._started()

    async def look_at(self, data: bytes) -> Seen:
        """Raises `PictureRefused`, `EngineDied`, `ModelFailed` or `AnswerUnusable` of the picture, `EngineAway` of nothing."""
        async with self._turn:
            process = await self._started()
            task = LookAt(data, self._limits.pixels_max, self._limits.cpu_seconds_max)
            try:
                reply = await self._exchange(process, task)
            except (OSError, EOFError, TimeoutError, msgspec.MsgspecError) as error:
                status = await self._end()
                log.warning("engine_died", model_version=self._model.version, status=status, reason=repr(error))
                raise EngineDied(f"the process ended with {status}: {type(error).__name__}") from error
            if isinstance(reply, OutOfMemory):
                await self._end()
                raise EngineDied("the picture took more memory than a picture may")
        return _seen(reply)

    async def close(self) -> None:
        """After the picture that is being looked at. Those that wait for their turn are told that there is no engine."""
        self._is_closed = True
        async with self._turn:
            await self._end()

    async def _started(self) -> asyncio.subprocess.Process:
        if self._is_closed:
            raise EngineAway("another model has taken this one's place")
        if self._process is not None and self._process.returncode is None:
            return self._process
        card = self._model.card
        load = Load(
            self._model.content,
            card.input.name,
            card.input.width,
            card.input.height,
            card.asked_outputs,
            self._limits.threads,
        )
        try:
            self._process = await self._start()
            reply = await self._exchange(self._process, load)
        except (OSError, EOFError, TimeoutError, msgspec.MsgspecError) as error:
            status = await self._end()
            raise EngineAway(f"the process ended with {status} while it loaded {self._model.version}") from error
        if isinstance(reply, Loaded):
            return self._process
        await self._end()
        reason = reply.reason if isinstance(reply, NotLoaded) else "the process began with a wrong word"
        raise EngineAway(f"{self._model.version} was not loaded: {reason}")

    async def _start(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "farmiq.edge.vision_inference.engine_child",
            str(self._limits.memory_bytes_max),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={name: os.environ[name] for name in _PASSED_ON if name in os.environ} | _ONE_THREAD,
            start_new_session=True,
        )

    async def _exchange(self, process: asyncio.subprocess.Process, task: Task) -> Reply:
        """One that is cut short ends the process too: its late answer would be taken for the next picture's."""
        assert process.stdin is not None  # noqa: S101 - pipes were asked for
        assert process.stdout is not None  # noqa: S101 - as above
        try:
            async with asyncio.timeout(self._limits.wall_seconds_max):
                process.stdin.write(framed(task))
                await process.stdin.drain()
                (length,) = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))
                if length > REPLY_BYTES_MAX:
                    raise EOFError(f"an answer of {length} bytes")
                reply: Reply = self._replies.decode(await process.stdout.readexactly(length))
                return reply
        except asyncio.CancelledError:
            await self._end()
            raise

    async def _end(self) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        return await process.wait()


def _seen(reply: Reply) -> Seen:
    match reply:
        case Saw(answers):
            return seen_of(answers)
        case Refused(kind, reason):
            raise _REFUSALS.get(kind, NotAPicture)(reason[:300])
        case Failed(reason):
            raise ModelFailed(reason)
    raise ModelFailed("the process gave a wrong answer")
