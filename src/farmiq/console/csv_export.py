"""Every table as CSV. A cell that a spreadsheet would run as a formula is text."""

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from litestar import Response

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")


def csv_response(name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Response[bytes]:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return Response(
        text.getvalue().encode(),
        media_type="text/csv; charset=utf-8",
        headers={"content-disposition": f'attachment; filename="{name}.csv"'},
    )


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS):
        return f"'{value}"
    return value
