"""The one place that turns an error into what a person reads: what happened, why, and what to do."""

import inspect
import re
from dataclasses import dataclass

import typer

from farmiq.cli import exits
from farmiq.cli.errors import CommandFailed
from farmiq.kit.errors import FarmiqError

LOOK_FURTHER = "farmiq doctor"
# The library has this class in another module in each of its versions.
UsageError = typer.BadParameter.__mro__[1]


@dataclass(frozen=True)
class Explanation:
    what: str
    why: str
    fix: str
    exit_code: int = exits.FAILED


def explain(error: BaseException) -> Explanation | None:
    """None for an error that nobody has named: that one keeps its traceback."""
    if isinstance(error, UsageError):
        return _explain_usage(error)
    if isinstance(error, typer.Abort):
        return Explanation("aborted", "The question was not answered.", "", exits.FAILED)
    if isinstance(error, CommandFailed):
        return Explanation(str(error), error.why, error.fix, error.exit_code)
    if not isinstance(error, FarmiqError):
        return None
    what = str(error) or type(error).__name__
    if error.code == "bad_settings":
        return Explanation(what, _why(error), "Set the variables named above, then start again.", exits.BAD_SETTINGS)
    return Explanation(what, _why(error), getattr(error, "fix", None) or LOOK_FURTHER)


def render(explanation: Explanation, *, program: str = "farmiq", color: bool = False) -> str:
    red, dim, off = ("\x1b[1;31m", "\x1b[2m", "\x1b[0m") if color else ("", "", "")
    fix = re.sub(r"\bfarmiq(?= [a-z])", lambda _: program, explanation.fix)
    lines = [_labelled(f"{red}error:{off} ", explanation.what)]
    lines += [
        _labelled(f"  {dim}{label}:{off} ", text) for label, text in (("why", explanation.why), ("fix", fix)) if text
    ]
    return "\n".join(lines) + "\n"


def _explain_usage(error: BaseException) -> Explanation:
    """An argument that the library refused before the command began."""
    what = " ".join(error.format_message().split())  # type: ignore[attr-defined]  # see UsageError
    context: typer.Context | None = error.ctx  # type: ignore[attr-defined]  # see UsageError
    if context is None:
        return Explanation(what, "", "farmiq --help", exits.USAGE)
    usage = " ".join(context.get_usage().removeprefix("Usage:").split())
    why = f"It is used as: {usage}"
    if hasattr(error, "option_name"):
        names = [name for parameter in context.command.params for name in parameter.opts if name.startswith("--")]
        why = f"Its options are {', '.join(names)}." if names else "It has no options."
    return Explanation(what[:1].lower() + what[1:], why, f"{context.command_path} --help", exits.USAGE)


def _why(error: FarmiqError) -> str:
    """The class says what the operator needs to know about this kind; the driver's own words follow as its cause."""
    kind = " ".join(inspect.cleandoc(type(error).__doc__ or "").split())
    cause = f"({type(error.__cause__).__name__}: {error.__cause__})" if error.__cause__ else ""
    return " ".join(part for part in (kind, cause) if part)


def _labelled(label: str, text: str) -> str:
    return label + text.strip().replace("\n", "\n       ")
