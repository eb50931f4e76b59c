"""Every table as CSV. A cell that a spreadsheet would run as a formula is text."""

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Final

from litestar import Response
from msgspec import Struct

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")


def csv_response(
    name: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    rows_max: int | None = None,
    has_more: bool = False,
) -> Response[bytes]:
    """`rows_max`: no more of them are put into the file. If there are more, or `has_more` is true, its name and its last line say
    so: a file that ends early without a word is taken for all that there is."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    left = iter(rows)
    written = 0
    for row in islice(left, rows_max):
        writer.writerow([_cell(value) for value in row])
        written += 1
    if has_more or next(left, None) is not None:
        writer.writerow([f"(only {written:,} are in this file: there are more)"])
        name = f"{name}-first-{written}"
    return Response(
        text.getvalue().encode(),
        media_type="text/csv; charset=utf-8",
        headers={"content-disposition": f'attachment; filename="{name}.csv"'},
    )


def csv_of_structs(
    name: str, kind: type[Struct], rows: Iterable[Struct], *, rows_max: int | None = None
) -> Response[bytes]:
    """A column for each field."""
    fields = kind.__struct_fields__
    return csv_response(name, fields, ([getattr(row, field) for field in fields] for row in rows), rows_max=rows_max)


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS):
        return f"'{value}"
    return value
