"""docs/reference/cli.md: every command of `farmiq`, from the commands themselves."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import typer.main
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from farmiq.cli import exits
from farmiq.cli.app import app
from reference_pages.markdown import begin, code, table

# Typer brings the part of click that it uses, under a private name; these are its own classes on top of it.
Command = Any
Parameter = TyperArgument | TyperOption

KINDS = {
    "str": "TEXT",
    "int": "N",
    "int range": "N",
    "float": "NUMBER",
    "float range": "NUMBER",
    "path": "FILE",
    "datetime": "TIME",
}

PREFACE = """\
`farmiq COMMAND --help` says the same. Results go to stdout and everything else to stderr; `--json` is for programs; without a
terminal there are no colors and no bars, and `NO_COLOR` switches colors off. An error says what happened, why, and what helps:

```
error: no farm runs in ~/farmiq/.farmiq
  why: It was never started, or it was stopped.
  fix: farmiq up
```
"""

ENVIRONMENT = """\
## Environment

| Variable | |
|---|---|
| `FARMIQ_HOME` | the folder of the farm; else `.farmiq` in the checkout, or in the current folder |
| `EDGE_DATABASE_URL`, `CLOUD_DATABASE_URL`, `DATABASE_URL` | databases that commands work on, in place of the farm's |
| `MQTT_URL`, `AMQP_URL`, `S3_ENDPOINT` | servers of your own, in place of the embedded ones |
| `LOG_LEVEL` | `DEBUG`, `INFO`, `WARNING` or `ERROR`, for `farmiq run` |
| `NO_COLOR` | any value: no colors |

What services read is in [Settings](settings.md). `farmiq env` prints the addresses and credentials of the farm on this machine.
"""


def page() -> str:
    root = typer.main.get_command(app)
    lines = [*begin("The command line", "the command in src/farmiq/cli"), PREFACE, ENVIRONMENT]
    lines += ["## Exit codes", "", "They are part of the interface: scripts may decide by them.", ""]
    lines += table(("Code", "Meaning"), [(code(str(number)), text) for number, text in exits.TABLE.items()])
    for name, command in _walk(root, "farmiq"):
        lines += _described(name, command)
    return "\n".join(lines)


def _walk(command: Command, name: str) -> Iterator[tuple[str, Command]]:
    if not isinstance(command, TyperGroup):
        if not command.hidden:
            yield name, command
        return
    if name.count(" "):
        yield name, command
    for word, child in command.commands.items():
        yield from _walk(child, f"{name} {word}")


def _described(name: str, command: Command) -> list[str]:
    level = "##" if name.count(" ") == 1 else "###"
    lines = [f"{level} `{name}`", "", *_help(command)]
    if isinstance(command, TyperGroup):
        return lines
    lines += ["```", _usage(name, command), "```", ""]
    shown = [parameter for parameter in command.params if _is_shown(parameter)]
    rows = [(_written(parameter), _meaning(parameter)) for parameter in shown]
    return lines + (table(("Argument or option", "Meaning"), rows) if rows else [])


def _help(command: Command) -> list[str]:
    """As paragraphs: the terminal breaks lines where it likes, and so does the page."""
    text = inspect.cleandoc(command.help or "").replace("\f", "")
    return [line for paragraph in text.split("\n\n") for line in (_paragraph(paragraph), "")] if text else []


def _paragraph(text: str) -> str:
    # Angle brackets of <SERVICE>_PORT would be HTML on the page.
    return re.sub(r"<([A-Z_]+)>(\w*)", r"`<\1>\2`", " ".join(text.split()))


def _usage(name: str, command: Command) -> str:
    words = [_metavar(parameter) for parameter in command.params if isinstance(parameter, TyperArgument)]
    has_options = any(isinstance(parameter, TyperOption) and _is_shown(parameter) for parameter in command.params)
    return " ".join([name, *(["[OPTIONS]"] if has_options else []), *words])


def _is_shown(parameter: Parameter) -> bool:
    return not parameter.hidden and parameter.name not in {"help", "install_completion", "show_completion"}


def _written(parameter: Parameter) -> str:
    if isinstance(parameter, TyperArgument):
        return code(_metavar(parameter))
    names = ", ".join(code(option) for option in (*parameter.opts, *parameter.secondary_opts))
    return names if parameter.is_flag or parameter.count else f"{names} {code(_metavar(parameter))}"


def _metavar(parameter: Parameter) -> str:
    """As a person would write it: `DEVICE_ID`, `[SERVICE]`, `edge|cloud`, `N`."""
    found = parameter.make_metavar(ctx=typer.Context(TyperCommand("farmiq")))
    kind = re.search(r"<(.+)>$", found)
    if isinstance(parameter, TyperArgument):
        word = (
            kind[1] if kind and "|" in kind[1] else (parameter.name or "").upper() if kind or found.islower() else found
        )
        return word if parameter.required or "[" in word else f"[{word}]"
    return KINDS.get(kind[1], kind[1]) if kind else found


def _meaning(parameter: Parameter) -> str:
    said = parameter.help or ""
    if isinstance(parameter, TyperOption) and parameter.required:
        said = f"{said} Needed."
    default = _default(parameter)
    return f"{said} Default: {code(default)}." if default else said


def _default(parameter: Parameter) -> str:
    value = parameter.default
    if isinstance(parameter, TyperArgument) or parameter.is_flag or value is None or callable(value):
        return ""
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(getattr(value, "value", value))
