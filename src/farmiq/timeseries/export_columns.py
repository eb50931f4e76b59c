"""What an exported file is made of: named columns of a few kinds, and rows in pages."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal, NamedTuple

Kind = Literal["text", "uuid", "time", "float", "int", "bool"]
Rows = Sequence[Sequence[Any]]
Pages = AsyncIterator[Rows]


class Column(NamedTuple):
    name: str
    kind: Kind
