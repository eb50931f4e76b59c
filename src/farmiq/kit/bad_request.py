"""What is wrong with a request, in words of the HTTP API: the names that the caller wrote, and what would be right.

The web framework describes the Python function that it could not call: its argument names, its types, their representation. None
of that is passed on. Each message that is known is said in other words; one that is not known says only where something is wrong.
"""

import ast
import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, get_args

from litestar import Request
from litestar.exceptions import HTTPException
from litestar.params import ParameterKwarg

_TYPES: Final = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "null": "null",
    "object": "an object",
    "array": "a list",
    "bytes": "base64 text",
    "uuid": "a UUID",
    "datetime": "a time",
}
_TIME: Final = "expected a time with a zone as in RFC 3339, like 2026-11-16T10:00:00Z"
_LIMITS: Final = {">=": "of at least", "<=": "of at most", ">": "above", "<": "below"}
_UNITS: Final = {"str": " characters", "array": " entries", "object": " fields"}

_Say = Callable[[re.Match[str]], str]
_MESSAGES: Final[tuple[tuple[re.Pattern[str], _Say], ...]] = (
    (re.compile(r"Expected `([^`]+)`, got `([^`]+)`"), lambda m: f"expected {_type(m[1])}, got {_type(m[2])}"),
    (
        re.compile(r"Expected `(\w+)(?: \| null)?` of length (>=|<=) (\d+)"),
        lambda m: f"expected {_type(m[1])} {_LIMITS[m[2]]} {m[3]}{_UNITS.get(m[1], '')}",
    ),
    (
        re.compile(r"Expected `(\w+)(?: \| null)?` (>=|<=|>|<) (-?[\d.e+]+)"),
        lambda m: f"expected {_type(m[1])} {_LIMITS[m[2]]} {m[3]}",
    ),
    (
        re.compile(r"Expected `str(?: \| null)?` matching regex ('.*'|\".*\")"),
        lambda m: f"expected text that matches {ast.literal_eval(m[1])}",
    ),
    (re.compile(r"Invalid RFC3339|Expected `datetime`"), lambda _: _TIME),
    (re.compile(r"Number out of range"), lambda _: "the number is too large"),
    (re.compile(r"Invalid UUID|badly formed hexadecimal UUID"), lambda _: "expected a UUID"),
    (re.compile(r"Object missing required field `([^`]+)`"), lambda m: f"the field {m[1]} is missing"),
    (re.compile(r"Object contains unknown field `([^`]+)`"), lambda m: f"the field {m[1]} does not exist"),
    (re.compile(r"Invalid enum value|Invalid value"), lambda _: "this value is not one of those that are allowed"),
    (re.compile(r"JSON is malformed: ([\w ,'-]+) \(byte (\d+)\)"), lambda m: f"not JSON: {m[1]} at byte {m[2]}"),
    (re.compile(r"Input data was truncated"), lambda _: "not JSON: it ends too early"),
    (re.compile(r"codec can't decode|Invalid UTF-8|surrogate"), lambda _: "not JSON: it is not UTF-8"),
)
_PLACE: Final = re.compile(r" - at `\$\.?([^`]*)`$")
_MISSING: Final = re.compile(r"Missing required (\w+) parameter '([^']+)'")


def plain(message: str) -> str:
    """A message of the JSON decoder in other words, with the place that it names."""
    place = _PLACE.search(message)
    known = ((pattern.match(message) or pattern.search(message), say) for pattern, say in _MESSAGES)
    words = next((say(match) for match, say in known if match), "this value is not allowed")
    return f"{words} (at {place[1]})" if place and place[1] and place[1] != "..." else words


def describe(request: Request[Any, Any, Any], error: HTTPException) -> str:
    """A sentence for what the framework found wrong before a handler was called."""
    if missing := _MISSING.match(error.detail):
        return f"The {missing[1]} parameter {missing[2]} is missing"
    if isinstance(error.extra, list) and error.extra:
        return "; ".join(_entry(request, entry) for entry in error.extra)
    words = plain(error.detail)
    is_about_the_body = request.method not in ("GET", "HEAD") and words != plain("")
    return f"The body is wrong: {words}" if is_about_the_body else _phrase(error.status_code)


def _entry(request: Request[Any, Any, Any], entry: Mapping[str, Any]) -> str:
    name, words = str(entry.get("key", "")), plain(str(entry.get("message", "")))
    if entry.get("source") == "body" or not name:
        return f"The body is wrong: {words}" + (f" (at {name})" if name not in ("", "data") else "")
    name = name.partition(".")[0]
    fields = request.route_handler.parsed_fn_signature.parameters
    kind, written = "", name
    allowed: tuple[str, ...] = ()
    if name in fields:
        definition = fields[name].kwarg_definition
        if isinstance(definition, ParameterKwarg):
            kind, written = f"{definition.param_type.value} ", definition.name or name
        allowed = _choices(fields[name].annotation)
    words = f"expected one of {', '.join(allowed)}" if allowed else words.replace(" or null", "")
    return f"The {kind}parameter {written} is wrong: {words}"


def _choices(annotation: Any) -> tuple[str, ...]:
    """The values of a `Literal`, also one of several in a union."""
    values = [one for part in (annotation, *get_args(annotation)) for one in get_args(part)]
    return tuple(dict.fromkeys(one for one in values if isinstance(one, str) and one))


def _type(name: str) -> str:
    return " or ".join(_TYPES.get(one, "another kind of value") for one in name.split(" | "))


def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase
