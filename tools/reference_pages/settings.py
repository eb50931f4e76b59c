"""docs/reference/settings.md: every variable that a service reads, from its settings struct.

What a setting means stands beside it in the code: as the text below the field, as the description of its type, or as a comment
above it. All three are shown, in that order.
"""

import ast
import enum
import importlib
import inspect
import io
import pkgutil
import tokenize
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeGuard

import msgspec
from msgspec import inspect as kinds
from msgspec.structs import FieldInfo

from farmiq.contracts.services import SERVICES, Service
from farmiq.kit.jobs import JobSettings
from farmiq.kit.s3_settings import ObjectStoreSettings
from farmiq.kit.settings import HttpSettings, Settings, is_secret
from reference_pages.markdown import begin, code, table

HEADINGS = ("Variable", "Type", "Default", "Meaning")
SHARED = (HttpSettings, JobSettings, ObjectStoreSettings)

PREFACE = """\
Every service is set by environment variables. A wrong value stops the start with one error that names every wrong variable and
what is allowed, and exit code 78.

- `NAME_FILE` names a file that holds the value of `NAME`, for each variable on this page. Use it for those marked *secret*, so
  that they stand in no environment. Secrets are hidden in logs and errors.
- *needed* means that there is no default: without it the service does not start.
- When several services run in one process, `PORT` is not allowed: `<SERVICE>_PORT` gives each its own, for example
  `EDGE_SYNC_FORWARDER_PORT=6108`.
- Lists are written with commas. Yes and no are `true` and `false`.
- `INSTANCE_ID` names a replica; without it, it is the host's name and the process id. A replica of `edge-ingress-gateway` needs
  a name that it keeps when it starts again.

What `farmiq` itself reads is in [The command line](cli.md#environment).
"""


def page() -> str:
    lines = [*begin("Settings", "the settings struct of the service"), PREFACE]
    lines += _section("Every service with an HTTP port", [HttpSettings])
    lines += _section("Services that run jobs", [JobSettings])
    lines += _section("Services that use an object store", [ObjectStoreSettings])
    for service in SERVICES:
        if structs := structs_of(service):
            lines += _section(service.name, structs, _also(service))
    return "\n".join(lines)


def structs_of(service: Service) -> list[type[Settings]]:
    """All settings that the service's modules know: its own in the order of the file, then those of a library that it runs."""
    package = importlib.import_module(service.module.removesuffix(".main"))
    names = sorted(info.name for info in pkgutil.iter_modules(package.__path__))
    modules = [importlib.import_module(f"{package.__name__}.{name}") for name in ("settings", *names)]
    found = [value for module in modules for value in vars(module).values() if _is_settings(value)]
    return sorted(dict.fromkeys(found), key=lambda struct: struct.__module__ != f"{package.__name__}.settings")


def _is_settings(value: object) -> TypeGuard[type[Settings]]:
    return isinstance(value, type) and issubclass(value, Settings) and value not in (Settings, *SHARED)


def _also(service: Service) -> str:
    """Which of the shared settings it reads, from what it imports."""
    package = importlib.import_module(service.module.removesuffix(".main")).__path__[0]
    source = "".join(path.read_text(encoding="utf-8") for path in sorted(Path(package).glob("*.py")))
    names = {
        "HttpSettings": "[those of every HTTP service](#every-service-with-an-http-port)",
        "kit.jobs import": "[jobs](#services-that-run-jobs)",
        "ObjectStoreSettings": "[the object store](#services-that-use-an-object-store)",
    }
    used = [link for word, link in names.items() if word in source]
    return f"Also: {', '.join(used)}." if used else ""


def _section(title: str, structs: Sequence[type[Settings]], also: str = "") -> list[str]:
    rows = [row for struct in structs for row in _rows(struct)]
    return [f"## {title}", "", *([also, ""] if also else []), *table(HEADINGS, rows)]


def _rows(struct: type[Settings]) -> Iterator[tuple[str, str, str, str]]:
    """Without what every HTTP service has: that stands in a section of its own, where only the port has no default."""
    shared = {field.name for field in msgspec.structs.fields(HttpSettings)} - {"port"}
    for field in msgspec.structs.fields(struct):
        if struct is not HttpSettings and issubclass(struct, HttpSettings) and field.name in shared:
            continue
        default = "see the service" if struct is HttpSettings and field.name == "port" else default_of(field)
        yield code(field.name.upper()), type_of(field), default, meaning_of(struct, field)


# --- One setting ---------------------------------------------------------------------------------------------------------------


def type_of(field: FieldInfo) -> str:
    said = _said(kinds.type_info(field.type))
    return f"{said}, *secret*" if is_secret(field.type) else said


def default_of(field: FieldInfo) -> str:
    if field.default is msgspec.NODEFAULT:
        return "*needed*"
    value = field.default.value if isinstance(field.default, enum.Enum) else field.default
    if value in (None, "", ()):
        return "unset"
    if isinstance(value, bool):
        return code(str(value).lower())
    return code(",".join(map(str, value)) if isinstance(value, tuple) else str(value))


def meaning_of(struct: type[Settings], field: FieldInfo) -> str:
    """From the class that declares the field, which may be one above."""
    for owner in struct.__mro__:
        if field.name in getattr(owner, "__annotations__", {}):
            below, above = _written_beside(owner).get(field.name, ([], []))
            said = [*below, *_descriptions(field.type), *above]
            return " ".join(_sentence(text) for text in dict.fromkeys(said))
    return ""


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    text = text if text[:1] in "`{" or "://" in text.partition(" ")[0] else text[:1].upper() + text[1:]
    return text if text.endswith((".", ":", "!", "?")) else f"{text}."


def _descriptions(annotation: Any) -> Iterator[str]:
    for meta in getattr(annotation, "__metadata__", ()):
        if isinstance(meta, msgspec.Meta) and meta.description:
            yield meta.description
    for part in getattr(annotation, "__args__", ()):
        yield from _descriptions(part)


def _said(kind: kinds.Type) -> str:
    if isinstance(kind, kinds.Metadata):
        return _said(kind.type)
    if isinstance(kind, kinds.UnionType):
        return " or ".join(_said(part) for part in kind.types if not isinstance(part, kinds.NoneType))
    if isinstance(kind, kinds.LiteralType):
        return "one of " + ", ".join(code(str(value)) for value in kind.values)
    if isinstance(kind, kinds.EnumType):
        return "one of " + ", ".join(code(str(member.value)) for member in kind.cls)
    if isinstance(kind, kinds.VarTupleType):
        return "list, each " + _said(kind.item_type)
    return _plain(kind)


def _plain(kind: kinds.Type) -> str:
    match kind:
        case kinds.BoolType():
            return "yes or no"
        case kinds.IntType():
            return f"whole number{_range(kind)}"
        case kinds.FloatType():
            return f"number{_range(kind)}"
        case kinds.StrType():
            return "text"
        case kinds.CustomType() if kind.cls is Path:
            return "path"
    raise TypeError(f"settings of type {kind} have no words yet: give them some here")


def _range(kind: kinds.IntType | kinds.FloatType) -> str:
    low = _bound(kind.ge, "", kind.gt, "above ")
    high = _bound(kind.le, "", kind.lt, "below ")
    if low and high:
        return f", {low} to {high}"
    return f", {low} or more" if low else f", at most {high}" if high else ""


def _bound(included: float | None, included_word: str, excluded: float | None, excluded_word: str) -> str:
    if included is not None:
        return f"{included_word}{included:,}"
    return "" if excluded is None else f"{excluded_word}{excluded:,}"


# --- What stands beside it in the source ----------------------------------------------------------------------------------------


@cache
def _written_beside(owner: type) -> dict[str, tuple[list[str], list[str]]]:
    """For each field the text below it, and the comment above it."""
    module = inspect.getmodule(owner)
    if module is None:
        raise TypeError(f"{owner} has no source")
    found: dict[str, tuple[list[str], list[str]]] = {}
    body = _class_body(module, owner.__name__)
    for place, node in enumerate(body):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            after = body[place + 1] if place + 1 < len(body) else None
            found[node.target.id] = _text_below(after), _comment_above(module, node.lineno)
    return found


@cache
def _class_body(module: ModuleType, name: str) -> list[ast.stmt]:
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return node.body
    raise TypeError(f"{module.__name__} does not declare {name}")


def _text_below(node: ast.stmt | None) -> list[str]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return [node.value.value]
    return []


def _comment_above(module: ModuleType, line: int) -> list[str]:
    comments, words = _comments(module), []
    while (line := line - 1) in comments:
        words.append(comments[line])
    return [" ".join(reversed(words))] if words else []


@cache
def _comments(module: ModuleType) -> dict[int, str]:
    """Those that have a line of their own."""
    tokens = tokenize.generate_tokens(io.StringIO(inspect.getsource(module)).readline)
    return {
        token.start[0]: token.string.lstrip("# ")
        for token in tokens
        if token.type == tokenize.COMMENT and not token.line[: token.start[1]].strip()
    }
