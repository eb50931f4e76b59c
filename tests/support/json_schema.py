"""As much of JSON Schema draft 7 as our own documents use. A keyword that it does not know is an error, not a pass."""

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_ABOUT = {"title", "description", "default", "examples", "$ref"}


class UnknownKeyword(Exception):
    """The schema says something that this file can't check: teach it."""


def complaints(value: Any, schema: dict[str, Any], document: dict[str, Any], at: str = "$") -> list[str]:
    """What is wrong with the value. `document` is where references lead."""
    if "$ref" in schema:
        return complaints(value, _resolved(schema["$ref"], document), document, at)
    return [
        complaint
        for keyword, rule in schema.items()
        if keyword not in _ABOUT
        for complaint in _judge(value, keyword, rule, document, at)
    ]


def _resolved(reference: str, document: Any) -> Any:
    for word in reference.removeprefix("#/").split("/"):
        document = document[word]
    return document


def _judge(value: Any, keyword: str, rule: Any, document: dict[str, Any], at: str) -> Iterator[str]:
    if keyword in {"allOf", "anyOf"}:
        found = [complaints(value, part, document, at) for part in rule]
        if keyword == "allOf":
            yield from (complaint for part in found for complaint in part)
        elif all(found):
            yield f"{at}: none of {len(rule)} alternatives"
    elif keyword in {"properties", "items", "additionalProperties"}:
        yield from _inside(value, keyword, rule, document, at)
    elif not _holds(value, keyword, rule):
        yield f"{at}: {keyword} {rule!r}"


def _inside(value: Any, keyword: str, rule: Any, document: dict[str, Any], at: str) -> Iterator[str]:
    if keyword == "properties" and isinstance(value, dict):
        for name, schema in rule.items():
            if name in value:
                yield from complaints(value[name], schema, document, f"{at}.{name}")
    elif keyword == "items" and isinstance(value, list):
        rules = rule if isinstance(rule, list) else [rule] * len(value)
        for place, (item, schema) in enumerate(zip(value, rules, strict=False)):
            yield from complaints(item, schema, document, f"{at}[{place}]")
    elif keyword == "additionalProperties" and isinstance(value, dict) and isinstance(rule, dict):
        for name, item in value.items():
            yield from complaints(item, rule, document, f"{at}.{name}")


def _holds(value: Any, keyword: str, rule: Any) -> bool:
    checks: dict[str, Callable[[], bool]] = {
        "type": lambda: isinstance(value, _TYPES[rule]) and not (isinstance(value, bool) and rule != "boolean"),
        "const": lambda: value == rule,
        "enum": lambda: value in rule,
        "required": lambda: not isinstance(value, dict) or set(rule) <= value.keys(),
        "minItems": lambda: not isinstance(value, list) or len(value) >= rule,
        "maxItems": lambda: not isinstance(value, list) or len(value) <= rule,
        "minLength": lambda: not isinstance(value, str) or len(value) >= rule,
        "maxLength": lambda: not isinstance(value, str) or len(value) <= rule,
        "pattern": lambda: not isinstance(value, str) or re.search(rule, value) is not None,
        "format": lambda: not isinstance(value, str) or _has_format(value, rule),
        "minimum": lambda: not _is_number(value) or value >= rule,
        "maximum": lambda: not _is_number(value) or value <= rule,
        "exclusiveMinimum": lambda: not _is_number(value) or value > rule,
        "exclusiveMaximum": lambda: not _is_number(value) or value < rule,
    }
    if keyword not in checks:
        raise UnknownKeyword(keyword)
    return checks[keyword]()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _has_format(text: str, kind: str) -> bool:
    readers: dict[str, Callable[[str], object]] = {"uuid": UUID, "date-time": datetime.fromisoformat}
    try:
        readers[kind](text)
    except ValueError:
        return False
    return True
