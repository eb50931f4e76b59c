"""What is to be sent, from the arguments or from standard input."""

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, Any
from uuid import UUID

from farmiq.cli.errors import BadUsage
from farmiq.contracts.ids import InvalidId, check_metric
from farmiq.kit.ids import new_id

INPUT_BYTES_MAX = 64 * 1024
VALUES_MAX = 100
_FIX = "farmiq send --device ID temp=4.2, or: echo '{\"temp\": 4.2}' | farmiq send --device ID"


@dataclass(frozen=True)
class Value:
    event_id: UUID
    metric: str
    value: float
    unit: str

    @property
    def taken_at(self) -> datetime:
        """The time inside the id: the same value sent once more is then the same message, to the last byte."""
        return datetime.fromtimestamp((self.event_id.int >> 80) / 1000, UTC)


def read_values(words: Sequence[str], unit: str, event_id: UUID | None, stdin: IO[str] | None = None) -> list[Value]:
    pairs = [_pair(word) for word in words] if words else _from_input(stdin or sys.stdin)
    if not 1 <= len(pairs) <= VALUES_MAX:
        raise BadUsage(f"{len(pairs)} values", why=f"There must be 1 to {VALUES_MAX}.", fix=_FIX)
    if (unit or event_id) and len(pairs) > 1:
        raise BadUsage("--unit and --event-id belong to one value", why=f"{len(pairs)} were given.", fix=_FIX)
    if event_id is not None and event_id.version != 7:
        raise BadUsage("--event-id is not one of ours", why="It is the id of an earlier send, a UUID v7.", fix=_FIX)
    return [Value(event_id or new_id(), _metric(name), _number(name, value), unit) for name, value in pairs]


def _pair(word: str) -> tuple[str, Any]:
    name, equals, text = word.partition("=")
    if not equals:
        raise BadUsage(f"{word!r} is not METRIC=VALUE", why="A value has a name.", fix=_FIX)
    try:
        return name, float(text)
    except ValueError:
        return name, text


def _from_input(stdin: IO[str]) -> list[tuple[str, Any]]:
    if stdin.isatty():
        raise BadUsage("what is to be sent?", why="No value was given, and nothing is piped in.", fix=_FIX)
    text = stdin.read(INPUT_BYTES_MAX)
    if not text.strip():
        raise BadUsage("the input is empty", why="No value was given, and standard input held none.", fix=_FIX)
    try:
        told = json.loads(text)
    except ValueError as error:
        raise BadUsage("the input is not JSON", why=str(error), fix=_FIX) from error
    if not isinstance(told, dict):
        raise BadUsage("the input is not a JSON object", why="Each value needs the name of its metric.", fix=_FIX)
    return list(told.items())


def _metric(name: str) -> str:
    try:
        return check_metric(name)
    except InvalidId as error:
        raise BadUsage(str(error), why=" ".join((InvalidId.__doc__ or "").split()), fix=_FIX) from error


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadUsage(f"{name} is {str(value)[:80]!r}", why="A value is a finite number.", fix=_FIX)
    return float(value)
