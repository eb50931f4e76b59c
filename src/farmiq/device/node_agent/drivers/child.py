"""A program of somebody else's: started without a shell, read through a pipe of ours, and ended with everything it started."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence

# Whatever else is in our environment may be a secret of ours.
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")

END_SECONDS_MAX = 1.0


class ChildFailed(Exception):
    """The program could not be started, ended with an error, said too much, or did not end in time."""


class Child:
    """Its own session, so that what it starts can be ended with it."""

    def __init__(
        self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader, pipe: asyncio.ReadTransport
    ) -> None:
        self.reader = reader
        self._process = process
        self._pipe = pipe

    @classmethod
    async def start(cls, command: Sequence[str], line_bytes_max: int) -> "Child":
        read_end, write_end = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=write_end,
                stderr=asyncio.subprocess.DEVNULL,
                env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
                start_new_session=True,
            )
        except OSError as error:
            os.close(read_end)
            raise ChildFailed(f"cannot be started: {error.strerror}") from error
        except asyncio.CancelledError:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        reader = asyncio.StreamReader(limit=line_bytes_max)
        pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", 0)
        )
        return cls(process, reader, pipe)

    @property
    def has_ended(self) -> bool:
        return self._process.returncode is not None

    async def output(self, bytes_max: int) -> bytes:
        """Everything it says until it closes its output."""
        said = b""
        while chunk := await self.reader.read(bytes_max + 1 - len(said)):
            said += chunk
            if len(said) > bytes_max:
                raise ChildFailed(f"said more than {bytes_max} bytes")
        return said

    async def wait(self) -> int:
        return await self._process.wait()

    async def end(self) -> None:
        """At once. One that hangs in the kernel cannot be ended: it is left, and `has_ended` says so."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._pipe.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS_MAX):
                await self._process.wait()
