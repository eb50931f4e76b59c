"""Many rows in one statement: each key once, because a statement can't write a row twice, and in the order of the keys."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from farmiq.kit.postgres import Connection

T = TypeVar("T")
Row = tuple[Any, ...]


def one_per_key(items: Iterable[T], key_of: Callable[[T], Any], rank_of: Callable[[T], Any]) -> list[T]:
    """Of several with one key, the one of the lowest rank stays, as the statement's own condition has it."""
    stays: dict[Any, T] = {}
    for item in items:
        key = key_of(item)
        if key not in stays or rank_of(item) < rank_of(stays[key]):
            stays[key] = item
    return [stays[key] for key in sorted(stays)]


async def write_rows(connection: Connection, statement: str, rows: Sequence[Row]) -> None:
    """The statement takes one array for each column."""
    if rows:
        await connection.execute(statement, *(list(column) for column in zip(*rows, strict=True)))
