"""A table of a device's own file as a struct, or what is wrong with it in the words of somebody who edits the file."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import Struct

_PLACE = re.compile(r" - at `\$(?P<path>[^`]*)`$")

S = TypeVar("S", bound=Struct)


class BadTable(ValueError):
    """A key of the file is unknown, missing, or has a value that is not allowed."""


def as_struct(table: Mapping[str, Any], kind: type[S], place: str) -> S:
    if unknown := next(_unknown_keys(table, kind, place), None):
        raise BadTable(unknown)
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        found = _PLACE.search(str(error))
        path = found["path"] if found else ""
        said = _PLACE.sub("", str(error))
        raise BadTable(f"{place}{path}: {said}{_choices(kind, path)}") from error


def _unknown_keys(table: Mapping[str, Any], kind: type[Struct], place: str) -> Iterator[str]:
    """Ahead of the conversion, which would not say what is allowed instead."""
    fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
    for key, value in table.items():
        if key not in fields:
            yield f"{place}.{key} is unknown: allowed are {', '.join(fields)}"
        elif (inner := _struct_in(fields[key])) is not None and isinstance(value, list):
            for at, one in enumerate(value):
                if isinstance(one, Mapping):
                    yield from _unknown_keys(one, inner, f"{place}.{key}[{at}]")


def _choices(kind: type[Struct], path: str) -> str:
    """The values of a key that has only a few."""
    here: Any = kind
    for name in re.findall(r"\.(\w+)", path):
        inside = _struct_in(here)
        types = {field.name: field.type for field in msgspec.structs.fields(inside)} if inside else {}
        here = types.get(name)
    values = [value for part in _parts(here) if get_origin(part) is Literal for value in get_args(part)]
    return f": allowed are {', '.join(map(repr, values))}" if values else ""


def _struct_in(annotation: Any) -> type[Struct] | None:
    return next((part for part in _parts(annotation) if isinstance(part, type) and issubclass(part, Struct)), None)


def _parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    if get_origin(annotation) is not Literal:
        for part in get_args(annotation):
            yield from _parts(part)
