"""CSV as RFC 4180 has it, in UTF-8. Times are UTC with microseconds, always in one form; a null is an empty cell.

A spreadsheet takes a cell that begins with = + - @ for a formula. Text from outside may be one, so such cells get an apostrophe
in front, which spreadsheets show as nothing. Numbers keep their sign.
"""

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from farmiq.timeseries.export_columns import Column, Kind, Pages, Rows

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")


async def csv_chunks(columns: Sequence[Column], pages: Pages) -> AsyncIterator[bytes]:
    yield _lines([[column.name for column in columns]])
    kinds = [column.kind for column in columns]
    async for rows in pages:
        yield await asyncio.to_thread(_page, kinds, rows)


def harmless(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def _page(kinds: Sequence[Kind], rows: Rows) -> bytes:
    """Column by column: numbers go as they are, and names, of which a page has few, are looked at once each."""
    if not rows:
        return b""
    columns = [_column(kind, values) for kind, values in zip(kinds, zip(*rows, strict=True), strict=True)]
    return _lines(zip(*columns, strict=True))


def _column(kind: Kind, values: Sequence[Any]) -> Iterable[object]:
    if kind in ("float", "int"):
        return values
    if kind == "time":
        return [None if at is None else _time(at) for at in values]
    known: dict[Any, str | None] = {None: None}
    for value in set(values) - {None}:
        known[value] = _TEXT_OF[kind](value)
    return [known[value] for value in values]


def _lines(rows: Iterable[Iterable[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def _time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


_TEXT_OF: Final[dict[Kind, Callable[[Any], str]]] = {
    "text": harmless,
    "uuid": str,
    "bool": lambda value: "true" if value else "false",
}
