"""How far an audit has come: a moving line for a person, a line now and then otherwise. On stderr: stdout is the answer."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from farmiq.cli.terminal import is_interactive

LINE_SECONDS = 5.0

OnDevices = Callable[[str, int], None]


@contextmanager
def showing_devices(*, is_quiet: bool) -> Iterator[OnDevices]:
    if is_quiet:
        yield lambda _service, _devices: None
        return
    if not is_interactive(sys.stderr):
        yield Lines(sys.stderr.write, time.monotonic)
        return
    from rich.console import Console

    with Console(stderr=True).status("asking the cloud") as status:
        yield lambda service, devices: status.update(f"{service}: {devices} devices")


class Lines:
    """Says nothing about work that is done at once."""

    def __init__(self, write: Callable[[str], object], monotonic: Callable[[], float]) -> None:
        self._write = write
        self._monotonic = monotonic
        self._said_at = monotonic()

    def __call__(self, service: str, devices: int) -> None:
        now = self._monotonic()
        if now - self._said_at >= LINE_SECONDS:
            self._said_at = now
            self._write(f"{service}: {devices} devices\n")
