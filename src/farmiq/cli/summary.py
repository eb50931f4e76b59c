"""The one screen that `farmiq up` ends with: the console, its login, and what to type next."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from farmiq.cli.terminal import console, is_interactive, own_name

if TYPE_CHECKING:
    from farmiq.stack.state import StackState

NEXT = (
    ("open", "the console, in a browser"),
    ("watch", "the farm at work: device, edge, cloud"),
    ("demo break wan", "cut the cloud off; demo heal counts what arrived"),
)


def show(state: "StackState", environment: Mapping[str, str], *, is_new: bool) -> None:
    from rich.markup import escape

    page = console()
    servers = sum(child.kind == "server" for child in state.children)
    began = "The farm is up" if is_new else "The farm was up already"
    services = len(state.children) - servers
    page.print(f"\n[bold green]✔ {began}:[/] {servers} servers and {services} services are healthy.\n", soft_wrap=True)
    if address := environment.get("CONSOLE_URL"):
        page.print(f"  Console   [bold]{address}[/]", soft_wrap=True)
        page.print(f"  Login     {escape(login_text(environment))}\n", soft_wrap=True)
    width = max(len(command) for command, _ in NEXT)
    for command, purpose in NEXT:
        page.print(f"  [cyan]{own_name()} {command:<{width}}[/]   {purpose}", soft_wrap=True)
    more = (("status", "what runs"), ("env", "addresses and credentials"), ("down", "stop, and keep the data"))
    page.print(
        "\n  More commands: " + ", ".join(f"[cyan]{command}[/] ({purpose})" for command, purpose in more),
        soft_wrap=True,
    )
    page.print(f"  Data: {escape(state.home)}", soft_wrap=True)


def login_text(environment: Mapping[str, str]) -> str:
    """With the password only where a person reads it: the output of a build is kept, and read by others."""
    if is_interactive():
        return f"admin, password {environment['CONSOLE_PASSWORD']}"
    return f"admin, password: {own_name()} env CONSOLE_PASSWORD"
