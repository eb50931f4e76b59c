"""Rows as a file for whoever analyses them: CSV, an Arrow stream, or Parquet.

Rows are read in pages, each a short question of its own, and sent as they come. So memory holds one page (Parquet: one row
group), and a slow reader keeps neither a connection nor a snapshot of the database busy. A file that could not be finished ends
in a broken connection, never in what looks like a shorter file.
"""

import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Annotated, Final, Literal, TypeVar

from litestar.params import QueryParameter
from litestar.response import Stream

from farmiq.kit.clock import Clock
from farmiq.kit.errors import Transient
from farmiq.kit.http_server import ApiError
from farmiq.kit.logging import get_logger
from farmiq.timeseries.export_columns import Column, Pages, Rows
from farmiq.timeseries.export_csv import csv_chunks

Format = Literal["json", "csv", "arrow", "parquet"]
AnyFormat = Annotated[
    Format | None, QueryParameter(name="format", description="A whole file instead of pages; `Accept` does as well")
]

PAGE_ROWS: Final = 10_000
EXPORTS_MAX: Final = 4
"""At the same time, in one replica: they share its processor with everybody's questions."""
SECONDS_MAX: Final = 3600.0
STALLED_SECONDS: Final = 60.0
"""A reader that takes nothing for so long keeps nobody else from having a file."""
RETRY_AFTER_SECONDS: Final = 10

MEDIA_TYPES: Final[dict[Format, str]] = {
    "json": "application/json",
    "csv": "text/csv",
    "arrow": "application/vnd.apache.arrow.stream",
    "parquet": "application/vnd.apache.parquet",
}

T = TypeVar("T")

log = get_logger(__name__)


class ExportTooSlow(Transient):
    """The file was not taken in the time that one may take. Ask for a shorter range."""

    code = "export_too_slow"


def wanted(given: Format | None, accept: str) -> Format:
    """What was asked for by name, else the first that the caller accepts and that we have, else JSON."""
    if given is not None:
        return given
    accepted = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    by_type: dict[str, Format] = {media_type: kind for kind, media_type in MEDIA_TYPES.items()}
    return next((by_type[media_type] for media_type in accepted if media_type in by_type), "json")


async def pages_of(ask: Callable[[T | None], Awaitable[tuple[Rows, T | None]]]) -> Pages:
    """Page after page. `ask` answers the rows behind a position, and the position to go on from; None at the end."""
    position: T | None = None
    while True:
        rows, position = await ask(position)
        yield rows
        if position is None:
            return


class Exports:
    """The files that are on their way from this replica."""

    def __init__(self, clock: Clock | None = None, at_once_max: int = EXPORTS_MAX) -> None:
        self._clock = clock or Clock()
        self._at_once_max = at_once_max
        # Weak: one whose reader went away before its first byte is simply forgotten.
        self._under_way: weakref.WeakSet[_File] = weakref.WeakSet()

    async def answer(self, kind: Format, name: str, columns: Sequence[Column], pages: Pages) -> Stream:
        """What is wrong with the question is found out before the answer begins: the first page has been read by then."""
        make_chunks = _maker_of(kind)
        if sum(file.is_moving for file in self._under_way) >= self._at_once_max:
            raise ApiError(
                429, "too_many_exports", "Too many files are being made", retry_after_seconds=RETRY_AFTER_SECONDS
            )
        file = _File(self._clock)
        self._under_way.add(file)
        try:
            file.chunks = make_chunks(columns, _preceded(await anext(pages), pages))
        except BaseException:
            self._under_way.discard(file)
            raise
        return Stream(
            file,
            headers={
                "content-type": MEDIA_TYPES[kind] + ("; charset=utf-8" if kind == "csv" else ""),
                "content-disposition": f'attachment; filename="{name}.{kind}"',
            },
        )


class _File(AsyncIterator[bytes]):
    """A file while it is being sent. It counts for as long as its reader goes on taking it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = self._asked = clock.monotonic()
        self._is_done = False
        self.chunks: AsyncIterator[bytes] | None = None

    @property
    def is_moving(self) -> bool:
        return not self._is_done and self._clock.monotonic() - self._asked < STALLED_SECONDS

    async def __anext__(self) -> bytes:
        assert self.chunks is not None  # noqa: S101 - given before anybody sees the file
        self._asked = self._clock.monotonic()
        if self._asked - self._began > SECONDS_MAX:
            self._is_done = True
            log.warning("export_cut", reason="it took too long")
            raise ExportTooSlow(f"A file may take {SECONDS_MAX:g} s")
        try:
            return await anext(self.chunks)
        except StopAsyncIteration:
            self._is_done = True
            raise
        except Exception as error:
            self._is_done = True
            log.warning("export_cut", reason=str(error) or type(error).__name__)
            raise


async def _preceded(first: Rows, rest: Pages) -> Pages:
    yield first
    async for rows in rest:
        yield rows


def _maker_of(kind: Format) -> Callable[[Sequence[Column], Pages], AsyncIterator[bytes]]:
    if kind == "csv":
        return csv_chunks
    try:
        from farmiq.timeseries.export_arrow import arrow_chunks, parquet_chunks
    except ModuleNotFoundError as error:  # an edge box has no pyarrow, and does well without
        raise ApiError(406, "format_unavailable", "This service has no Arrow and no Parquet: ask for CSV") from error
    return arrow_chunks if kind == "arrow" else parquet_chunks
