"""What `farmiq up` prints at the end: what runs, where it is, how to get in, and what to type next."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from farmiq.cli.terminal import console, own_name, put

if TYPE_CHECKING:
    from rich.table import Table

    from farmiq.stack.state import StackState

NEXT = (
    ("{farmiq} open", "the console, in a browser"),
    ("{farmiq} watch", "the farm at work: device, edge, cloud"),
    ("{farmiq} demo break wan", "cut the cloud off; {farmiq} demo heal counts what arrived"),
    ("{farmiq} status", "the path of a sample, with the counts at each hop"),
    ("{farmiq} logs -f", "what everything is doing"),
    ('eval "$({farmiq} env)"', "the addresses above, as variables of your shell"),
    ("{farmiq} down", "stop; the data stays"),
)


def show(state: "StackState", environment: Mapping[str, str], *, is_new: bool) -> None:
    page = console()
    servers = sum(child.kind == "server" for child in state.children)
    services = len(state.children) - servers
    began = "The farm is up" if is_new else "The farm was up already"
    page.print(f"\n[bold green]✔ {began}:[/] {servers} servers and {services} services are healthy.\n")
    if address := environment.get("CONSOLE_URL"):
        page.print(
            f"  [bold]Console[/]  {address}   name [bold]admin[/]   password [bold]{environment['CONSOLE_PASSWORD']}[/]\n"
        )
    put(page, _running(state))
    page.print()
    put(page, _connections(environment))
    page.print()
    put(page, _next(state.home))


def _running(state: "StackState") -> "Table":
    table = _table("What runs")
    for child in sorted(state.children, key=lambda child: child.kind == "server"):
        shown = f"{child.url}/api-docs" if child.kind == "service" and child.url else child.url or "-"
        table.add_row(child.name, child.kind, shown)
    return table


def _connections(environment: Mapping[str, str]) -> "Table":
    """In full, credentials too: that is what they are printed for. They are this home's own, and open nothing elsewhere."""
    from rich.text import Text

    table = _table("How to get in (random credentials, made at the first start)")
    for name, value in environment.items():
        table.add_row(name, Text(value, overflow="fold"))
    return table


def _next(home: str) -> "Table":
    from rich.text import Text

    table = _table("What next")
    for command, purpose in NEXT:
        table.add_row(Text(command.format(farmiq=own_name()), style="cyan"), purpose.format(farmiq=own_name()))
    table.add_row("all data is in", Text(home, overflow="fold"))
    return table


def _table(title: str) -> "Table":
    from rich.table import Table

    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=None,
        show_header=False,
        pad_edge=False,
        padding=(0, 2, 0, 2),
    )
