from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from farmiq.cli.errors import BadUsage, CommandFailed
from farmiq.cli.secret_output import Output, secret_writer
from farmiq.cli.terminal import as_json_text, say, say_json

if TYPE_CHECKING:
    from pathlib import Path

    from farmiq.console.store import Store

console = typer.Typer(
    name="console",
    help="Let people into the console, see them, give them new passwords.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="How the person logs in.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@console.command()
def add(
    name: Name,
    role: Annotated[
        str, typer.Option(help="viewer looks, operator repairs, admin lets people and devices in.")
    ] = "viewer",
    tenant: Annotated[list[str] | None, typer.Option(help="What they may see. Default: all.")] = None,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Let a person into the console, with a random password that is shown this once.

    The console's folder is CONSOLE_STATE_DIR when it is set, else that of the farm of this machine.
    """
    from datetime import UTC, datetime

    from farmiq.console.passwords import hash_password, new_password
    from farmiq.console.roles import ROLES

    if role not in ROLES:
        raise BadUsage(f"there is no role {role!r}", why="There are viewer, operator and admin.", fix="--role viewer")
    password = new_password()
    with secret_writer(output) as write:
        with _people() as store, _written_down(store, "person.add", name, role=role, tenants=tenant or []):
            store.add_person(name, role, tenant or [], hash_password(password), datetime.now(UTC))
        write(_password_text(name, password, as_json))


@console.command()
def ls(as_json: AsJson = False) -> None:
    """Who may use the console."""
    with _people() as store:
        people = store.people()
    if as_json:
        say_json([{"name": one.name, "role": one.role, "tenants": one.tenants} for one in people])
        return
    for one in people:
        say(f"{one.name}  {one.role}  {', '.join(one.tenants) or 'all tenants'}")


@console.command()
def password(name: Name, output: Output = None, as_json: AsJson = False) -> None:
    """Give a person a new random password. Whoever is logged in with the old one is out."""
    from farmiq.console.passwords import hash_password, new_password

    made = new_password()
    with secret_writer(output) as write:
        with _people() as store, _written_down(store, "password.change", name):
            store.set_password(name, hash_password(made))
        write(_password_text(name, made, as_json))


@console.command()
def remove(name: Name) -> None:
    """Let a person in no longer. What they did stays in the audit trail."""
    with _people() as store, _written_down(store, "person.remove", name):
        store.remove_person(name)
    say(f"{name} can log in no longer")


@contextmanager
def _people() -> "Iterator[Store]":
    from contextlib import closing

    from farmiq.console.store import PersonKnown, PersonUnknown, Store

    folder = _folder()
    try:
        with closing(Store(folder)) as store:
            yield store
    except (PersonKnown, PersonUnknown) as error:
        is_known = isinstance(error, PersonKnown)
        raise CommandFailed(
            str(error),
            why="Two people can't log in with the same name." if is_known else "Nobody logs in with that name.",
            fix=f"{'another name, or ' if is_known else ''}farmiq console ls shows the names that there are",
        ) from error


@contextmanager
def _written_down(store: "Store", action: str, subject: str, **detail: object) -> "Iterator[None]":
    """In the audit trail, before it is done and again with how it ended, under the name of whoever uses this machine."""
    import getpass
    from datetime import UTC, datetime

    number = store.begin_deed(f"{getpass.getuser()} (command line)", None, action, subject, detail, datetime.now(UTC))
    try:
        yield
    except BaseException as error:
        store.end_deed(number, f"failed: {error}")
        raise
    store.end_deed(number, "done")


def _folder() -> "Path":
    import os
    from pathlib import Path

    from farmiq.cli.running import this_home
    from farmiq.console.store import FILE

    chosen = os.environ.get("CONSOLE_STATE_DIR")
    folder = Path(chosen) if chosen else this_home().server_folder("console")
    if not (folder / FILE).exists():
        raise CommandFailed(
            f"there is no console in {folder}",
            why="It has never been started there.",
            fix="farmiq up, or set CONSOLE_STATE_DIR to the folder of the console",
        )
    return folder


def _password_text(name: str, made: str, as_json: bool) -> str:
    if as_json:
        return as_json_text({"name": name, "password": made})
    return f"{name} logs in with the password {made}\nIt is shown this once and kept nowhere."
